// Compiled once for each instruction set that Highway knows; the best one is taken at run time.
#include "replayer/band/distance.h"

// Vectors of a size that the compiler does not know can't be kept in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "replayer/band/distance.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace goldentrace {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#include "src/digest/vectors.inc"

// Element i of a block is added to sum i % kLanes. A block fits into the nearest cache, so that
// looking at it twice costs little.
constexpr std::size_t kLanes = 16;
constexpr std::size_t kBlock = 2048;
// Bytes from here that are asked for while these are looked at.
constexpr std::size_t kAhead = 2048;

using F64 = hn::CappedTag<double, kLanes>;
using Half32 = hn::Rebind<float, F64>;  // as many floats as an F64 vector has doubles
constexpr std::size_t kVectors = kLanes / hn::MaxLanes(F64());

constexpr double kSentinel = 1e30;
// When a block's sums are both less, |want| and |got - want| are less than 4e29, so that no element
// is special. NaN is not less.
constexpr double kOrdinary = 1e59;

template <DType dtype>
HWY_INLINE hn::Vec<F64> load_double(const std::byte* data) {
  if constexpr (dtype == DType::kFloat64) {
    return hn::LoadU(F64(), reinterpret_cast<const double*>(data));
  } else {
    return hn::PromoteTo(F64(), load_float<dtype>(Half32(), data));
  }
}

template <DType dtype>
HWY_INLINE hn::Vec<F64> subtract(const std::byte* got, const std::byte* want) {
  if constexpr (dtype == DType::kFloat64) {
    return hn::Sub(load_double<dtype>(got), load_double<dtype>(want));
  } else {
    const Half32 f32;
    return hn::PromoteTo(F64(), hn::Sub(load_float<dtype>(f32, got), load_float<dtype>(f32, want)));
  }
}

// The square of a float32 is exact in float64: one rounding or two make no difference.
template <DType dtype>
HWY_INLINE hn::Vec<F64> add_square(hn::Vec<F64> x, hn::Vec<F64> sum) {
  if constexpr (dtype == DType::kFloat64) {
    return hn::Add(sum, hn::Mul(x, x));
  } else {
    return hn::MulAdd(x, x, sum);
  }
}

HWY_INLINE double add_lanes(const hn::Vec<F64>* lanes) {
  HWY_ALIGN double sums[kLanes];
  for (std::size_t v = 0; v < kVectors; ++v) {
    hn::Store(lanes[v], F64(), sums + v * hn::Lanes(F64()));
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

// Whether pairs are ordinary on both sides; counts those where one is special and the other is not
// the same.
HWY_INLINE hn::Mask<F64> ordinary_pairs(hn::Vec<F64> want, hn::Vec<F64> got,
                                        LaneCount<F64>& one_sided) {
  const F64 f64;
  const auto sentinel = hn::Set(f64, kSentinel);
  const auto infinity = hn::Set(f64, std::numeric_limits<double>::infinity());
  const auto w = hn::Abs(want);
  const auto g = hn::Abs(got);
  // NaN is neither less nor greater.
  const auto ordinary = hn::And(hn::Lt(w, sentinel), hn::Lt(g, sentinel));
  const auto both_nan = hn::And(hn::IsNaN(w), hn::IsNaN(g));
  const auto same_infinity = hn::And(hn::Eq(w, infinity), hn::Eq(want, got));
  const auto both_sentinel = hn::And(hn::And(hn::Ge(w, sentinel), hn::Lt(w, infinity)),
                                     hn::And(hn::Ge(g, sentinel), hn::Lt(g, infinity)));
  const auto same = hn::Or(both_nan, hn::Or(same_infinity, both_sentinel));
  one_sided.add(hn::Not(hn::Or(ordinary, same)));
  return ordinary;
}

// Of whole rows of kLanes elements. Without kSpecials every element counts, whatever it is.
template <DType dtype, bool kSpecials>
HWY_INLINE PairSums sum_block(const std::byte* HWY_RESTRICT want, const std::byte* HWY_RESTRICT got,
                              std::size_t count) {
  const F64 f64;
  hn::Vec<F64> difference[kVectors];
  hn::Vec<F64> norm[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) difference[v] = norm[v] = hn::Zero(f64);
  LaneCount<F64> one_sided;
  for (std::size_t at = 0; at < count; at += kLanes) {
    const std::size_t ahead = at * size_of<dtype>() + kAhead;
    if (ahead % 64 == 0) {
      hwy::Prefetch(want + ahead);
      hwy::Prefetch(got + ahead);
    }
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t offset = (at + v * hn::Lanes(f64)) * size_of<dtype>();
      auto w = load_double<dtype>(want + offset);
      auto d = subtract<dtype>(got + offset, want + offset);
      if constexpr (kSpecials) {
        const auto counts = ordinary_pairs(w, load_double<dtype>(got + offset), one_sided);
        w = hn::IfThenElseZero(counts, w);
        d = hn::IfThenElseZero(counts, d);
      }
      norm[v] = add_square<dtype>(w, norm[v]);
      difference[v] = add_square<dtype>(d, difference[v]);
    }
  }
  return {add_lanes(difference), add_lanes(norm), one_sided.total()};
}

template <DType dtype>
void add_block(const std::byte* want, const std::byte* got, std::size_t count, PairSums& sums) {
  PairSums block = sum_block<dtype, false>(want, got, count);
  if (!(block.difference < kOrdinary && block.norm < kOrdinary)) {
    block = sum_block<dtype, true>(want, got, count);
  }
  sums.difference += block.difference;
  sums.norm += block.norm;
  sums.one_sided += block.one_sided;
}

template <DType dtype>
PairSums sum_all(const std::byte* want, const std::byte* got, std::size_t count) {
  constexpr std::size_t kSize = size_of<dtype>();
  PairSums sums;
  const std::size_t rest = count % kLanes;
  const std::size_t whole = count - rest;
  for (std::size_t at = 0; at < whole; at += kBlock) {
    add_block<dtype>(want + at * kSize, got + at * kSize, std::min(kBlock, whole - at), sums);
  }
  if (rest > 0) {  // a block of its own, padded with zeros on both sides
    std::byte want_row[kLanes * kSize] = {};
    std::byte got_row[kLanes * kSize] = {};
    std::memcpy(want_row, want + whole * kSize, rest * kSize);
    std::memcpy(got_row, got + whole * kSize, rest * kSize);
    add_block<dtype>(want_row, got_row, kLanes, sums);
  }
  return sums;
}

PairSums sum_dtype(DType dtype, const std::byte* want, const std::byte* got, std::size_t count) {
  switch (dtype) {
    case DType::kBFloat16:
      return sum_all<DType::kBFloat16>(want, got, count);
    case DType::kFloat16:
      return sum_all<DType::kFloat16>(want, got, count);
    case DType::kFloat32:
      return sum_all<DType::kFloat32>(want, got, count);
    default:
      return sum_all<DType::kFloat64>(want, got, count);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace goldentrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace goldentrace {

HWY_EXPORT(sum_dtype);

PairSums sum_pairs(DType dtype, const std::byte* want, const std::byte* got, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_dtype)(dtype, want, got, count);
}

}  // namespace goldentrace
#endif
