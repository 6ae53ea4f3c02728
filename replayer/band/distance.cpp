// Compiled once for each instruction set that Highway knows; the best one is taken at run time.
#include "replayer/band/distance.h"

// Vectors of a size that the compiler does not know can't be kept in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

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

// The elements of a row of kLanes are added to as many sums. A block fits into the nearest cache,
// so that looking at it twice costs little.
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

// Vector `v` of the row of kLanes elements at `row`. Of bfloat16 the first half of the vectors has
// the even elements, the other half the odd ones: they need no widening.
template <DType dtype>
HWY_INLINE auto load(const std::byte* row, std::size_t v) {
  const std::size_t n = hn::Lanes(F64());
  if constexpr (dtype == DType::kFloat64) {
    return hn::LoadU(F64(), reinterpret_cast<const double*>(row) + v * n);
  } else if constexpr (dtype == DType::kBFloat16) {
    constexpr std::size_t kEven = kVectors / 2;
    const hn::RebindToUnsigned<Half32> u32;
    const auto* pairs = reinterpret_cast<const std::uint32_t*>(row) + v % kEven * n;
    const auto bits = hn::LoadU(u32, pairs);
    return hn::BitCast(
        Half32(), v < kEven ? hn::ShiftLeft<16>(bits) : hn::And(bits, hn::Set(u32, 0xffff0000u)));
  } else {
    return load_float<dtype>(Half32(), row + v * n * size_of<dtype>());
  }
}

HWY_INLINE hn::Vec<F64> widen(hn::Vec<F64> x) { return x; }
HWY_INLINE hn::Vec<F64> widen(hn::Vec<Half32> x) { return hn::PromoteTo(F64(), x); }

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
// the same. As a float32 the sentinel is rounded up, and no float32 lies between.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Mask<D> ordinary_pairs(D d, hn::Vec<D> want, hn::Vec<D> got,
                                      LaneCount<D>& one_sided) {
  const auto sentinel = hn::Set(d, static_cast<T>(kSentinel));
  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
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
  using Narrow = std::conditional_t<dtype == DType::kFloat64, F64, Half32>;
  const F64 f64;
  hn::Vec<F64> difference[kVectors];
  hn::Vec<F64> norm[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) difference[v] = norm[v] = hn::Zero(f64);
  LaneCount<Narrow> one_sided;
  for (std::size_t at = 0; at < count; at += kLanes) {
    const std::size_t ahead = at * size_of<dtype>() + kAhead;
    if (ahead % 64 == 0) {
      hwy::Prefetch(want + ahead);
      hwy::Prefetch(got + ahead);
    }
    const std::byte* const want_row = want + at * size_of<dtype>();
    const std::byte* const got_row = got + at * size_of<dtype>();
    for (std::size_t v = 0; v < kVectors; ++v) {
      auto w = load<dtype>(want_row, v);
      const auto g = load<dtype>(got_row, v);
      auto d = hn::Sub(g, w);
      if constexpr (kSpecials) {
        const auto counts = ordinary_pairs(Narrow(), w, g, one_sided);
        w = hn::IfThenElseZero(counts, w);
        d = hn::IfThenElseZero(counts, d);
      }
      norm[v] = add_square<dtype>(widen(w), norm[v]);
      difference[v] = add_square<dtype>(widen(d), difference[v]);
    }
  }
  return {add_lanes(difference), add_lanes(norm), one_sided.total()};
}

// `careful`: a block before had specials, so that this one may have some too.
template <DType dtype>
void add_block(const std::byte* want, const std::byte* got, std::size_t count, bool& careful,
               PairSums& sums) {
  PairSums block;
  if (!careful) {
    block = sum_block<dtype, false>(want, got, count);
    careful = !(block.difference < kOrdinary && block.norm < kOrdinary);
  }
  if (careful) block = sum_block<dtype, true>(want, got, count);
  sums.difference += block.difference;
  sums.norm += block.norm;
  sums.one_sided += block.one_sided;
}

template <DType dtype>
PairSums sum_all(const std::byte* want, const std::byte* got, std::size_t count) {
  constexpr std::size_t kSize = size_of<dtype>();
  PairSums sums;
  bool careful = false;
  const std::size_t rest = count % kLanes;
  const std::size_t whole = count - rest;
  for (std::size_t at = 0; at < whole; at += kBlock) {
    add_block<dtype>(want + at * kSize, got + at * kSize, std::min(kBlock, whole - at), careful,
                     sums);
  }
  if (rest > 0) {  // a block of its own, padded with zeros on both sides
    std::byte want_row[kLanes * kSize] = {};
    std::byte got_row[kLanes * kSize] = {};
    std::memcpy(want_row, want + whole * kSize, rest * kSize);
    std::memcpy(got_row, got + whole * kSize, rest * kSize);
    add_block<dtype>(want_row, got_row, kLanes, careful, sums);
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
