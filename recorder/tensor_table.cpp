#include "recorder/tensor_table.h"

#include <algorithm>

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

std::uint8_t tensor_flags(const at::Tensor& tensor) {
  std::uint8_t flags = 0;
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) flags |= kTensorWrappedNumber;
  if (tensor.is_conj()) flags |= kTensorConjugate;
  if (tensor.is_neg()) flags |= kTensorNegative;
  return flags;
}

}  // namespace

StorageEntry& TensorTable::storage(c10::StorageImpl* impl) {
  const auto found = entries_.find(impl);
  const std::uint64_t bytes = impl->nbytes();
  if (found != entries_.end() && found->second.bytes == bytes) return found->second;

  StorageEntry fresh(impl);
  fresh.bytes = bytes;
  fresh.id = builder_.storage(bytes, builder_.string(impl->device().str()));
  if (found != entries_.end()) {
    fresh.content = Content::kUndefined;
    found->second = std::move(fresh);
    return found->second;
  }
  return entries_.emplace(impl, std::move(fresh)).first->second;
}

std::uint32_t TensorTable::tensor(StorageEntry& entry, const at::Tensor& tensor) {
  Tensor view;
  view.storage = entry.id;
  view.geometry = builder_.geometry({tensor.sizes().data(), tensor.sizes().size()},
                                    {tensor.strides().data(), tensor.strides().size()});
  view.dtype = static_cast<DType>(tensor.scalar_type());
  view.flags = tensor_flags(tensor);
  view.offset = tensor.storage_offset();
  for (const StorageEntry::View& known : entry.views) {
    if (known.tensor == view) return known.id;
  }
  const std::uint32_t id = builder_.tensor(view);
  entry.views.push_back({view, id});
  return id;
}

void TensorTable::sweep() {
  std::erase_if(entries_, [](const auto& item) { return item.second.alive.expired(); });
}

}  // namespace goldentrace
