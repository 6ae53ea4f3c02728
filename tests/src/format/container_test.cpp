#include "src/format/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::to_bytes;

// Calls `check(bytes, bit)` with each single bit of `bytes` flipped.
template <typename Bytes, typename Check>
void flip_each_bit(Bytes bytes, Check check) {
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    SCOPED_TRACE("bit " + std::to_string(bit % 8) + " of byte " + std::to_string(bit / 8));
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    check(bytes, bit);
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

TEST(KeptSize, IsBoundedByTheFileSoFarAndForgetsWhatItRefused) {
  KeptSize kept;
  EXPECT_TRUE(kept.add(ChunkKind::kProgram, kMaxKept, 0));
  EXPECT_FALSE(kept.add(ChunkKind::kTiming, 6401, 100));
  EXPECT_TRUE(kept.add(ChunkKind::kTiming, 6400, 100));
  EXPECT_FALSE(kept.add(ChunkKind::kText, 1, 100));
  EXPECT_TRUE(kept.add(ChunkKind::kValues, kMaxKept, 100));
  EXPECT_TRUE(kept.add(static_cast<ChunkKind>(0), kMaxKept, 100));
  EXPECT_TRUE(kept.add(ChunkKind::kIndex, 64, 101));
}

TEST(FileHeader, IsTheBytesOfTheSpecification) {
  const FileHeaderBytes bytes = encode_file_header();
  EXPECT_EQ(Bytes(bytes.begin(), bytes.end()),
            to_bytes(std::string_view("\x89GTRC\r\n\x1a\x01\0\x02\0\0\0\0\0", 16)));
  EXPECT_TRUE(check_file_header(bytes).ok());
}

// A flipped minor version is a version that may exist; the header chunk holds it a second time.
TEST(FileHeader, EveryBitFlipButInTheMinorVersionIsRefused) {
  flip_each_bit(encode_file_header(), [](const FileHeaderBytes& bytes, std::size_t bit) {
    const bool minor = bit / 8 == 10 || bit / 8 == 11;
    EXPECT_EQ(check_file_header(bytes).ok(), minor);
  });
}

TEST(FileHeader, ANewerMajorVersionIsUnsupportedNotCorrupt) {
  FileHeaderBytes bytes = encode_file_header();
  bytes[8] = std::byte{2};
  bytes[10] = std::byte{7};
  const Status status = check_file_header(bytes);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("format version 2.7"));
}

ChunkHeader sample() {
  return {ChunkKind::kProgram, Codec::kZstdPlanes, 2, 1000, 3000, 0x1122334455667788, 5};
}

TEST(ChunkHeader, RoundTrips) {
  const auto header = decode_chunk_header(encode_chunk_header(sample()));
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->kind, ChunkKind::kProgram);
  EXPECT_EQ(header->codec, Codec::kZstdPlanes);
  EXPECT_EQ(header->item_size, 2u);
  EXPECT_EQ(header->stored_size, 1000u);
  EXPECT_EQ(header->raw_size, 3000u);
  EXPECT_EQ(header->checksum, 0x1122334455667788u);
  EXPECT_EQ(header->sequence, 5u);
}

TEST(ChunkHeader, EveryBitFlipIsRefused) {
  flip_each_bit(encode_chunk_header(sample()), [](const ChunkHeaderBytes& bytes, std::size_t) {
    EXPECT_EQ(decode_chunk_header(bytes).status().code(), Code::kCorrupt);
  });
}

TEST(ChunkHeader, SizesUpToTheLimitPassAndOneMoreDoesNot) {
  for (const auto& [kind, limit] : {std::pair{ChunkKind::kProgram, kMaxProgramSize},
                                    {ChunkKind::kTiming, kMaxProgramSize},
                                    {ChunkKind::kText, kMaxChunkSize},
                                    {ChunkKind::kValues, kMaxChunkSize},
                                    {static_cast<ChunkKind>(200), kMaxChunkSize}}) {
    for (const bool stored : {true, false}) {
      ChunkHeader header = sample();
      header.kind = kind;
      header.stored_size = header.raw_size = limit;
      EXPECT_TRUE(decode_chunk_header(encode_chunk_header(header)).ok());
      ++(stored ? header.stored_size : header.raw_size);
      EXPECT_EQ(decode_chunk_header(encode_chunk_header(header)).status().code(), Code::kCorrupt);
    }
  }
}

// 32,768 is what zstd can reach: a small file does not make a reader take 256 MiB.
TEST(ChunkHeader, RefusesSizesThatTheCodecCanNotHave) {
  struct Case {
    const char* why;
    Codec codec;
    std::uint64_t stored_size, raw_size;
    bool ok;
  };
  const Case cases[] = {
      {"nothing", Codec::kNone, 0, 0, true},
      {"as it is", Codec::kNone, 5, 5, true},
      {"as it is, but smaller", Codec::kNone, 4, 5, false},
      {"as it is, but larger", Codec::kNone, 5, 4, false},
      {"zstd at its best", Codec::kZstd, 20, 20 * 32768, true},
      {"more than zstd can", Codec::kZstd, 20, 20 * 32768 + 1, false},
      {"something out of nothing", Codec::kZstd, 0, 1, false},
      {"zstd that grows", Codec::kZstd, 30, 20, true},
      {"planes at their best", Codec::kZstdPlanes, 20, 20 * 32768, true},
      {"more than planes can", Codec::kZstdPlanes, 20, 20 * 32768 + 1, false},
      {"a codec of a later version", static_cast<Codec>(3), 1, kMaxChunkSize, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    EXPECT_EQ(sizes_are_possible(ChunkKind::kText, c.codec, c.stored_size, c.raw_size), c.ok);
    ChunkHeader header = sample();
    header.kind = ChunkKind::kText;
    header.codec = c.codec;
    header.stored_size = c.stored_size;
    header.raw_size = c.raw_size;
    EXPECT_EQ(decode_chunk_header(encode_chunk_header(header)).ok(), c.ok);
  }
}

TEST(ChunkHeader, UnknownKindsAndCodecsPassSoThatReadersCanSkipThem) {
  ChunkHeader header = sample();
  header.kind = static_cast<ChunkKind>(200);
  header.codec = static_cast<Codec>(201);
  EXPECT_TRUE(decode_chunk_header(encode_chunk_header(header)).ok());
}

TEST(Footer, RoundTripsAndEveryBitFlipIsRefused) {
  const FooterBytes bytes = encode_footer(0x0102030405060708);
  EXPECT_EQ(*decode_footer(bytes), 0x0102030405060708u);
  flip_each_bit(bytes, [](const FooterBytes& flipped, std::size_t) {
    EXPECT_EQ(decode_footer(flipped).status().code(), Code::kCorrupt);
  });
}

}  // namespace
}  // namespace goldentrace
