// What recover makes of cut and damaged files: every whole chunk is kept, none is invented, and
// what is missing is counted.
#include "src/format/recover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "src/format/trace_reader.h"
#include "src/format/trace_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::make_trace;
using testing::read_all;
using testing::to_bytes;

struct Recovered {
  Status status;
  Recovery recovery;
  Bytes file;
};

Recovered recovered(const Bytes& file) {
  Recovered result;
  auto recovery = recover(open_memory("t", file), write_memory(&result.file));
  result.status = recovery.status();
  if (recovery.ok()) result.recovery = std::move(*recovery);
  return result;
}

std::vector<ChunkEntry> chunks_of(const Bytes& file) {
  const auto reader = TraceReader::open(open_memory("t", file));
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  if (!reader.ok()) return {};
  return {(*reader)->chunks().begin(), (*reader)->chunks().end()};
}

std::uint64_t counter(const Bytes& file, const char* name) {
  return (*TraceReader::open(open_memory("t", file)))->summary().counter(name);
}

void expect_readable(const Bytes& file) {
  const testing::ReadOutcome outcome = read_all(file);
  // A value that a call names may be lost; everything else is there.
  EXPECT_TRUE(outcome.status.ok() || outcome.status.code() == Code::kNotFound)
      << outcome.status.message();
  EXPECT_FALSE(outcome.cut);
}

TEST(Recover, AWholeFileOrOneWithoutItsEndComesOutByteForByte) {
  const Bytes whole = make_trace(3);
  const std::uint64_t index =
      chunks_of(whole).back().offset + kChunkHeaderSize + chunks_of(whole).back().stored_size;
  for (const std::size_t size : {whole.size(), whole.size() - 1, whole.size() - kFooterSize}) {
    const Recovered result = recovered({whole.begin(), whole.begin() + static_cast<long>(size)});
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_TRUE(result.recovery.whole());
    EXPECT_EQ(result.recovery.calls_kept, 6u);
    EXPECT_EQ(result.file, whole);
  }
  // Up to its index the recording is whole too; the torn index is bytes of no chunk.
  const Recovered torn = recovered({whole.begin(), whole.begin() + static_cast<long>(index)});
  EXPECT_TRUE(torn.recovery.whole());
  EXPECT_EQ(torn.file, whole);
}

TEST(Recover, EveryPrefixKeepsItsWholeChunks) {
  const Bytes whole = make_trace(1);
  const std::vector<ChunkEntry> all = chunks_of(whole);
  for (std::size_t size = 0; size < all.back().offset; ++size) {
    SCOPED_TRACE(size);
    std::vector<Hash128> expected;
    std::uint64_t calls = 0;
    std::uint64_t end = kFileHeaderSize;
    for (const ChunkEntry& chunk : all) {
      if (chunk.offset + kChunkHeaderSize + chunk.stored_size > size) break;
      end = chunk.offset + kChunkHeaderSize + chunk.stored_size;
      expected.push_back(chunk.content);
      if (chunk.kind == ChunkKind::kProgram) calls += chunk.calls;
    }
    const Recovered result = recovered({whole.begin(), whole.begin() + static_cast<long>(size)});
    if (expected.empty()) {
      EXPECT_EQ(result.status.code(), Code::kCorrupt);
      continue;
    }
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_FALSE(result.recovery.whole());
    EXPECT_EQ(result.recovery.chunks_kept, expected.size());
    EXPECT_EQ(result.recovery.calls_kept, calls);
    EXPECT_EQ(result.recovery.bytes_lost, size - end);
    std::vector<Hash128> got;
    for (const ChunkEntry& chunk : chunks_of(result.file)) got.push_back(chunk.content);
    got.pop_back();  // the summary, which is new
    EXPECT_EQ(got, expected);
    EXPECT_EQ(counter(result.file, "trace_cut"), 1u);
    expect_readable(result.file);
  }
}

