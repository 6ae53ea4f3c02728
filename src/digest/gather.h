// A tensor in memory, and its elements in row-major order without gaps: what every digest is made
// of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/dtype.h"

namespace goldentrace {

// `data` points at the element with index 0, 0, ...; strides in elements, which may be negative.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kUInt8;
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> strides;
};

std::size_t element_count(const TensorView& tensor);
// The elements lie in memory in row-major order without gaps.
bool is_dense(const TensorView& tensor);
// Copies elements [begin, begin + count) of the row-major order.
void gather(const TensorView& tensor, std::size_t begin, std::size_t count, std::byte* out);

}  // namespace goldentrace
