#include "recorder/tensor_bytes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

namespace goldentrace {

at::Tensor host_tensor(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const at::AutoDispatchBelowADInplaceOrView guard;
  return tensor.to(at::kCPU);
}

TensorView view_of(const at::Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()),
          static_cast<DType>(host.scalar_type()),
          {host.sizes().data(), host.sizes().size()},
          {host.strides().data(), host.strides().size()}};
}

std::vector<std::byte> storage_bytes(c10::StorageImpl* storage) {
  const auto size = static_cast<std::int64_t>(storage->nbytes());
  if (size == 0) return {};
  if (storage->device_type() == c10::DeviceType::CPU) {
    const auto* begin = static_cast<const std::byte*>(storage->data());
    return {begin, begin + size};
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  at::Tensor whole = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage->device()));
  whole.set_(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)), 0, {size},
             {1});
  const at::Tensor host = whole.to(at::kCPU);
  const auto* begin = static_cast<const std::byte*>(host.const_data_ptr());
  return {begin, begin + size};
}

}  // namespace goldentrace
