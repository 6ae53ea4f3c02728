// The digest of a tensor in CUDA memory, computed there: bit for bit what digest_tensor gives of
// the same elements. Nothing here waits or allocates, so it may run between the operators of a
// model, and in a CUDA graph.
//
//   launch_digest    enqueues: a kernel over all units (block_digest.h), one that adds up what they
//                    found in order, a copy to pinned memory
//   finish_digest    on the host once the stream got there: the upper half of `hash`, which is over
//                    1/512 of the bytes
//
// No CUDA header: callers need not be compiled by nvcc.
#pragma once

#include <cstddef>
#include <optional>

#include "src/base/dtype.h"
#include "src/digest/block_digest.h"
#include "src/digest/digest.h"

namespace goldentrace {

// How the device memory of one digest is laid out; the first two parts are copied to the host.
//
//   PartialDigest of the tensor | leaves of `hash`, 8 bytes each | PartialDigest of each superblock
struct DeviceDigestPlan {
  std::size_t leaves;
  std::size_t superblocks;

  constexpr DeviceDigestPlan(std::size_t count, std::size_t item_size)
      : leaves((count * item_size + kHashBlock - 1) / kHashBlock),
        superblocks((count + 4095) / 4096) {}

  static constexpr std::size_t kLeavesAt = sizeof(PartialDigest);
  [[nodiscard]] constexpr std::size_t superblocks_at() const { return kLeavesAt + leaves * 8; }
  [[nodiscard]] constexpr std::size_t result_bytes() const { return superblocks_at(); }
  [[nodiscard]] constexpr std::size_t scratch_bytes() const {
    return superblocks_at() + superblocks * sizeof(PartialDigest);
  }
};

// Bytes that a digest needs in device memory and in pinned host memory, both aligned to 8 bytes.
// Neither may be used for anything else until the copy is done.
constexpr std::size_t device_scratch_bytes(std::size_t count, std::size_t item_size) {
  return DeviceDigestPlan(count, item_size).scratch_bytes();
}
constexpr std::size_t device_result_bytes(std::size_t count, std::size_t item_size) {
  return DeviceDigestPlan(count, item_size).result_bytes();
}

// Where `tensor` keeps its elements; only its sizes and strides are looked at. None if more than
// GatherLayout::kMaxRank dimensions are left after joining those that are one in memory.
std::optional<GatherLayout> gather_layout(const TensorView& tensor);

// Enqueues everything on `stream`, a cudaStream_t of the current device. `device_data` is the
// element with index 0, 0, ..., aligned as the dtype (complex128 to 8 bytes). Returns a
// cudaError_t.
int launch_digest(const void* device_data, DType dtype, const GatherLayout& layout,
                  void* device_scratch, void* pinned_result, void* stream);

// The same of `count` elements in row-major order without gaps.
inline int launch_digest(const void* device_data, DType dtype, std::size_t count,
                         void* device_scratch, void* pinned_result, void* stream) {
  GatherLayout dense{};
  dense.count = count;
  return launch_digest(device_data, dtype, dense, device_scratch, pinned_result, stream);
}

// `stats` and `sketch` of a real float dtype, and `hash`.
Digest finish_digest(const void* pinned_result, DType dtype, std::size_t count);

}  // namespace goldentrace
