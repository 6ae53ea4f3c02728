#include "recorder/tensor_facts.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

namespace goldentrace {

namespace {

// The storage may have been shrunk since the tensor was made.
bool lies_in_storage(const c10::TensorImpl& impl) {
  std::int64_t last = impl.storage_offset();
  for (std::int64_t d = 0; d < impl.dim(); ++d) last += (impl.size(d) - 1) * impl.stride(d);
  return static_cast<std::uint64_t>(last + 1) * impl.itemsize() <= impl.unsafe_storage().nbytes();
}

}  // namespace

bool has_memory(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  constexpr c10::DispatchKeySet kForeign({
      c10::DispatchKey::Python,
      c10::DispatchKey::Functionalize,
      c10::DispatchKey::FuncTorchBatched,
      c10::DispatchKey::FuncTorchGradWrapper,
      c10::DispatchKey::ZeroTensor,
  });
  return impl->has_storage() && !impl->key_set().has_any(kForeign) && !impl->is_meta() &&
         !impl->is_nested() && !impl->is_sparse() && !impl->is_sparse_csr() &&
         (impl->is_cpu() || impl->is_cuda()) &&
         (impl->numel() == 0 ||
          (impl->unsafe_storage().data() != nullptr && lies_in_storage(*impl)));
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool covers_storage(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && tensor.nbytes() == storage_of(tensor)->nbytes();
}

bool has_known_dtype(const at::Tensor& tensor) {
  return item_size(static_cast<DType>(tensor.scalar_type())) != 0;
}

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

at::Tensor whole_storage(c10::StorageImpl* storage) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  at::Tensor whole = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage->device()));
  whole.set_(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)), 0,
             {static_cast<std::int64_t>(storage->nbytes())}, {1});
  return whole;
}

}  // namespace goldentrace
