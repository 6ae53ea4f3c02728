// Files that are cut, flipped, grown or not traces at all. None may crash the reader, none may
// pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "src/format/trace_reader.h"
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

// A recorder that dies leaves a prefix of a good file.
TEST(Reader, EveryPrefixIsRefusedAsCorrupt) {
  const Bytes whole = make_trace(1);
  ASSERT_TRUE(read_all(whole).status.ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const Status status = open_status({whole.begin(), whole.begin() + static_cast<long>(size)});
    ASSERT_EQ(status.code(), Code::kCorrupt);
    ASSERT_THAT(status.message(), StartsWith("t: at offset "));
  }
}

TEST(Reader, EveryFlippedByteIsNoticed) {
  Bytes file = make_trace(1);
  for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
    for (std::size_t i = 0; i < file.size(); ++i) {
      file[i] ^= static_cast<std::byte>(flip);
      const Status status = read_all(file).status;
      ASSERT_THAT(status.code(), AnyOf(Code::kCorrupt, Code::kUnsupported))
          << "byte " << i << " of " << file.size() << " xor " << flip;
      file[i] ^= static_cast<std::byte>(flip);
    }
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
    if (reader.ok()) {
      ASSERT_EQ((*reader)->check_bytes().code(), Code::kCorrupt) << "byte " << i;
    }
    file[i] ^= std::byte{0x10};
  }
}

TEST(Reader, FilesThatAreNoTraceAreRefusedByName) {
  Bytes newer = make_trace(0);
  newer[8] = std::byte{2};
  Bytes minor = make_trace(0);
  minor[10] = std::byte{1};
  Bytes grown = make_trace(0);
  const Bytes garbage = to_bytes("\x12\x99 garbage after the footer");
  grown.insert(grown.end(), garbage.begin(), garbage.end());
  Bytes one_more = make_trace(0);
  one_more.push_back(std::byte{0});
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
      {"newer major version", newer, Code::kUnsupported, "format version 2.0"},
      {"minor version unlike the header chunk's", minor, Code::kCorrupt, "version differs"},
      {"cut in the file header", Bytes(grown.begin(), grown.begin() + 12), Code::kCorrupt,
       "ends before its first chunk"},
      {"garbage appended", grown, Code::kCorrupt, "no footer"},
      {"one byte appended", one_more, Code::kCorrupt, "no footer"},
      {"the same file twice", twice, Code::kCorrupt, ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Status status = open_status(c.file);
    EXPECT_EQ(status.code(), c.code);
    EXPECT_THAT(status.message(), HasSubstr(c.says));
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
