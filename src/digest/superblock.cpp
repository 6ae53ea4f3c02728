// Compiled once for each instruction set that Highway knows; the best one is taken at run time.
#include "src/digest/superblock.h"

// Vectors of a size that the compiler does not know can't be kept in arrays.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/cache_control.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "src/digest/hash.h"
#include "src/digest/sketch.h"

#ifndef GOLDENTRACE_SUPERBLOCK_ONCE
#define GOLDENTRACE_SUPERBLOCK_ONCE
namespace goldentrace {
namespace {

// sketch_signs as factors: a fused multiply-add by +1 or -1 rounds as an addition does.
struct SignRows {
  alignas(64) float at[kLanes][kLanes];
};
constexpr SignRows make_sign_rows() {
  SignRows rows{};
  for (std::uint32_t row = 0; row < kLanes; ++row) {
    const std::uint64_t signs = sketch_signs(row);
    for (std::size_t i = 0; i < kLanes; ++i) rows.at[row][i] = (signs >> i) & 1 ? -1.0F : 1.0F;
  }
  return rows;
}
constexpr SignRows kSignRows = make_sign_rows();

}  // namespace
}  // namespace goldentrace
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/digest/superblock.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace goldentrace {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most one block, so that a block is a whole number of them.
using F32 = hn::CappedTag<float, kLanes>;
using U32 = hn::Repartition<std::uint32_t, F32>;
using F64 = hn::CappedTag<double, kLanes>;
using Half32 = hn::Rebind<float, F64>;  // as many floats as an F64 vector has doubles

// As a float32 it is rounded up, and no float32 lies between.
constexpr double kSentinel = 1e30;
// Elements from here that are asked for while these are looked at: what the caller comes to next.
constexpr std::size_t kAhead = kSuperblock;

#include "src/digest/vectors.inc"

// ---- one superblock -----------------------------------------------------------------------------

#include "src/digest/superblock_range.inc"

// Blocks are looked at in groups of as many as a block has vectors: then a sketch's sums stay in
// registers. Block j of a group adds its vector v to register v XOR (the bits of j in reverse);
// lanes change places between groups only.
constexpr std::size_t kVectors = kLanes / hn::MaxLanes(F32());
constexpr std::size_t kGroup = kVectors * kLanes;  // elements

constexpr std::size_t register_of(std::size_t vector, std::size_t block) {
  return vector ^ (sketch_place(static_cast<std::uint32_t>(block)) / hn::MaxLanes(F32()));
}

// Lane i goes to lane i XOR `place`.
HWY_INLINE hn::Vec<F32> move_lanes(hn::Vec<F32> x, std::uint32_t place) {
  const F32 f32;
  const U32 u32;
  return hn::TableLookupLanes(
      x, hn::IndicesFromVec(f32, hn::Xor(hn::Iota(u32, 0), hn::Set(u32, place))));
}

HWY_INLINE std::uint32_t lane_part(std::uint32_t place) {
  return place & static_cast<std::uint32_t>(hn::MaxLanes(F32()) - 1);
}

#if HWY_TARGET == HWY_SCALAR
template <DType dtype>
using SoFar = RangeSoFar<F32>;
#else
template <DType dtype>
using SoFar = std::conditional_t<size_of<dtype>() == 2, BitRange<dtype>, RangeSoFar<F32>>;
#endif

// Block `kBlock` of a group.
template <DType dtype, bool kSketch, std::size_t kBlock>
HWY_INLINE void look_at_block(const std::byte* data, float* HWY_RESTRICT floats,
                              const float* HWY_RESTRICT signs, hn::Vec<F32>* HWY_RESTRICT sketch,
                              SoFar<dtype>& range) {
  const F32 f32;
  const std::size_t n = hn::Lanes(f32);
  constexpr std::size_t kBytes = kLanes * size_of<dtype>();
  data += kBlock * kBytes;
  for (std::size_t line = 0; line < kBytes; line += 64) {
    hwy::Prefetch(data + kAhead * size_of<dtype>() + line);
  }
  constexpr bool kByVector = std::is_same_v<SoFar<dtype>, RangeSoFar<F32>>;
  if constexpr (!kByVector) range.add(data);
  for (std::size_t v = 0; v < kVectors; ++v) {
    const auto x = load_float<dtype>(f32, data + v * n * size_of<dtype>());
    if constexpr (dtype != DType::kFloat32) hn::Store(x, f32, floats + kBlock * kLanes + v * n);
    if constexpr (kByVector) range.add(x);
    if constexpr (kSketch) {
      auto& sum = sketch[register_of(v, kBlock)];
      sum = hn::MulAdd(x, hn::Load(f32, signs + v * n), sum);
    }
  }
}

template <DType dtype, bool kSketch, std::size_t... kBlocks>
HWY_INLINE void look_at_group(std::index_sequence<kBlocks...> /*of a group*/, const std::byte* data,
                              float* HWY_RESTRICT floats, std::uint32_t block,
                              std::uint32_t first_row, hn::Vec<F32>* HWY_RESTRICT sketch,
                              SoFar<dtype>& range) {
  (look_at_block<dtype, kSketch, kBlocks>(data, floats, kSignRows.at[(block + kBlocks) ^ first_row],
                                          sketch, range),
   ...);
}

// The first look at `groups` groups: as floats, if they are not, and all but the sums. What follows
// them in memory is asked for meanwhile. `first` is the number of the first block in its
// superblock.
template <DType dtype, bool kSketch>
HWY_INLINE void look(const std::byte* data, std::size_t groups, std::size_t first,
                     const SketchMix& mix, float* HWY_RESTRICT floats, float* HWY_RESTRICT sums,
                     SoFar<dtype>& range) {
  const F32 f32;
  const std::size_t n = hn::Lanes(f32);
  hn::Vec<F32> sketch[kVectors];
  if constexpr (kSketch) {
    for (std::size_t v = 0; v < kVectors; ++v) sketch[v] = hn::Load(f32, sums + v * n);
  }
  std::uint32_t place = 0;  // where the registers' lanes are
  for (std::size_t group = 0; group < groups; ++group) {
    const auto block = static_cast<std::uint32_t>(first + group * kVectors);
    if constexpr (kSketch) {
      const std::uint32_t next = lane_part(sketch_place(block));
      for (auto& sum : sketch) sum = move_lanes(sum, place ^ next);
      place = next;
    }
    look_at_group<dtype, kSketch>(std::make_index_sequence<kVectors>(), data, floats, block,
                                  mix.first, sketch, range);
    data += kGroup * size_of<dtype>();
    floats += kGroup;
  }
  if constexpr (kSketch) {
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::Store(move_lanes(sketch[v], place), f32, sums + v * n);
  }
}

// A superblock's sums as they are added to the tensor's.
HWY_INLINE void place_sums(const float* HWY_RESTRICT sums, const SketchMix& mix,
                           float* HWY_RESTRICT out) {
  const F32 f32;
  const std::size_t n = hn::Lanes(f32);
  for (std::size_t first = 0; first < kLanes; first += n) {
    const std::uint64_t bits = mix.signs >> first;
    const auto negative = hn::LoadMaskBits(f32, reinterpret_cast<const std::uint8_t*>(&bits));
    const auto sum = hn::Load(f32, sums + first);
    const auto moved =
        move_lanes(hn::IfThenElse(negative, hn::Neg(sum), sum), lane_part(mix.place));
    hn::StoreU(moved, f32, out + (first ^ (mix.place - lane_part(mix.place))));
  }
}

HWY_INLINE auto load_double(const float* at) {
  return hn::PromoteTo(F64(), hn::LoadU(Half32(), at));
}
HWY_INLINE auto load_double(const double* at) { return hn::LoadU(F64(), at); }

// The square of a float32 is exact in float64: one rounding or two make no difference.
HWY_INLINE auto add_square(float, hn::Vec<F64> x, hn::Vec<F64> sum) {
  return hn::MulAdd(x, x, sum);
}
HWY_INLINE auto add_square(double, hn::Vec<F64> x, hn::Vec<F64> sum) {
  return hn::Add(sum, hn::Mul(x, x));
}

// The sums by lane: a strip of lanes at a time, so that they stay in registers.
template <typename T>
HWY_INLINE void sum_lanes(const T* HWY_RESTRICT elements, std::size_t blocks,
                          double* HWY_RESTRICT sums, double* HWY_RESTRICT squares) {
  const F64 f64;
  const std::size_t n = hn::Lanes(f64);
  const T kind{};
  for (std::size_t strip = 0; strip < kLanes; strip += 4 * n) {
    auto s0 = hn::Zero(f64), s1 = s0, s2 = s0, s3 = s0, q0 = s0, q1 = s0, q2 = s0, q3 = s0;
    const T* at = elements + strip;
    for (std::size_t b = 0; b < blocks; ++b, at += kLanes) {
      const auto x0 = load_double(at);
      const auto x1 = load_double(at + n);
      const auto x2 = load_double(at + 2 * n);
      const auto x3 = load_double(at + 3 * n);
      s0 = hn::Add(s0, x0);
      s1 = hn::Add(s1, x1);
      s2 = hn::Add(s2, x2);
      s3 = hn::Add(s3, x3);
      q0 = add_square(kind, x0, q0);
      q1 = add_square(kind, x1, q1);
      q2 = add_square(kind, x2, q2);
      q3 = add_square(kind, x3, q3);
    }
    hn::Store(s0, f64, sums + strip);
    hn::Store(s1, f64, sums + strip + n);
    hn::Store(s2, f64, sums + strip + 2 * n);
    hn::Store(s3, f64, sums + strip + 3 * n);
    hn::Store(q0, f64, squares + strip);
    hn::Store(q1, f64, squares + strip + n);
    hn::Store(q2, f64, squares + strip + 2 * n);
    hn::Store(q3, f64, squares + strip + 3 * n);
  }
}

// Counts what is not ordinary and puts +0 in its place: that changes no sum. `in` may be `out`.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE Range clean(D d, const T* in, std::size_t count, T* out, Stats& stats) {
  const std::size_t n = hn::Lanes(d);
  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  const auto sentinel = hn::Set(d, static_cast<T>(kSentinel));
  RangeSoFar<D> range;
  LaneCount<D> nan, positive_infinity, negative_infinity, sentinels;
  for (std::size_t at = 0; at < count; at += n) {
    const auto here = hn::FirstN(d, count - at);
    const auto x = hn::LoadU(d, in + at);
    const auto size = hn::Abs(x);
    const auto ordinary = hn::And(here, hn::Lt(size, sentinel));  // false for NaN
    nan.add(hn::And(here, hn::IsNaN(x)));
    positive_infinity.add(hn::And(here, hn::Eq(x, infinity)));
    negative_infinity.add(hn::And(here, hn::Eq(x, hn::Neg(infinity))));
    sentinels.add(hn::And(here, hn::And(hn::Ge(size, sentinel), hn::Lt(size, infinity))));
    range.add(x, ordinary);
    hn::StoreU(hn::IfThenElseZero(ordinary, x), d, out + at);
  }
  stats.nan = nan.total();
  stats.positive_infinity = positive_infinity.total();
  stats.negative_infinity = negative_infinity.total();
  stats.sentinel = sentinels.total();
  return range.range();
}

