// Computes digests of tensors in host memory. Definitions and test vectors: schema/FORMAT.md.
// The answer depends on the logical elements only: not on strides, threads or the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/digest.h"
#include "src/base/dtype.h"

namespace goldentrace {

inline constexpr std::size_t kHashBlock = 4096;        // bytes a leaf
inline constexpr std::size_t kStatsSuperblock = 4096;  // elements
inline constexpr std::size_t kStatsLanes = 64;
inline constexpr double kSentinel = 1e30;  // finite elements from here on are counted apart

// A tensor in memory. `data` points at the element with index 0, 0, ...; strides in elements, which
// may be negative.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kUInt8;
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> strides;
};

// `hash` of dense bytes: leaf = XXH3-64 of each 4,096-byte block, the last one padded with zeros;
// hash = XXH3-128 of the little-endian leaves followed by the byte count as 64 bits.
Hash128 hash_bytes(std::span<const std::byte> bytes);

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

struct Digest {
  Hash128 hash;
  Stats stats;  // meaningful for real float dtypes only
};

// `hash`, and `stats` where `with_stats` and the dtype is a real float; one pass over the elements.
Digest digest_tensor(const TensorView& tensor, bool with_stats);

// The tensor's elements in row-major order without gaps.
std::vector<std::byte> dense_bytes(const TensorView& tensor);
// The same into `out`, which has room for exactly that.
void write_dense(const TensorView& tensor, std::span<std::byte> out);

}  // namespace goldentrace
