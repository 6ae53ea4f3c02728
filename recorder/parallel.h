// Digests of large tensors on the threads that PyTorch's kernels use. Its own file, as it is
// compiled for the pool's library.
#pragma once

#include <cstddef>

namespace goldentrace {

// A digest's RunTasks.
void run_on_intra_op_pool(std::size_t count, void (*task)(std::size_t, void*), void* context);

}  // namespace goldentrace
