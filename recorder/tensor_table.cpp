#include "recorder/tensor_table.h"

#include <algorithm>
#include <bit>
#include <span>

namespace goldentrace {
namespace {

static_assert(
    static_cast<int>(c10::ScalarType::BFloat16) == static_cast<int>(DType::kBFloat16) &&
    static_cast<int>(c10::ScalarType::Bool) == static_cast<int>(DType::kBool) &&
    static_cast<int>(c10::ScalarType::Float) == static_cast<int>(DType::kFloat32) &&
    static_cast<int>(c10::ScalarType::Long) == static_cast<int>(DType::kInt64) &&
    static_cast<int>(c10::ScalarType::ComplexDouble) == static_cast<int>(DType::kComplex128) &&
    static_cast<int>(c10::ScalarType::Float8_e5m2) == static_cast<int>(DType::kFloat8E5M2) &&
    static_cast<int>(c10::ScalarType::Float8_e4m3fn) == static_cast<int>(DType::kFloat8E4M3FN) &&
    static_cast<int>(c10::ScalarType::UInt16) == static_cast<int>(DType::kUInt16) &&
    static_cast<int>(c10::ScalarType::UInt64) == static_cast<int>(DType::kUInt64));

constexpr std::size_t kFewViews = 1024;
constexpr std::size_t kOldEvery = 8;  // calls

std::uint8_t tensor_flags(const c10::TensorImpl& impl) {
  std::uint8_t flags = 0;
  if (impl.is_wrapped_number()) flags |= kTensorWrappedNumber;
  if (impl.is_conj()) flags |= kTensorConjugate;
  if (impl.is_neg()) flags |= kTensorNegative;
  return flags;
}

// Of all that tells one view of a storage from another.
std::uint64_t hash_view(const c10::TensorImpl& impl) {
  const auto kind =
      static_cast<std::uint64_t>(static_cast<DType>(c10::typeMetaToScalarType(impl.dtype())));
  std::uint64_t hash =
      mix_hash(kind << 8 | tensor_flags(impl), static_cast<std::uint64_t>(impl.storage_offset()));
  for (const std::int64_t size : impl.sizes()) {
    hash = mix_hash(hash, static_cast<std::uint64_t>(size));
  }
  for (const std::int64_t stride : impl.strides()) {
    hash = mix_hash(hash, static_cast<std::uint64_t>(stride));
  }
  return hash;
}

bool is_gone(c10::StorageImpl* impl) {
  return c10::raw::weak_intrusive_ptr::use_count(impl) == 0;
}

std::uint64_t hash_address(const c10::StorageImpl* impl) {
  return mix_hash(0, std::bit_cast<std::uintptr_t>(impl));
}

}  // namespace

TensorTable::~TensorTable() {
  for (const StorageEntry& entry : entries_) {
    if (entry.impl != nullptr) c10::raw::weak_intrusive_ptr::decref(entry.impl);
  }
}

StorageEntry& TensorTable::storage(c10::StorageImpl* impl) {
  const std::uint64_t hash = hash_address(impl);
  const std::uint32_t known =
      index_.find(hash, [&](std::uint32_t number) { return entries_[number].impl == impl; });
  if (known == FlatIndex::kNone) return add(impl, hash);
  StorageEntry& entry = entries_[known];
  if (entry.bytes != impl->nbytes()) {
    entry.bytes = impl->nbytes();
    entry.id = builder_.storage(entry.bytes, device_name(impl->device()));
    entry.version = 0;
    entry.content = Content::kUndefined;
    entry.has_view = false;
  }
  return entry;
}

StorageEntry& TensorTable::add(c10::StorageImpl* impl, std::uint64_t hash) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  StorageEntry& entry = entries_[number];
  entry = {};
  entry.impl = impl;
  entry.number = number;
  entry.bytes = impl->nbytes();
  entry.id = builder_.storage(entry.bytes, device_name(impl->device()));
  c10::raw::weak_intrusive_ptr::incref(impl);
  index_.insert(hash, number);
  if (young_size_ == young_.size()) {  // the oldest is young no more
    std::shift_left(young_.begin(), young_.end(), 1);
    --young_size_;
  }
  young_[young_size_++] = {impl, number};
  return entry;
}