// Elements of one superblock while they are looked at, padded with zeros to whole groups.
struct Workspace {
  HWY_ALIGN float floats[kSuperblock];
  HWY_ALIGN double doubles[kSuperblock];  // of float64 only
  HWY_ALIGN std::byte tail[kGroup * sizeof(float)];
  HWY_ALIGN float sketch[kLanes];
};

HWY_INLINE void clear_sketch(Workspace& work) { std::memset(work.sketch, 0, sizeof work.sketch); }

HWY_INLINE std::size_t groups_of(std::size_t count) { return (count + kGroup - 1) / kGroup; }
HWY_INLINE std::size_t blocks_of(std::size_t count) { return (count + kLanes - 1) / kLanes; }

// The sketch alone, of the workspace's floats.
template <bool kSketch>
HWY_INLINE void look_again(std::size_t count, const SketchMix& mix, Workspace& work) {
  if constexpr (kSketch) {
    clear_sketch(work);
    RangeSoFar<F32> unused;
    look<DType::kFloat32, true>(reinterpret_cast<const std::byte*>(work.floats), groups_of(count),
                                0, mix, nullptr, work.sketch, unused);
  }
}

HWY_INLINE std::size_t count_zeros(const float* floats, std::size_t count) {
  const F32 f32;
  LaneCount<F32> zeros;
  for (std::size_t at = 0; at < count; at += hn::Lanes(f32)) {
    zeros.add(hn::Eq(hn::Load(f32, floats + at), hn::Zero(f32)));
  }
  return zeros.total();
}

