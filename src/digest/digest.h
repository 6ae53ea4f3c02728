// Computes digests of tensors in host memory. Definitions and test vectors: schema/FORMAT.md.
// The answer depends on the logical elements only: not on strides, threads or the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/digest.h"
#include "src/digest/gather.h"
#include "src/digest/hash.h"

namespace goldentrace {

struct Digest {
  Hash128 hash;
  Stats stats;    // meaningful for real float dtypes only, as is `sketch`
  Sketch sketch;  // meaningful when it was asked for
};

// Calls task(0, context) to task(count - 1, context), on several threads if it likes, and returns
// when all are done. A task throws nothing.
using RunTasks = void (*)(std::size_t count, void (*task)(std::size_t, void*), void* context);

struct DigestOptions {
  bool stats = false;
  bool sketch = false;
  RunTasks run = nullptr;  // for large tensors; null: this thread does everything
};

// `hash`, and what is asked for where the dtype is a real float; one pass over the elements.
// Allocates nothing but for tensors that are not dense and for large ones; that memory is kept, one
// a thread, for the next.
Digest digest_tensor(const TensorView& tensor, const DigestOptions& options);

// The tensor's elements in row-major order without gaps.
std::vector<std::byte> dense_bytes(const TensorView& tensor);
// The same into `out`, which has room for exactly that.
void write_dense(const TensorView& tensor, std::span<std::byte> out);

}  // namespace goldentrace
