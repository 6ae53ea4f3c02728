#include "replayer/band/band.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "replayer/band/distance.h"

namespace goldentrace {
namespace {

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
  const PairSums sums = sum_pairs(dtype, want.data(), got.data(), count);
  distance.difference = std::sqrt(sums.difference);
  distance.norm = std::sqrt(sums.norm);
  if (sums.one_sided > 0) {
    distance.non_finite = true;
    distance.note = "NaN, infinite or mask on one side only in " + std::to_string(sums.one_sided) +
                    " of " + std::to_string(count) + " elements";
  }
  return distance;
}

Distance distance_from_sketches(const Sketch& want, const Sketch& got, double norm) {
  double squares = 0;
  for (std::size_t k = 0; k < want.size(); ++k) {
    const double d = static_cast<double>(got[k]) - static_cast<double>(want[k]);
    squares += d * d;
  }
  Distance distance;
  distance.difference = std::sqrt(squares);
  distance.norm = norm;
  return distance;
}

double measured_band(double largest, DType dtype) {
  constexpr double kTimes = 3;
  return std::max(kTimes * largest, unit_roundoff(dtype));
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