HWY_INLINE bool ordinary(const Range& range) {
  return range.min > -kSentinel && range.max < kSentinel;
}

HWY_INLINE void set_range(const Range& range, std::size_t count, Stats& stats) {
  stats.count = count;
  stats.zero = range.zeros;
  // Adding +0 turns -0 into +0.
  stats.min = range.min <= range.max ? range.min + 0.0 : 0.0;
  stats.max = range.min <= range.max ? range.max + 0.0 : 0.0;
}

// Leaves the sums by lane in `sums` and `squares`, the sketch in `work`, the rest in `stats`.
template <DType dtype, bool kSketch>
HWY_INLINE void add_floats(const std::byte* data, std::size_t count, const SketchMix& mix,
                           bool suspect, Workspace& work, Stats& stats, double* sums,
                           double* squares) {
  const F32 f32;
  const std::size_t whole = count / kGroup;
  const std::size_t rest = count % kGroup;
  if constexpr (kSketch) clear_sketch(work);
  SoFar<dtype> so_far;
  look<dtype, kSketch>(data, whole, 0, mix, work.floats, work.sketch, so_far);
  const float* floats = work.floats;
  if constexpr (dtype == DType::kFloat32) {
    if (rest == 0 && !suspect) {
      floats = reinterpret_cast<const float*>(data);
    } else {
      std::memcpy(work.floats, data, whole * kGroup * sizeof(float));
    }
  }
  Range range = so_far.range();
  if (!std::is_same_v<SoFar<dtype>, RangeSoFar<F32>> && range.zeros > 0) {
    range.zeros = count_zeros(work.floats, whole * kGroup);
  }
  if (rest > 0) {
    float* const tail = work.floats + whole * kGroup;
    std::memset(work.tail, 0, kGroup * size_of<dtype>());
    std::memcpy(work.tail, data + whole * kGroup * size_of<dtype>(), rest * size_of<dtype>());
    SoFar<dtype> with_padding;
    look<dtype, kSketch>(work.tail, 1, whole * kVectors, mix, tail, work.sketch, with_padding);
    if constexpr (dtype == DType::kFloat32) std::memcpy(tail, work.tail, kGroup * sizeof(float));
    RangeSoFar<F32> without;
    for (std::size_t at = 0; at < rest; at += hn::Lanes(f32)) {
      without.add(hn::Load(f32, tail + at), hn::FirstN(f32, rest - at));
    }
    range = whole > 0 ? together(range, without.range()) : without.range();
  }
  if (suspect || !ordinary(range)) {
    range = clean(f32, floats, count, work.floats, stats);
    std::fill(work.floats + count, work.floats + groups_of(count) * kGroup, 0.0F);
    floats = work.floats;
    look_again<kSketch>(count, mix, work);
  }
  set_range(range, count, stats);
  sum_lanes(floats, blocks_of(count), sums, squares);
}

