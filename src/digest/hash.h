// `hash` of dense bytes: leaf = XXH3-64 of each 4,096-byte block, the last one padded with zeros;
// hash = XXH3-128 of the little-endian leaves followed by the byte count as 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/base/digest.h"

namespace goldentrace {

inline constexpr std::size_t kHashBlock = 4096;  // bytes a leaf

Hash128 hash_bytes(std::span<const std::byte> bytes);

// The leaves of consecutive blocks; the last one may be short. `leaves` has room for all of them.
void hash_leaves(std::span<const std::byte> bytes, std::uint64_t* leaves);
// XXH3-64, as the container's checksums are.
std::uint64_t xxh3_64(std::span<const std::byte> bytes);
inline std::size_t leaf_count(std::size_t bytes) { return (bytes + kHashBlock - 1) / kHashBlock; }

// The same of bytes that come in pieces of any length.
class HashStream {
 public:
  HashStream();
  ~HashStream();
  HashStream(HashStream&&) noexcept;
  HashStream& operator=(HashStream&&) noexcept;

  void add(std::span<const std::byte> bytes);
  // Of all bytes added; nothing may be added afterwards.
  Hash128 finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace goldentrace
