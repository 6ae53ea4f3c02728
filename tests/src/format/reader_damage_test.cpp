// Files that are cut, flipped, grown or not traces at all. None may crash the reader, none may
// pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "src/digest/digest.h"
#include "src/format/compression.h"
#include "src/format/trace_reader.h"
#include "src/format/trace_writer.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using ::testing::AnyOf;
using testing::FileBuilder;
using ::testing::HasSubstr;
using testing::make_trace;
using testing::read_all;
using ::testing::StartsWith;
using testing::to_bytes;

Status open_status(const Bytes& file) { return TraceReader::open(open_memory("t", file)).status(); }

std::vector<Hash128> contents(const TraceReader& reader) {
  std::vector<Hash128> hashes;
  for (const ChunkEntry& chunk : reader.chunks()) hashes.push_back(chunk.content);
  return hashes;
}

// A recorder that dies leaves a prefix of a good file. Every whole chunk of it is read, nothing is
// invented, and the reader says that the file was cut.
TEST(Reader, EveryPrefixGivesItsWholeChunksAndSaysThatItIsCut) {
  const Bytes whole = make_trace(1);
  const auto complete = TraceReader::open(open_memory("t", whole));
  ASSERT_TRUE(complete.ok());
  const std::vector<Hash128> want = contents(**complete);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const Bytes prefix(whole.begin(), whole.begin() + static_cast<long>(size));
    std::vector<Hash128> expected;
    std::uint64_t calls = 0;
    for (const ChunkEntry& chunk : (*complete)->chunks()) {
      if (chunk.offset + kChunkHeaderSize + chunk.stored_size > size) break;
      expected.push_back(chunk.content);
      if (chunk.kind == ChunkKind::kProgram) calls += chunk.calls;
    }
    const auto reader = TraceReader::open(open_memory("t", prefix));
    if (expected.empty()) {
      ASSERT_EQ(reader.status().code(), Code::kCorrupt);
      ASSERT_THAT(reader.status().message(), StartsWith("t: at offset "));
      continue;
    }
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(contents(**reader), expected);
    EXPECT_EQ((*reader)->summary().counter("trace_cut"), 1u);
    EXPECT_EQ((*reader)->summary().calls, calls);
    const testing::ReadOutcome outcome = read_all(prefix);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.calls, calls);
  }
}

TEST(Reader, AFileWithoutFooterKeepsTheCountersOfItsSummary) {
  Bytes file = make_trace(1);
  file.resize(file.size() - 1);
  const auto reader = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ((*reader)->summary().counter("holes"), 1u);
  EXPECT_EQ((*reader)->summary().counter("trace_cut"), 1u);
  EXPECT_THAT((*reader)->summary().counters.back().first, HasSubstr("footer"));
}

// Of a value whose last part was never written nothing is told.
TEST(Reader, ACutValueIsNoValue) {
  Bytes file;
  WriterOptions options;
  options.alone = 10;
  options.max_part = 100;
  const Bytes value(150, std::byte{1});
  const Bytes before(99, std::byte{2});
  {
    auto writer = TraceWriter::create(write_memory(&file), testing::sample_header(), options);
    ASSERT_TRUE((*writer)->write_value(hash_bytes(before), before, 1).ok());
    ASSERT_TRUE((*writer)->write_value(hash_bytes(value), value, 1).ok());
  }
  file.resize(file.size() - 1);
  const auto reader = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ((*reader)->chunks().size(), 3u);
  EXPECT_EQ(*(*reader)->value(hash_bytes(before)), before);
  EXPECT_FALSE((*reader)->has_value(hash_bytes(value)));
  EXPECT_EQ((*reader)->value(hash_bytes(value)).status().code(), Code::kNotFound);
}