// A chunk that is damaged, or was never written, costs what it held and nothing else.
TEST(Recover, ALostChunkCostsItsCallsAndTheOthersKeepTheirNumbers) {
  const Bytes whole = make_trace(3);
  const std::vector<ChunkEntry> all = chunks_of(whole);
  for (std::size_t lost = 1; lost < all.size(); ++lost) {
    for (const std::size_t at : {std::size_t{2}, std::size_t{36}, kChunkHeaderSize + 7}) {
      SCOPED_TRACE("chunk " + std::to_string(lost) + ", byte " + std::to_string(at));
      Bytes file = whole;
      file[all[lost].offset + at] ^= std::byte{4};
      const Recovered result = recovered(file);
      ASSERT_TRUE(result.status.ok()) << result.status.message();
      EXPECT_FALSE(result.recovery.whole());
      const bool program = all[lost].kind == ChunkKind::kProgram;
      EXPECT_EQ(result.recovery.calls_kept, 6u - (program ? all[lost].calls : 0));
      expect_readable(result.file);
      // Lost at the end, nothing proves how many calls there were.
      const bool proven = program && all[lost].first_call + all[lost].calls < 6;
      EXPECT_EQ(result.recovery.calls_lost, proven ? all[lost].calls : 0);
      if (!program) continue;
      const auto reader = TraceReader::open(open_memory("t", result.file));
      std::uint64_t calls = 0;
      ProgramReader reading(**reader);
      while (*reading.next()) {
        for (const Call& call : reading.chunk().calls) {
          const bool filled = (call.flags & kCallLost) != 0;
          EXPECT_EQ(filled, proven && calls >= all[lost].first_call &&
                                calls < all[lost].first_call + all[lost].calls);
          ++calls;
        }
      }
      EXPECT_EQ(calls, proven ? 6u : 6u - all[lost].calls);
    }
  }
}

TEST(Recover, NoFlippedBitMakesItInventAChunkOrFail) {
  const Bytes whole = make_trace(1);
  std::set<Hash128> known;
  for (const ChunkEntry& chunk : chunks_of(whole)) known.insert(chunk.content);
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 3) {
    SCOPED_TRACE("bit " + std::to_string(bit % 8) + " of byte " + std::to_string(bit / 8));
    Bytes file = whole;
    file[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const Recovered result = recovered(file);
    if (bit / 8 == 8 || bit / 8 == 9) continue;  // another major version, which is another format
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    std::size_t kept = 0;
    for (const ChunkEntry& chunk : chunks_of(result.file)) kept += known.count(chunk.content);
    EXPECT_EQ(kept, result.recovery.chunks_kept - (result.recovery.whole()                  ? 0
                                                   : counter(result.file, "trace_cut") == 0 ? 1
                                                                                            : 0));
    expect_readable(result.file);
  }
}

TEST(Recover, ALostHeaderIsReplacedByOneThatSaysSo) {
  Bytes file = make_trace(1);
  file[60] ^= std::byte{1};
  const Recovered result = recovered(file);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  const auto reader = TraceReader::open(open_memory("t", result.file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ((*reader)->header().engine, "unknown");
  EXPECT_THAT((*reader)->header().warnings, ::testing::ElementsAre(HasSubstr("lost: ")));
  EXPECT_EQ(result.recovery.calls_kept, 4u);
}

TEST(Recover, AHeaderThatCanNotBeReadIsALostOne) {
  Header other = testing::sample_header();
  other.major = kFormatMajor + 1;
  const std::pair<Bytes, Codec> headers[] = {
      {to_bytes("no table at all"), Codec::kNone},
      {encode_header(other), Codec::kNone},
      {to_bytes("of a later version"), static_cast<Codec>(77)},
  };
  for (const auto& [raw, codec] : headers) {
    testing::FileBuilder builder;
    builder.add(ChunkKind::kHeader, raw, 0, 0, codec);
    builder.add(ChunkKind::kProgram, encode_program(testing::rich_chunk()), 0, 3);
    const Recovered result = recovered(builder.finish());
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_EQ(result.recovery.chunks_lost, 1u);
    EXPECT_EQ(result.recovery.calls_kept, 3u);
    expect_readable(result.file);
  }
}

// What it stands for would be lost or renumbered without notice.
TEST(Recover, AChunkOfALaterVersionIsNoAnswer) {
  ProgramChunk chunk = testing::rich_chunk();
  chunk.nodes[3].kind = static_cast<NodeKind>(17);
  for (const Codec codec : {Codec::kNone, static_cast<Codec>(3)}) {
    Header header = testing::sample_header();
    header.major = kFormatMajor;
    testing::FileBuilder builder;
    builder.add(ChunkKind::kHeader, encode_header(header));
    builder.add(ChunkKind::kProgram, encode_program(chunk), 0, 3, codec);
    builder.add(ChunkKind::kSummary, encode_summary({}));
    EXPECT_EQ(recovered(builder.finish()).status.code(), Code::kUnsupported);
  }
}

TEST(Recover, ParametersOfAChunkThatIsRefusedAreLostToo) {
  ProgramChunk chunk = testing::rich_chunk();
  chunk.calls[0].op = 99;
  Header header = testing::sample_header();
  header.major = kFormatMajor;
  testing::FileBuilder builder;
  builder.add(ChunkKind::kHeader, encode_header(header));
  builder.add(ChunkKind::kProgram, encode_program(chunk), 0, 3);
  builder.add(ChunkKind::kParameters, encode_parameters(testing::sample_parameters()));
  const Recovered result = recovered(builder.finish());
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.recovery.chunks_lost, 2u);
  expect_readable(result.file);
}

TEST(Recover, TimingsPastEveryNumberAreLost) {
  ProgramChunk late;
  late.base.calls = ~std::uint64_t{0} - 1;
  late.timings.resize(3);
  Header header = testing::sample_header();
  header.major = kFormatMajor;
  testing::FileBuilder builder;
  builder.add(ChunkKind::kHeader, encode_header(header));
  builder.add(ChunkKind::kProgram, encode_program(testing::rich_chunk()), 0, 3);
  builder.add(ChunkKind::kTiming, encode_timing(late), late.base.calls, 3);
  const Recovered result = recovered(builder.finish());
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.recovery.chunks_lost, 1u);
  expect_readable(result.file);
}

