// From at::Tensor to the bytes that digests are computed over. Device memory is copied to the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <vector>

#include "src/digest/digest.h"

namespace goldentrace {

// `tensor` itself when its memory is the host's; else a copy with the same logical elements.
// RecordFunction must be disabled on this thread.
at::Tensor host_tensor(const at::Tensor& tensor);
// `host` must outlive the view.
TensorView view_of(const at::Tensor& host);
// All bytes of a storage.
std::vector<std::byte> storage_bytes(c10::StorageImpl* storage);

}  // namespace goldentrace
