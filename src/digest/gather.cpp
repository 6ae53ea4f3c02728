#include "src/digest/gather.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace goldentrace {
namespace {

// One dimension, its step in bytes.
struct Dimension {
  std::size_t size;
  std::ptrdiff_t step;
};

constexpr std::size_t kMaxRank = 64;  // PyTorch's own limit

// The dimensions with neighbours joined where they are one in memory: [2, 3, 4] with the strides of
// a slice of rows becomes [2, 12].
struct Dimensions {
  std::array<Dimension, kMaxRank> at;
  std::size_t rank = 0;
};

Dimensions joined(const TensorView& tensor, std::size_t size) {
  Dimensions dims;
  for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] == 1) continue;
    const Dimension dim{static_cast<std::size_t>(tensor.sizes[d]),
                        static_cast<std::ptrdiff_t>(size) * tensor.strides[d]};
    if (dims.rank > 0) {
      Dimension& outer = dims.at[dims.rank - 1];
      if (outer.step == dim.step * static_cast<std::ptrdiff_t>(dim.size)) {
        outer = {outer.size * dim.size, dim.step};
        continue;
      }
    }
    dims.at[dims.rank++] = dim;
  }
  return dims;
}

template <std::size_t kSize>
void copy_steps(const std::byte* from, std::ptrdiff_t step, std::size_t count, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i, from += step, out += kSize) std::memcpy(out, from, kSize);
}

// `count` elements of `size` bytes, `step` bytes apart.
void copy_row(const std::byte* from, std::ptrdiff_t step, std::size_t count, std::size_t size,
              std::byte* out) {
  if (step == static_cast<std::ptrdiff_t>(size)) {
    std::memcpy(out, from, count * size);
    return;
  }
  switch (size) {
    case 1:
      return copy_steps<1>(from, step, count, out);
    case 2:
      return copy_steps<2>(from, step, count, out);
    case 4:
      return copy_steps<4>(from, step, count, out);
    case 8:
      return copy_steps<8>(from, step, count, out);
    default:
      return copy_steps<16>(from, step, count, out);
  }
}

}  // namespace

std::size_t element_count(const TensorView& tensor) {
  std::size_t count = 1;
  for (const std::int64_t size : tensor.sizes) count *= static_cast<std::size_t>(size);
  return count;
}

bool is_dense(const TensorView& tensor) {
  std::int64_t expected = 1;
  for (std::size_t d = tensor.sizes.size(); d-- > 0;) {
    if (tensor.sizes[d] == 1) continue;
    if (tensor.strides[d] != expected) return false;
    expected *= tensor.sizes[d];
  }
  return true;
}

void gather(const TensorView& tensor, std::size_t begin, std::size_t count, std::byte* out) {
  if (count == 0) return;
  const std::size_t size = item_size(tensor.dtype);
  const Dimensions dims = joined(tensor, size);
  if (dims.rank == 0) {
    std::memcpy(out, tensor.data, size);
    return;
  }
  // The index of the first element, and where its row begins.
  std::array<std::size_t, kMaxRank> index{};
  const std::byte* row = tensor.data;
  for (std::size_t d = dims.rank, rest = begin; d-- > 0;) {
    index[d] = rest % dims.at[d].size;
    rest /= dims.at[d].size;
    if (d + 1 < dims.rank) row += dims.at[d].step * static_cast<std::ptrdiff_t>(index[d]);
  }
  const Dimension inner = dims.at[dims.rank - 1];
  std::size_t first = index[dims.rank - 1];
  while (true) {
    const std::size_t here = std::min(count, inner.size - first);
    copy_row(row + inner.step * static_cast<std::ptrdiff_t>(first), inner.step, here, size, out);
    count -= here;
    if (count == 0) return;
    out += here * size;
    first = 0;
    for (std::size_t d = dims.rank - 1; d-- > 0;) {
      row += dims.at[d].step;
      if (++index[d] < dims.at[d].size) break;
      row -= dims.at[d].step * static_cast<std::ptrdiff_t>(dims.at[d].size);
      index[d] = 0;
    }
  }
}

}  // namespace goldentrace
