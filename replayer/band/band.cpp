#include "replayer/band/band.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace goldentrace {
namespace {

constexpr double kSentinel = 1e30;  // as in the stats digest

enum class Class : std::uint8_t {
  kOrdinary,
  kNan,
  kPositiveInfinity,
  kNegativeInfinity,
  kSentinel
};

Class classify(double x) {
  if (std::isnan(x)) return Class::kNan;
  if (std::isinf(x)) return x > 0 ? Class::kPositiveInfinity : Class::kNegativeInfinity;
  return std::fabs(x) >= kSentinel ? Class::kSentinel : Class::kOrdinary;
}

void note_count(const char* what, std::uint64_t want, std::uint64_t got, Distance& distance) {
  if (want == got) return;
  distance.non_finite = true;
  if (!distance.note.empty()) distance.note += ", ";
  distance.note += std::string(what) + " in " + std::to_string(got) + " elements, oracle " +
                   std::to_string(want);
}

}  // namespace

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kFloat32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

double Distance::relative() const {
  if (difference == 0) return 0;
  return norm > 0 ? difference / norm : std::numeric_limits<double>::infinity();
}

void PooledDistance::add(const Distance& distance, std::uint64_t elements) {
  difference_squares_ += distance.difference * distance.difference;
  norm_squares_ += distance.norm * distance.norm;
  elements_ += elements;
  non_finite_ |= distance.non_finite;
  if (elements >= kMinElements) worst_single_ = std::max(worst_single_, distance.relative());
}

void PooledDistance::add_identical(double norm, std::uint64_t elements) {
  norm_squares_ += norm * norm;
  elements_ += elements;
}

Distance PooledDistance::pooled() const {
  Distance distance;
  distance.difference = std::sqrt(difference_squares_);
  distance.norm = std::sqrt(norm_squares_);
  return distance;
}

bool PooledDistance::in_band(double band) const {
  return !non_finite_ && relative() <= band && worst_single_ <= kSingleLimit * band;
}

double default_band(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 6e-2;
    case DType::kFloat16:
      return 1e-2;
    case DType::kFloat32:
    case DType::kFloat64:
      return 1e-4;
    default:
      return 0;
  }
}

Distance distance_from_values(DType dtype, std::span<const std::byte> want,
                              std::span<const std::byte> got) {
  Distance distance;
  const std::size_t count = want.size() / item_size(dtype);
  double difference = 0;
  double norm = 0;
  std::uint64_t one_sided = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double w = load_real(dtype, want.data(), i);
    const double g = load_real(dtype, got.data(), i);
    const Class want_class = classify(w);
    if (want_class != classify(g)) {
      ++one_sided;
    } else if (want_class == Class::kOrdinary) {
      difference += (g - w) * (g - w);
      norm += w * w;
    }
  }
  distance.difference = std::sqrt(difference);
  distance.norm = std::sqrt(norm);
  if (one_sided > 0) {
    distance.non_finite = true;
    distance.note = "NaN, infinite or mask on one side only in " + std::to_string(one_sided) +
                    " of " + std::to_string(count) + " elements";
  }
  return distance;
}

Distance distance_from_stats(const Stats& want, const Stats& got) {
  Distance distance;
  note_count("NaN", want.nan, got.nan, distance);
  note_count("+inf", want.positive_infinity, got.positive_infinity, distance);
  note_count("-inf", want.negative_infinity, got.negative_infinity, distance);
  note_count("mask values", want.sentinel, got.sentinel, distance);
  const std::uint64_t ordinary =
      want.count - want.nan - want.positive_infinity - want.negative_infinity - want.sentinel;
  if (distance.non_finite || ordinary == 0) return distance;
  const double want_norm = std::sqrt(want.sum_squares);
  const double bounds[] = {
      std::fabs(std::sqrt(got.sum_squares) - want_norm),
      std::fabs(got.sum - want.sum) / std::sqrt(static_cast<double>(ordinary)),
      std::fabs(got.max - want.max),
      std::fabs(got.min - want.min),
  };
  distance.difference = *std::max_element(std::begin(bounds), std::end(bounds));
  distance.norm = want_norm;
  return distance;
}

}  // namespace goldentrace
