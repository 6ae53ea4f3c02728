#include "src/capi/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace goldentrace::capi {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int fraction_bits(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 7;
    case DType::kFloat16:
      return 10;
    case DType::kFloat32:
      return 23;
    default:
      return 52;
  }
}

double gap_in_ulp(DType dtype, double first, double second) {
  const int exponent = first != 0 && std::isfinite(first) ? std::ilogb(first) : 0;
  const double gap = std::ldexp(first - second, fraction_bits(dtype) - exponent);
  return std::isfinite(gap) ? gap : kNan;
}

double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  std::size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

void describe_logits(DType dtype, std::span<const std::byte> row, std::size_t top, Step& step) {
  std::vector<double> values(row.size() / item_size(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_real(dtype, row.data(), i);
  if (values.empty()) return;

  const std::size_t kept = std::min(std::max<std::size_t>(top, 2), values.size());
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto comes_first = [&](std::size_t left, std::size_t right) {
    const bool nan = std::isnan(values[left]);
    if (nan != std::isnan(values[right])) return nan;
    if (!nan && values[left] != values[right]) return values[left] > values[right];
    return left < right;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    comes_first);
  for (std::size_t i = 0; i < std::min(top, kept); ++i) {
    step.top_ids.push_back(static_cast<std::int64_t>(order[i]));
    step.top_logits.push_back(static_cast<float>(values[order[i]]));
  }
  if (step.chosen < 0) step.chosen = static_cast<std::int64_t>(order[0]);
  const double highest = values[order[0]];
  step.gap_ulp = values.size() < 2 ? kNan : gap_in_ulp(dtype, highest, values[order[1]]);
  step.logits_rms = root_mean_square(values);
  double sum = 0;
  for (const double value : values) sum += std::exp(value - highest);
  step.logprob = values[static_cast<std::size_t>(step.chosen)] - highest - std::log(sum);
}

}  // namespace goldentrace::capi