// 64 chunks may be lost of a file of 3 KB, but not 64 million definitions of each kind.
TEST(Recover, ASmallFileIsNotFilledWithMillionsOfDefinitions) {
  ProgramChunk far = testing::next_chunk(testing::rich_chunk().next_base());
  far.base.geometries += 10'000'000;
  const Bytes raw = encode_program(far);
  Bytes file = make_trace(0);
  file.resize(chunks_of(file).back().offset);
  ChunkHeader header{ChunkKind::kProgram, Codec::kNone,    0,   raw.size(),
                     raw.size(),          checksum64(raw), 1000};
  const ChunkHeaderBytes bytes = encode_chunk_header(header);
  file.insert(file.end(), bytes.begin(), bytes.end());
  file.insert(file.end(), raw.begin(), raw.end());
  const Recovered result = recovered(file);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.recovery.calls_kept, 3u);
  EXPECT_EQ(result.recovery.calls_lost, 0u);
  expect_readable(result.file);
}

// A value may hold a trace. Its chunks are not the file's.
TEST(Recover, ChunksInsideADamagedValueStayInside) {
  const Bytes inner = make_trace(0);
  Bytes file;
  WriterOptions options;
  options.values = ValueCompression::kNone;
  options.alone = 1;
  auto writer = TraceWriter::create(write_memory(&file), testing::sample_header(), options);
  ASSERT_TRUE((*writer)->write_value({1, 1}, inner, 1).ok());
  ASSERT_TRUE((*writer)->write_program(testing::rich_chunk()).ok());
  ASSERT_TRUE((*writer)->close({}).ok());
  const std::vector<ChunkEntry> all = chunks_of(file);
  file[all[1].offset + all[1].stored_size] ^= std::byte{1};
  const Recovered result = recovered(file);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.recovery.chunks_lost, 1u);
  EXPECT_EQ(result.recovery.chunks_kept, 4u);
  EXPECT_EQ(result.recovery.calls_kept, 3u);
}

TEST(Recover, NothingIsMadeOfWhatIsNoTrace) {
  const Bytes cases[] = {{},
                         to_bytes("hello"),
                         Bytes(100'000, std::byte{'G'}),
                         to_bytes("GTCKGTCKGTCKGTCKGTCKGTCKGTCKGTCKGTCKGTCKGTCK")};
  for (const Bytes& file : cases) {
    const Recovered result = recovered(file);
    EXPECT_EQ(result.status.code(), Code::kCorrupt);
    EXPECT_TRUE(result.file.empty());
  }
  Bytes newer = make_trace(0);
  newer[8] = std::byte{2};
  EXPECT_EQ(recovered(newer).status.code(), Code::kUnsupported);
}

TEST(Recover, WritesAFileThatAppearsWhenItIsComplete) {
  const testing::TempFolder folder;
  const Bytes whole = make_trace(1);
  const std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  const std::string cut = folder.write("cut.fb", text.substr(0, text.size() - 5));
  EXPECT_EQ(recover(cut, cut).status().code(), Code::kInvalidArgument);
  ASSERT_TRUE(recover(cut, folder.file("out.fb")).ok());
  EXPECT_TRUE(TraceReader::open(folder.file("out.fb")).ok());
  const std::string bad = folder.write("bad.fb", "nothing");
  EXPECT_EQ(recover(bad, folder.file("out.fb")).status().code(), Code::kCorrupt);
  EXPECT_TRUE(TraceReader::open(folder.file("out.fb")).ok()) << "the file that was there is gone";
  EXPECT_EQ(recover(folder.file("none.fb"), folder.file("o.fb")).status().code(), Code::kNotFound);
  EXPECT_EQ(recover(cut, folder.file("no/such/folder.fb")).status().code(), Code::kNotFound);
  EXPECT_EQ(open_file(folder.file("out.fb.partial")).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace goldentrace