template <bool kSketch>
HWY_INLINE void add_doubles(const std::byte* data, std::size_t count, const SketchMix& mix,
                            Workspace& work, Stats& stats, double* sums, double* squares) {
  const F64 f64;
  const std::size_t padded = groups_of(count) * kGroup;
  std::memcpy(work.doubles, data, count * sizeof(double));
  std::fill(work.doubles + count, work.doubles + padded, 0.0);
  set_range(clean(f64, work.doubles, count, work.doubles, stats), count, stats);
  for (std::size_t i = 0; i < padded; ++i) {
    work.floats[i] = static_cast<float>(work.doubles[i]);  // only the sketch looks at them
  }
  look_again<kSketch>(count, mix, work);
  sum_lanes(work.doubles, blocks_of(count), sums, squares);
}

// So many superblocks' sums are added up side by side: one after the other, lane after lane, they
// would wait for each addition.
constexpr std::size_t kSideBySide = 4;

struct Lanes {
  HWY_ALIGN double sums[kLanes];
  HWY_ALIGN double squares[kLanes];
};

// Of `kCount` superblocks, `lanes` lanes that hold anything.
template <std::size_t kCount>
HWY_INLINE void add_lanes(const Lanes* found, std::size_t lanes, SuperblockSums* out) {
  double sums[kCount] = {};
  double squares[kCount] = {};
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    for (std::size_t i = 0; i < kCount; ++i) {
      sums[i] += found[i].sums[lane];
      squares[i] += found[i].squares[lane];
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    out[i].stats.sum = sums[i];
    out[i].stats.sum_squares = squares[i];
  }
}