TEST(Reader, EveryFlippedBitIsNoticed) {
  Bytes file = make_trace(1);
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    file[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const testing::ReadOutcome outcome = read_all(file);
    if (!outcome.cut) {
      ASSERT_THAT(outcome.status.code(), AnyOf(Code::kCorrupt, Code::kUnsupported))
          << "bit " << bit % 8 << " of byte " << bit / 8 << " of " << file.size();
    }
    file[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

// check_bytes alone finds damage of chunks, without decoding any.
TEST(Reader, CheckBytesFindsEveryFlippedByteThatOpenDoesNotRead) {
  Bytes file = make_trace(1);
  const auto pristine = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(pristine.ok());
  ASSERT_TRUE((*pristine)->check_bytes().ok());
  for (std::size_t i = 0; i < file.size(); ++i) {
    file[i] ^= std::byte{0x10};
    const auto reader = TraceReader::open(open_memory("t", file));
    if (reader.ok() && (*reader)->summary().counter("trace_cut") == 0) {
      ASSERT_EQ((*reader)->check_bytes().code(), Code::kCorrupt) << "byte " << i;
    }
    file[i] ^= std::byte{0x10};
  }
}

TEST(Reader, FilesThatAreNoTraceAreRefusedByName) {
  Bytes newer = make_trace(0);
  newer[8] = std::byte{2};
  Bytes minor = make_trace(0);
  minor[10] = std::byte{kFormatMinor + 1};
  const Bytes whole = make_trace(0);
  Bytes twice = make_trace(0);
  const Bytes again = twice;
  twice.insert(twice.end(), again.begin(), again.end());
  struct Case {
    const char* why;
    Bytes file;
    Code code;
    const char* says;
  };
  const Case cases[] = {
      {"empty", {}, Code::kCorrupt, "empty"},
      {"text", to_bytes("{\"a\": 1}\n"), Code::kCorrupt, "not a goldentrace file"},
      {"long text", Bytes(1000, std::byte{'x'}), Code::kCorrupt, "not a goldentrace file"},
      {"short text", to_bytes("x"), Code::kCorrupt, "not a goldentrace file"},
      {"line ends converted", to_bytes("\x89GTRC\n\x1a\x01 and more"), Code::kCorrupt,
       "not a goldentrace file"},
      {"newer major version", newer, Code::kUnsupported, "format version 2."},
      {"minor version unlike the header chunk's", minor, Code::kCorrupt, "version differs"},
      {"cut in the file header", Bytes(whole.begin(), whole.begin() + 12), Code::kCorrupt,
       "ends before its first chunk"},
      {"all but the file header", Bytes(whole.begin() + 16, whole.end()), Code::kCorrupt,
       "not a goldentrace file"},
      {"the same file twice", twice, Code::kCorrupt, ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Status status = open_status(c.file);
    EXPECT_EQ(status.code(), c.code);
    EXPECT_THAT(status.message(), HasSubstr(c.says));
  }
}

// 70 KB that would make a reader keep gigabytes.
TEST(Reader, AFileThatUnfoldsIntoFarMoreThanItHoldsIsRefused) {
  ProgramChunk chunk;
  chunk.timings.resize(400'000);
  const Bytes raw = encode_timing(chunk);
  Compressor compressor;
  const auto stored = compressor.zstd(raw, 19);
  ASSERT_TRUE(stored.ok());
  const Bytes bytes(stored->bytes.begin(), stored->bytes.end());
  testing::FileBuilder builder;
  Header header = testing::sample_header();
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  builder.add(ChunkKind::kHeader, encode_header(header));
  std::size_t chunks = 0;
  for (; chunks * raw.size() < 2 * kMaxKept; ++chunks) {
    builder.add_stored(ChunkKind::kTiming, Codec::kZstd, 0, bytes, raw.size());
  }
  builder.add(ChunkKind::kSummary, encode_summary({}));
  Bytes file = builder.finish();
  ASSERT_LT(file.size(), 100'000u);
  const Status whole = open_status(file);
  EXPECT_EQ(whole.code(), Code::kCorrupt);
  EXPECT_THAT(whole.message(), HasSubstr(kTooMuchKept));
  // Cut, it is read as far as it is honest.
  file.resize(file.size() - kFooterSize);
  const auto cut = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  EXPECT_LT((*cut)->chunks().size(), chunks);
}

TEST(Reader, AProgramThatFailedFailsAgain) {
  ProgramChunk chunk = testing::rich_chunk();
  chunk.calls[0].op = 99;
  testing::FileBuilder builder;
  Header header = testing::sample_header();
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  builder.add(ChunkKind::kHeader, encode_header(header));
  builder.add(ChunkKind::kProgram, encode_program(chunk), 0, 3);
  builder.add(ChunkKind::kSummary, encode_summary({}));
  const auto reader = TraceReader::open(open_memory("t", builder.finish()));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  ProgramReader program(**reader);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(program.next().status().code(), Code::kCorrupt);
    EXPECT_TRUE(program.chunk().calls.empty());
    EXPECT_EQ(program.dictionary().tensors(), 0u);
  }
}

TEST(Reader, BytesAfterTheFooterAreNoticed) {
  for (const char* garbage : {"\x12", "\x12\x99 garbage after the footer"}) {
    Bytes file = make_trace(0);
    const Bytes more = to_bytes(garbage);
    file.insert(file.end(), more.begin(), more.end());
    const testing::ReadOutcome outcome = read_all(file);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_TRUE(outcome.cut);
  }
}

Bytes header_bytes(std::uint16_t minor = kFormatMinor) {
  Header header = testing::sample_header();
  header.major = kFormatMajor;
  header.minor = minor;
  return encode_header(header);
}

TEST(Reader, ChunksOfUnknownKindAreSkipped) {
  FileBuilder builder;
  builder.add(ChunkKind::kHeader, header_bytes());
  builder.add(static_cast<ChunkKind>(200), to_bytes("from the future"), 0, 0,
              static_cast<Codec>(99));
  builder.add(ChunkKind::kProgram, encode_program(testing::rich_chunk()), 0, 3);
  builder.add(ChunkKind::kSummary, encode_summary({}));
  builder.add(static_cast<ChunkKind>(201), {});
  const Bytes file = builder.finish();
  const auto reader = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_TRUE((*reader)->check_bytes().ok());
  ProgramReader program(**reader);
  EXPECT_TRUE(*program.next());
  EXPECT_FALSE(*program.next());
  EXPECT_EQ((*reader)->read_chunk(1).status().code(), Code::kUnsupported);
}

TEST(Reader, ANewerMinorVersionIsRead) {
  FileBuilder builder;
  builder.add(ChunkKind::kHeader, header_bytes(7));
  builder.add(ChunkKind::kSummary, encode_summary({}));
  Bytes file = builder.finish();
  file[10] = std::byte{7};
  EXPECT_TRUE(open_status(file).ok());
}

TEST(Reader, HeaderAndSummaryMustBeThereOnce) {
  struct Case {
    const char* why;
    std::vector<ChunkKind> kinds;
    bool ok;
  };
  const Case cases[] = {
      {"the least trace", {ChunkKind::kHeader, ChunkKind::kSummary}, true},
      {"no chunk", {}, false},
      {"no header", {ChunkKind::kSummary}, false},
      {"no summary", {ChunkKind::kHeader}, false},
      {"header not first", {ChunkKind::kSummary, ChunkKind::kHeader}, false},
      {"two headers", {ChunkKind::kHeader, ChunkKind::kHeader, ChunkKind::kSummary}, false},
      {"two summaries", {ChunkKind::kHeader, ChunkKind::kSummary, ChunkKind::kSummary}, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    FileBuilder builder;
    for (const ChunkKind kind : c.kinds) {
      builder.add(kind, kind == ChunkKind::kHeader ? header_bytes() : encode_summary({}));
    }
    EXPECT_EQ(open_status(builder.finish()).code(), c.ok ? Code::kOk : Code::kCorrupt);
  }
}

// Checksums are right here: only the index lies.
TEST(Reader, AnIndexThatDoesNotMatchTheFileIsRefused) {
  struct Case {
    const char* why;
    std::function<void(Index&)> damage;
  };
  const Case cases[] = {
      {"offset", [](Index& i) { ++i.chunks[1].offset; }},
      {"chunk missing", [](Index& i) { i.chunks.erase(i.chunks.begin() + 1); }},
      {"last chunk missing", [](Index& i) { i.chunks.pop_back(); }},
      {"chunk too many", [](Index& i) { i.chunks.push_back(i.chunks.back()); }},
      {"stored size", [](Index& i) { ++i.chunks[1].stored_size; }},
      {"stored size beyond the limit", [](Index& i) { i.chunks[1].stored_size = ~0ull; }},
      {"raw size", [](Index& i) { ++i.chunks[1].raw_size; }},
      {"raw size beyond the limit", [](Index& i) { i.chunks[1].raw_size = ~0ull; }},
      {"kind", [](Index& i) { i.chunks[1].kind = ChunkKind::kTiming; }},
      {"codec", [](Index& i) { i.chunks[1].codec = Codec::kZstd; }},
      {"content hash", [](Index& i) { ++i.chunks[1].content.low; }},
      {"first call", [](Index& i) { ++i.chunks[1].first_call; }},
      {"number of calls", [](Index& i) { --i.chunks[1].calls; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    FileBuilder builder;
    builder.add(ChunkKind::kHeader, header_bytes());
    builder.add(ChunkKind::kProgram, encode_program(testing::rich_chunk()), 0, 3);
    builder.add(ChunkKind::kSummary, encode_summary({}));
    c.damage(builder.index());
    EXPECT_EQ(read_all(builder.finish()).status.code(), Code::kCorrupt);
  }
}

TEST(Reader, AMissingProgramChunkIsNamed) {
  const ProgramChunk first = testing::rich_chunk();
  const ProgramChunk second = testing::next_chunk(first.next_base());
  FileBuilder builder;
  builder.add(ChunkKind::kHeader, header_bytes());
  builder.add(ChunkKind::kProgram, encode_program(second), 3, 1);
  builder.add(ChunkKind::kSummary, encode_summary({}));
  const Status status = read_all(builder.finish()).status;
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("a chunk is missing"));
}

TEST(Reader, AFooterThatPointsAnywhereIsRefused) {
  const Bytes file = make_trace(0);
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{16}, std::uint64_t{file.size() - 24},
        std::uint64_t{file.size()}, ~std::uint64_t{0}, ~std::uint64_t{0} - 39}) {
    SCOPED_TRACE(offset);
    Bytes damaged = file;
    const FooterBytes footer = encode_footer(offset);
    std::copy(footer.begin(), footer.end(), damaged.end() - kFooterSize);
    EXPECT_EQ(open_status(damaged).code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace goldentrace
