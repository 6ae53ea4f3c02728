// Digests of CUDA tensors by the kernel of src/digest/cuda. Only in a build with GOLDENTRACE_CUDA.
#pragma once

#include <memory>

#include "recorder/device.h"

namespace goldentrace {

// Null where the kernel can't take the tensor (more dimensions than it knows) or the launch failed:
// a copy to the host does it then.
std::unique_ptr<DeviceWork> launch_cuda_digest(const at::Tensor& tensor,
                                               const DigestOptions& options);

}  // namespace goldentrace