template <DType dtype, bool kSketch>
HWY_NOINLINE void add_one(const std::byte* data, std::size_t count, std::uint64_t superblock,
                          bool suspect, Workspace& work, Lanes& lanes, SuperblockSums& out) {
  out.stats = {};
  const SketchMix mix = kSketch ? sketch_mix(superblock) : SketchMix{};
  if constexpr (dtype == DType::kFloat64) {
    add_doubles<kSketch>(data, count, mix, work, out.stats, lanes.sums, lanes.squares);
  } else {
    add_floats<dtype, kSketch>(data, count, mix, suspect, work, out.stats, lanes.sums,
                               lanes.squares);
  }
  if constexpr (kSketch) place_sums(work.sketch, mix, out.sketch.data());
}

template <DType dtype, bool kSketch>
HWY_INLINE void add_all(const std::byte* data, std::size_t count, std::uint64_t first,
                        SuperblockSums* out, std::uint64_t* leaves) {
  Workspace work;
  Lanes lanes[kSideBySide];
  for (std::size_t at = 0; at < count;) {
    const std::size_t begin = at;
    std::size_t taken = 0;
    for (; taken < kSideBySide && at < count; ++taken, at += kSuperblock) {
      const std::size_t here = std::min(kSuperblock, count - at);
      hash_leaves({data + at * size_of<dtype>(), here * size_of<dtype>()},
                  leaves + at * size_of<dtype>() / kHashBlock);
      add_one<dtype, kSketch>(data + at * size_of<dtype>(), here, first + at / kSuperblock, false,
                              work, lanes[taken], out[at / kSuperblock]);
    }
    SuperblockSums* const group = out + begin / kSuperblock;
    if (taken == kSideBySide) {
      add_lanes<kSideBySide>(lanes, kLanes, group);
    } else {
      for (std::size_t i = 0; i < taken; ++i)
        add_lanes<1>(lanes + i, std::min(count, kLanes), group + i);
    }
    for (std::size_t i = 0; i < taken; ++i) {
      if (!std::isnan(group[i].stats.sum)) continue;
      const std::size_t offset = begin + i * kSuperblock;
      add_one<dtype, kSketch>(data + offset * size_of<dtype>(),
                              std::min(kSuperblock, count - offset), first + offset / kSuperblock,
                              true, work, lanes[0], group[i]);
      add_lanes<1>(lanes, kLanes, group + i);
    }
  }
}

template <bool kSketch>
void add_dtype(DType dtype, const std::byte* data, std::size_t count, std::uint64_t first,
               SuperblockSums* out, std::uint64_t* leaves) {
  switch (dtype) {
    case DType::kBFloat16:
      return add_all<DType::kBFloat16, kSketch>(data, count, first, out, leaves);
    case DType::kFloat16:
      return add_all<DType::kFloat16, kSketch>(data, count, first, out, leaves);
    case DType::kFloat32:
      return add_all<DType::kFloat32, kSketch>(data, count, first, out, leaves);
    default:
      return add_all<DType::kFloat64, kSketch>(data, count, first, out, leaves);
  }
}

void add_with_sketch(DType dtype, const std::byte* data, std::size_t count, std::uint64_t first,
                     SuperblockSums* out, std::uint64_t* leaves) {
  add_dtype<true>(dtype, data, count, first, out, leaves);
}
void add_without(DType dtype, const std::byte* data, std::size_t count, std::uint64_t first,
                 SuperblockSums* out, std::uint64_t* leaves) {
  add_dtype<false>(dtype, data, count, first, out, leaves);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace goldentrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace goldentrace {

HWY_EXPORT(add_with_sketch);
HWY_EXPORT(add_without);

void add_superblocks(DType dtype, const std::byte* data, std::size_t count, std::uint64_t first,
                     bool with_sketch, std::span<SuperblockSums> sums, std::uint64_t* leaves) {
  if (with_sketch) {
    HWY_DYNAMIC_DISPATCH(add_with_sketch)(dtype, data, count, first, sums.data(), leaves);
  } else {
    HWY_DYNAMIC_DISPATCH(add_without)(dtype, data, count, first, sums.data(), leaves);
  }
}

}  // namespace goldentrace
#endif
