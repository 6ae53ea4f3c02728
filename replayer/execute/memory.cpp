#include "replayer/execute/memory.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

namespace goldentrace {

void Memory::bind(std::uint32_t id, const c10::Storage& storage) {
  if (id >= storages_.size()) storages_.resize(std::max<std::size_t>(id + 1, storages_.size() * 2));
  storages_[id] = storage;
}

bool Memory::is(std::uint32_t id, const c10::Storage& storage) const {
  return has(id) && storages_[id].unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
}

void Memory::release(std::uint32_t id) {
  if (id < storages_.size()) storages_[id] = c10::Storage();
}

void Memory::fill(std::uint32_t id, std::span<const std::byte> bytes) {
  if (!has(id)) {
    const auto size = static_cast<std::int64_t>(dictionary_.storage(id).bytes);
    bind(id, at::empty({size}, at::TensorOptions().dtype(at::kByte)).zero_().storage());
  }
  const std::size_t room = storages_[id].nbytes();
  if (!bytes.empty()) {
    std::memcpy(storages_[id].mutable_data(), bytes.data(), std::min(bytes.size(), room));
  }
}

at::Tensor Memory::tensor(std::uint32_t id) const {
  const Tensor& view = dictionary_.tensor(id);
  const Geometry& geometry = dictionary_.geometry(view.geometry);
  at::Tensor tensor =
      at::empty({0}, at::TensorOptions().dtype(static_cast<c10::ScalarType>(view.dtype)));
  tensor.set_(storages_[view.storage], view.offset, geometry.sizes, geometry.strides);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if ((view.flags & kTensorWrappedNumber) != 0) impl->set_wrapped_number(true);
  if ((view.flags & kTensorConjugate) != 0) impl->_set_conj(true);
  if ((view.flags & kTensorNegative) != 0) impl->_set_neg(true);
  return tensor;
}

}  // namespace goldentrace
