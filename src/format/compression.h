// The codecs: none, zstd, zstd-planes. Knows no chunk. Byte layout and reasons: schema/FORMAT.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/format/container.h"

namespace goldentrace {

// How the bytes of values are stored. What a codec doesn't shrink is stored as it is.
//   kFast   zstd-planes by Huffman coding alone, or zstd level 1 where a sample shows that matches
//           pay: as fast as that level on its own, and smaller
//   kSmall  the smallest of several codecs and levels, at tens of MB/s
enum class ValueCompression : std::uint8_t { kNone, kFast, kSmall };

// Owns zstd's state and buffers, so that nothing is allocated a chunk. One thread at a time.
class Compressor {
 public:
  Compressor();
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  struct Stored {
    Codec codec = Codec::kNone;
    std::uint8_t item_size = 0;
    std::span<const std::byte> bytes;  // into `raw`, or of this object until the next call
  };

  // One zstd frame with its content size, or `raw` itself where that is no larger.
  Result<Stored> zstd(std::span<const std::byte> raw, int level);
  // Bytes of numbers of `item_size` bytes: 1, 2, 4 or 8.
  Result<Stored> values(std::span<const std::byte> raw, std::size_t item_size,
                        ValueCompression how);

 private:
  struct Context;
  Result<std::size_t> frame(std::span<const std::byte> raw, int level, bool huffman_only,
                            std::span<std::byte> out);
  Result<bool> matches_pay(std::span<const std::byte> raw, std::size_t item_size);
  Status add_plane(std::span<const std::byte> plane, ValueCompression how);

  Context* context_;
  std::vector<std::byte> split_;   // the planes, one after the other
  std::vector<std::byte> stored_;  // what was answered
  std::vector<std::byte> trial_;
};

// Owns zstd's state and a buffer, likewise.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Decodes into exactly `raw_size` bytes; kCorrupt, or kUnsupported for a codec of a later
  // version. Nothing is allocated but what raw_size, which the caller has checked, asks for.
  Status decode(const ChunkHeader& header, std::span<const std::byte> stored,
                std::vector<std::byte>& out);

 private:
  struct Context;
  Status frame(std::span<const std::byte> stored, std::span<std::byte> out);
  Status planes(std::span<const std::byte> stored, std::size_t width, std::size_t raw_size,
                std::vector<std::byte>& out);

  Context* context_;
  std::vector<std::byte> planes_;
};

// The same once.
Status decompress(const ChunkHeader& header, std::span<const std::byte> stored,
                  std::vector<std::byte>& out);

}  // namespace goldentrace
