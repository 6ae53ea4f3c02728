// Codecs: what is stored gives the same bytes back, and what does not is refused.
#include "src/format/compression.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using testing::to_bytes;

ChunkHeader header_of(const Compressor::Stored& stored, std::size_t raw_size) {
  ChunkHeader header;
  header.codec = stored.codec;
  header.item_size = stored.item_size;
  header.raw_size = raw_size;
  return header;
}

// bfloat16 of a normal distribution: what activations look like.
Bytes activations(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  Bytes bytes(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(generator);
    std::memcpy(&bytes[2 * i], reinterpret_cast<const char*>(&value) + 2, 2);
  }
  return bytes;
}

TEST(Compression, EveryWayGivesTheBytesBackAtEachSizeAndItemSize) {
  Compressor compressor;
  const Bytes normal = activations(150'000);
  const Bytes same(300'000, std::byte{7});
  for (const Bytes& source : {normal, same}) {
    for (const std::size_t size : {0u, 1u, 2u, 3u, 7u, 8u, 9u, 1000u, 4099u, 300'000u}) {
      const std::span raw = std::span(source).first(size);
      for (const std::size_t item : {1u, 2u, 4u, 8u}) {
        for (const auto how :
             {ValueCompression::kNone, ValueCompression::kFast, ValueCompression::kSmall}) {
          SCOPED_TRACE(std::to_string(size) + " bytes, items of " + std::to_string(item) +
                       ", way " + std::to_string(static_cast<int>(how)));
          const auto stored = compressor.values(raw, item, how);
          ASSERT_TRUE(stored.ok()) << stored.status().message();
          EXPECT_LE(stored->bytes.size(), size);
          Bytes back;
          const Status status = decompress(header_of(*stored, size), stored->bytes, back);
          ASSERT_TRUE(status.ok()) << status.message();
          EXPECT_EQ(back, Bytes(raw.begin(), raw.end()));
        }
      }
      const auto stored = compressor.zstd(raw, 3);
      ASSERT_TRUE(stored.ok());
      Bytes back;
      ASSERT_TRUE(decompress(header_of(*stored, size), stored->bytes, back).ok());
      EXPECT_EQ(back, Bytes(raw.begin(), raw.end()));
    }
  }
}

// The two kinds of bytes that the fast way tells apart.
TEST(Compression, PlanesAreTakenForNumbersAndMatchesForRepeats) {
  Compressor compressor;
  const Bytes normal = activations(200'000);
  const auto plain = compressor.zstd(normal, 1);
  const std::size_t plain_size = plain->bytes.size();
  const auto planes = compressor.values(normal, 2, ValueCompression::kFast);
  EXPECT_EQ(planes->codec, Codec::kZstdPlanes);
  EXPECT_LT(static_cast<double>(planes->bytes.size()), 0.9 * static_cast<double>(plain_size));

  Bytes mask(400'000);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = static_cast<std::byte>((i % 800) < (i / 800) ? 0x7f : 0);
  }
  const std::size_t mask_size = compressor.zstd(mask, 1)->bytes.size();
  const auto repeats = compressor.values(mask, 2, ValueCompression::kFast);
  EXPECT_LE(repeats->bytes.size(), mask_size);
  const auto fast = repeats->bytes.size();
  EXPECT_LE(compressor.values(mask, 2, ValueCompression::kSmall)->bytes.size(), fast);
}

TEST(Compression, RefusesWhatDoesNotGiveThePromisedBytes) {
  Compressor compressor;
  const Bytes raw = to_bytes("some bytes, some bytes, some bytes, some bytes");
  const auto frame = compressor.zstd(raw, 3);
  const Bytes stored(frame->bytes.begin(), frame->bytes.end());
  Bytes cut = stored;
  cut.pop_back();
  Bytes twice = stored;
  twice.insert(twice.end(), stored.begin(), stored.end());
  struct Case {
    const char* why;
    Codec codec;
    std::uint8_t item_size;
    Bytes stored;
    std::uint64_t raw_size;
    Code code;
  };
  const Case cases[] = {
      {"more than promised", Codec::kZstd, 0, stored, raw.size() - 1, Code::kCorrupt},
      {"less than promised", Codec::kZstd, 0, stored, raw.size() + 1, Code::kCorrupt},
      {"cut off", Codec::kZstd, 0, cut, raw.size(), Code::kCorrupt},
      {"two frames", Codec::kZstd, 0, twice, 2 * raw.size(), Code::kCorrupt},
      {"not zstd at all", Codec::kZstd, 0, raw, raw.size(), Code::kCorrupt},
      {"no bytes", Codec::kZstd, 0, {}, raw.size(), Code::kCorrupt},
      {"sizes differ without codec", Codec::kNone, 0, raw, raw.size() + 1, Code::kCorrupt},
      {"more than any frame of this size", Codec::kZstd, 0, stored,
       stored.size() * kMaxExpansion + 1, Code::kCorrupt},
      {"a frame without content", Codec::kZstd, 0,
       to_bytes(std::string_view("\x50\x2a\x4d\x18\0\0\0\0", 8)), 0, Code::kCorrupt},
      {"a frame of zstd 0.7", Codec::kZstd, 0,
       to_bytes(std::string_view("\x27\xb5\x2f\xfd\x20\0\xc0\0\0", 9)), 0, Code::kCorrupt},
      {"an item size without planes", Codec::kNone, 2, raw, raw.size(), Code::kCorrupt},
      {"a codec of a later version", static_cast<Codec>(3), 0, raw, raw.size(), Code::kUnsupported},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    ChunkHeader header;
    header.codec = c.codec;
    header.item_size = c.item_size;
    header.raw_size = c.raw_size;
    Bytes out;
    EXPECT_EQ(decompress(header, c.stored, out).code(), c.code);
    if (c.code == Code::kCorrupt) {
      EXPECT_LE(out.capacity(), raw.size()) << "memory was taken before the frame was looked at";
    }
  }
}

TEST(Compression, RefusesPlanesThatDoNotFit) {
  // Two planes of 2 and 1 bytes, both stored as they are.
  const Bytes good = to_bytes(std::string_view("\x02\0\0\0\x01\0\0\0acb", 11));
  const auto with = [&](std::size_t at, int value) {
    Bytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  struct Case {
    const char* why;
    std::uint8_t item_size;
    Bytes stored;
    bool ok;
  };
  Bytes longer = good;
  longer.push_back(std::byte{'d'});
  const Case cases[] = {
      {"as it should be", 2, good, true},
      {"item size 0", 0, good, false},
      {"item size 3", 3, good, false},
      {"item size 16", 16, good, false},
      {"item size of another", 4, good, false},
      {"first plane longer than raw", 2, with(0, 3), false},
      {"first plane shorter, no zstd frame", 2, with(0, 1), false},
      {"second plane past the end", 2, with(4, 2), false},
      {"a size of 4 GiB", 2, with(7, 0xff), false},
      {"bytes left over", 2, longer, false},
      {"ends in its sizes", 2, Bytes(good.begin(), good.begin() + 7), false},
      {"nothing stored", 2, {}, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    ChunkHeader header;
    header.codec = Codec::kZstdPlanes;
    header.item_size = c.item_size;
    header.raw_size = 3;
    Bytes out;
    EXPECT_EQ(decompress(header, c.stored, out).code(), c.ok ? Code::kOk : Code::kCorrupt);
    if (c.ok) {
      EXPECT_EQ(out, to_bytes("abc"));
    }
  }
}

}  // namespace
}  // namespace goldentrace