void TensorTable::release(StorageEntry& entry) {
  index_.erase(hash_address(entry.impl), entry.number);
  c10::raw::weak_intrusive_ptr::decref(std::exchange(entry.impl, nullptr));
  free_.push_back(entry.number);
}

std::uint32_t TensorTable::device_name(c10::Device device) {
  for (const auto& [known, name] : device_names_) {
    if (known == device) return name;
  }
  device_names_.emplace_back(device, builder_.string(device.str()));
  return device_names_.back().second;
}

std::uint32_t TensorTable::tensor(StorageEntry& entry, const at::Tensor& tensor) {
  const std::uint64_t hash = hash_view(*tensor.unsafeGetTensorImpl());
  if (!entry.has_view) {
    entry.has_view = true;
    entry.view_hash = hash;
    return entry.view = define(entry, tensor);
  }
  if (entry.view_hash == hash) return entry.view;
  const std::uint64_t key = mix_hash(hash, entry.id);
  const std::uint32_t known = view_index_.find(key, [&](std::uint32_t i) {
    return views_[i].storage == entry.id && views_[i].hash == hash;
  });
  if (known != FlatIndex::kNone) return views_[known].tensor;
  const std::uint32_t id = define(entry, tensor);
  if (views_.size() >= kFewViews && views_.size() == views_.capacity()) drop_dead_views();
  view_index_.insert(key, static_cast<std::uint32_t>(views_.size()));
  views_.push_back({hash, entry.id, id});
  return id;
}

// Before the list of views would grow: those of storages that are gone make room.
void TensorTable::drop_dead_views() {
  std::vector<std::uint32_t> alive;
  for (const StorageEntry& entry : entries_) {
    if (entry.impl != nullptr) alive.push_back(entry.id);
  }
  std::ranges::sort(alive);
  std::erase_if(views_,
                [&](const View& view) { return !std::ranges::binary_search(alive, view.storage); });
  view_index_.clear();
  for (std::size_t i = 0; i < views_.size(); ++i) {
    view_index_.insert(mix_hash(views_[i].hash, views_[i].storage), static_cast<std::uint32_t>(i));
  }
  // Half of the room is to be free, or the next views would come here again.
  views_.reserve(std::max(kFewViews, 2 * views_.size()));
}

std::uint32_t TensorTable::define(const StorageEntry& entry, const at::Tensor& tensor) {
  Tensor view;
  view.storage = entry.id;
  view.geometry = builder_.geometry({tensor.sizes().data(), tensor.sizes().size()},
                                    {tensor.strides().data(), tensor.strides().size()});
  view.dtype = static_cast<DType>(tensor.scalar_type());
  view.flags = tensor_flags(*tensor.unsafeGetTensorImpl());
  view.offset = tensor.storage_offset();
  return builder_.tensor(view);
}

void TensorTable::let_go() {
  std::size_t alive = 0;
  for (std::size_t i = 0; i < young_size_; ++i) {
    if (is_gone(young_[i].impl)) {
      release(entries_[young_[i].entry]);
    } else {
      young_[alive++] = young_[i];
    }
  }
  young_size_ = alive;
  if (++next_old_ % kOldEvery != 0 || entries_.empty()) return;
  StorageEntry& old = entries_[next_old_ / kOldEvery % entries_.size()];
  if (old.impl == nullptr || !is_gone(old.impl)) return;
  const auto young = std::span(young_).first(young_size_);  // gone since a moment ago
  if (std::ranges::find(young, old.number, &Young::entry) == young.end()) release(old);
}

}  // namespace goldentrace
