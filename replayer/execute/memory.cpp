#include "replayer/execute/memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace goldentrace {
namespace {

c10::ScalarType scalar_type(DType dtype) { return static_cast<c10::ScalarType>(dtype); }

// A tensor of its own that holds these bytes.
at::Tensor from_bytes(std::span<const std::byte> bytes, DType dtype) {
  const auto count = static_cast<std::int64_t>(bytes.size() / item_size(dtype));
  at::Tensor tensor = at::empty({count}, at::TensorOptions().dtype(scalar_type(dtype)));
  if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), tensor.nbytes());
  return tensor;
}

at::Tensor view_of_storage(const c10::Storage& storage, DType dtype, std::int64_t offset,
                           const Geometry& geometry) {
  at::Tensor tensor =
      at::empty({0}, at::TensorOptions().dtype(scalar_type(dtype)).device(storage.device()));
  tensor.set_(storage, offset, geometry.sizes, geometry.strides);
  return tensor;
}

}  // namespace

DType promoted(DType dtype, Promotion promotion) {
  if (promotion == Promotion::kNone) return dtype;
  const bool all = promotion == Promotion::kFloat64;
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return all ? DType::kFloat64 : DType::kFloat32;
    case DType::kComplex32:
      return all ? DType::kComplex128 : DType::kComplex64;
    case DType::kFloat32:
      return promotion == Promotion::kFloat32 ? dtype : DType::kFloat64;
    case DType::kComplex64:
      return promotion == Promotion::kFloat32 ? dtype : DType::kComplex128;
    default:
      return dtype;
  }
}

void Memory::learn(const ProgramChunk& chunk) {
  dtypes_.resize(dictionary_.storages(), DType::kUInt8);
  // A chunk's tensors may look into storages of earlier ones; only new storages have no dtype yet.
  std::vector<bool> known(chunk.storages.size(), false);
  for (const Tensor& tensor : chunk.tensors) {
    if (tensor.storage < chunk.base.storages) continue;
    const std::size_t at = tensor.storage - chunk.base.storages;
    if (known[at]) continue;
    known[at] = true;
    dtypes_[tensor.storage] = tensor.dtype;
  }
}

std::size_t Memory::ratio(DType dtype) const {
  return item_size(promoted(dtype, promotion_)) / item_size(dtype);
}

DType Memory::own_dtype(std::uint32_t storage) const {
  return storage < dtypes_.size() ? dtypes_[storage] : DType::kUInt8;
}

void Memory::bind(std::uint32_t id, const c10::Storage& storage) {
  if (id >= storages_.size()) storages_.resize(std::max<std::size_t>(id + 1, storages_.size() * 2));
  storages_[id] = storage;
}

bool Memory::is(std::uint32_t id, const c10::Storage& storage) const {
  return has(id) && storages_[id].unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
}

void Memory::release(std::uint32_t id) {
  if (id < storages_.size()) storages_[id] = c10::Storage();
  lent_.erase(id);
}

void Memory::lend(std::uint32_t id, const c10::Storage& recorded) {
  release(id);
  lent_[id] = recorded;
  const DType own = own_dtype(id);
  if (promoted(own, promotion_) == own && device_.is_cpu()) bind(id, recorded);
}

void Memory::need(std::uint32_t id) {
  if (made(id)) return;
  const auto lent = lent_.find(id);
  if (lent == lent_.end()) return;
  if (lender_ != nullptr && lender_->has(id)) {
    lender_->need(id);
    bind(id, lender_->storages_[id]);
    passing_.push_back(id);
    return;
  }
  const DType own = own_dtype(id);
  const auto count = static_cast<std::int64_t>(lent->second.nbytes() / item_size(own));
  const at::Tensor wide = view_of_storage(lent->second, own, 0, {{count}, {1}})
                              .to(device_, scalar_type(promoted(own, promotion_)));
  bind(id, wide.storage());
  if (wide.nbytes() <= room_) {
    room_ -= wide.nbytes();
  } else {
    passing_.push_back(id);
  }
}

at::Tensor Memory::lent_tensor(std::uint32_t id) const {
  const Tensor& view = dictionary_.tensor(id);
  return view_of_storage(lent_.at(view.storage), view.dtype, view.offset,
                         dictionary_.geometry(view.geometry))
      .to(device_);
}

void Memory::end_call() {
  for (const std::uint32_t id : passing_) storages_[id] = c10::Storage();
  passing_.clear();
}

void Memory::own(std::uint32_t id) {
  if (!has(id)) return allocate(id);
  if (!lent_.contains(id)) return;
  need(id);
  lent_.erase(id);
  std::erase(passing_, id);
  const auto bytes = static_cast<std::int64_t>(storages_[id].nbytes());
  bind(id, view_of_storage(storages_[id], DType::kUInt8, 0, {{bytes}, {1}}).clone().storage());
}

void Memory::allocate(std::uint32_t id) {
  const std::uint64_t bytes = dictionary_.storage(id).bytes * ratio(own_dtype(id));
  bind(id, at::zeros({static_cast<std::int64_t>(bytes)},
                     at::TensorOptions().dtype(at::kByte).device(device_))
               .storage());
}

void Memory::fill(std::uint32_t id, std::span<const std::byte> bytes) {
  own(id);
  const DType own = own_dtype(id);
  at::Tensor kept = from_bytes(bytes, promotes() ? own : DType::kUInt8);
  if (promotes()) kept = kept.to(scalar_type(promoted(own, promotion_)));
  const auto size = static_cast<std::int64_t>(std::min(kept.nbytes(), storages_[id].nbytes()));
  view_of_storage(storages_[id], DType::kUInt8, 0, {{size}, {1}})
      .copy_(view_of_storage(kept.storage(), DType::kUInt8, 0, {{size}, {1}}));
}

bool Memory::reinterprets(std::uint32_t id) const {
  const Tensor& view = dictionary_.tensor(id);
  return promotes() && ratio(view.dtype) != ratio(own_dtype(view.storage));
}

at::Tensor Memory::tensor(std::uint32_t id) const {
  const Tensor& view = dictionary_.tensor(id);
  const Geometry& geometry = dictionary_.geometry(view.geometry);
  c10::Storage storage = storages_[view.storage];
  if (reinterprets(id)) {
    const DType own = own_dtype(view.storage);
    const DType kept = promoted(own, promotion_);
    const auto count = static_cast<std::int64_t>(storage.nbytes() / item_size(kept));
    const at::Tensor bits = view_of_storage(storage, kept, 0, {{count}, {1}}).to(scalar_type(own));
    const auto seen = static_cast<std::int64_t>(bits.nbytes() / item_size(view.dtype));
    storage = view_of_storage(bits.storage(), view.dtype, 0, {{seen}, {1}})
                  .to(scalar_type(dtype(id)))
                  .storage();
  }
  at::Tensor tensor = view_of_storage(storage, dtype(id), view.offset, geometry);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if ((view.flags & kTensorWrappedNumber) != 0) impl->set_wrapped_number(true);
  if ((view.flags & kTensorConjugate) != 0) impl->_set_conj(true);
  if ((view.flags & kTensorNegative) != 0) impl->_set_neg(true);
  return tensor;
}

Status put_elements(std::span<const std::byte> bytes, DType dtype, const at::Tensor& target) {
  const at::Tensor dense = from_bytes(bytes, dtype);
  if (dense.numel() != target.numel() || dense.nbytes() != bytes.size()) {
    return {Code::kCorrupt, "a stored value has another size than its tensor"};
  }
  target.copy_(dense.view(target.sizes()));
  return {};
}

}  // namespace goldentrace
