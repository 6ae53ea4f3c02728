// The host's half of a digest on the device.
#include <cstring>

#include "src/digest/cuda/digest_kernel.h"
#include "src/digest/leaf_tree.h"

namespace goldentrace {

std::optional<GatherLayout> gather_layout(const TensorView& tensor) {
  GatherLayout layout{};
  layout.count = element_count(tensor);
  if (layout.count == 0 || is_dense(tensor)) return layout;
  for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] == 1) continue;
    const auto size = static_cast<std::size_t>(tensor.sizes[d]);
    const auto step = static_cast<std::ptrdiff_t>(tensor.strides[d]);
    const int outer = layout.rank - 1;
    if (outer >= 0 && layout.steps[outer] == step * tensor.sizes[d]) {
      layout.sizes[outer] *= size;
      layout.steps[outer] = step;
      continue;
    }
    if (layout.rank == GatherLayout::kMaxRank) return std::nullopt;
    layout.sizes[layout.rank] = size;
    layout.steps[layout.rank++] = step;
  }
  return layout;
}

Digest finish_digest(const void* pinned_result, DType dtype, std::size_t count) {
  const auto* const result = static_cast<const std::byte*>(pinned_result);
  const std::size_t size = item_size(dtype);
  const auto* const leaves =
      reinterpret_cast<const std::uint64_t*>(result + DeviceDigestPlan::kLeavesAt);
  Digest digest{};
  LeafTree tree;
  tree.add({leaves, DeviceDigestPlan(count, size).leaves});
  digest.hash = tree.finish(count * size);
  if (!is_real_float(dtype)) return digest;

  PartialDigest total;
  std::memcpy(&total, result, sizeof total);
  const PartialStats& stats = total.stats;
  const bool any_ordinary = stats.min <= stats.max;
  digest.stats = {.count = count,
                  .nan = stats.nan,
                  .positive_infinity = stats.positive_infinity,
                  .negative_infinity = stats.negative_infinity,
                  .sentinel = stats.sentinel,
                  .zero = stats.zero,
                  .min = any_ordinary ? stats.min + 0.0 : 0.0,  // -0 is written as +0
                  .max = any_ordinary ? stats.max + 0.0 : 0.0,
                  .sum = stats.sum,
                  .sum_squares = stats.sum_squares};
  std::memcpy(digest.sketch.data(), total.sketch, sizeof total.sketch);
  return digest;
}

}  // namespace goldentrace
