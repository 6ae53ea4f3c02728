// Compiled once for each instruction set that Highway knows; the best one is taken at run time.
#include "replayer/band/output_errors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "replayer/band/output_errors.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace goldentrace {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F64 = hn::ScalableTag<double>;

constexpr std::size_t kPart = 256;  // elements that are looked at at once: four arrays in the cache
constexpr double kMask = 1e30;      // as in the stats digest

// ---- elements as float64 ------------------------------------------------------------------------

template <typename T>
T load(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

// Loops that the compiler makes vectors of.
void widen(const FloatArray& from, std::size_t first, std::size_t count, double* HWY_RESTRICT to) {
  const std::byte* const data = from.data + first * item_size(from.dtype);
  switch (from.dtype) {
    case DType::kBFloat16:
      for (std::size_t i = 0; i < count; ++i) {
        const auto bits = static_cast<std::uint32_t>(load<std::uint16_t>(data, i)) << 16;
        to[i] = static_cast<double>(std::bit_cast<float>(bits));
      }
      return;
    case DType::kFloat32:
      for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<double>(load<float>(data, i));
      return;
    case DType::kFloat64:
      std::memcpy(to, data, count * sizeof(double));
      return;
    default:
      for (std::size_t i = 0; i < count; ++i) to[i] = load_real(from.dtype, data, i);
  }
}

// To the nearest number of binary16, even in the middle; numbers beyond become infinite.
double as_float16(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  constexpr int kDigits = 11;
  constexpr int kSmallest = -24;  // exponent of the least number
  constexpr double kLargest = 65520;
  if (std::fabs(x) >= kLargest) return std::copysign(INFINITY, x);
  const int exponent = std::max(std::ilogb(x) - (kDigits - 1), kSmallest);
  return std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
}

void round_to(DType dtype, const double* HWY_RESTRICT from, std::size_t count,
              double* HWY_RESTRICT to) {
  switch (dtype) {
    case DType::kBFloat16:
      for (std::size_t i = 0; i < count; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(from[i]));
        const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
        to[i] = static_cast<double>(std::bit_cast<float>(rounded));
      }
      return;
    case DType::kFloat32:
      for (std::size_t i = 0; i < count; ++i) {
        to[i] = static_cast<double>(static_cast<float>(from[i]));
      }
      return;
    case DType::kFloat16:
      for (std::size_t i = 0; i < count; ++i) to[i] = as_float16(from[i]);
      return;
    default:
      std::memcpy(to, from, count * sizeof(double));
  }
}

// ---- sums ---------------------------------------------------------------------------------------

bool ordinary(double x) { return std::fabs(x) < kMask; }  // not NaN either

// Values that stand for no number, and are the same in both.
bool same_special(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return !ordinary(x) && !ordinary(y) && std::signbit(x) == std::signbit(y);
}

// Part of one row.
struct Part {
  alignas(64) std::array<double, kPart> wide;
  alignas(64) std::array<double, kPart> candidate;
  alignas(64) std::array<double, kPart> beside;
  alignas(64) std::array<double, kPart> result;
  std::size_t count = 0;
  bool has_beside = false;
};

// Whether whole vectors of it can be added up as they are.
bool all_ordinary(const Part& part) {
  const F64 f64;
  const std::size_t lanes = hn::Lanes(f64);
  const auto mask = hn::Set(f64, kMask);
  auto all = hn::Eq(mask, mask);
  for (std::size_t i = 0; i + lanes <= part.count; i += lanes) {
    const auto w = hn::Lt(hn::Abs(hn::Load(f64, part.wide.data() + i)), mask);
    const auto c = hn::Lt(hn::Abs(hn::Load(f64, part.candidate.data() + i)), mask);
    const auto b = hn::Lt(hn::Abs(hn::Load(f64, part.beside.data() + i)), mask);
    all = hn::And(all, hn::And(w, hn::And(c, b)));
  }
  return hn::AllTrue(f64, all);
}

struct RowSums {
  double wide = 0;
  ErrorSums candidate;
  ErrorSums beside;
};

// The channels' sums of this part, or null where there are none.
struct Channels {
  double* wide = nullptr;
  double* candidate = nullptr;
  double* beside = nullptr;
  double* beside_fourths = nullptr;
};

struct VectorSums {
  hn::Vec<F64> squares;
  hn::Vec<F64> fourths;
  hn::Vec<F64> along;

  HWY_INLINE VectorSums()
      : squares(hn::Zero(F64())), fourths(hn::Zero(F64())), along(hn::Zero(F64())) {}
  HWY_INLINE void add(hn::Vec<F64> square, hn::Vec<F64> d, hn::Vec<F64> wide) {
    squares = hn::Add(squares, square);
    fourths = hn::MulAdd(square, square, fourths);
    along = hn::MulAdd(d, wide, along);
  }
  HWY_INLINE void add_to(ErrorSums& sums) const {
    sums.squares += hn::GetLane(hn::SumOfLanes(F64(), squares));
    sums.fourths += hn::GetLane(hn::SumOfLanes(F64(), fourths));
    sums.along += hn::GetLane(hn::SumOfLanes(F64(), along));
  }
};

HWY_INLINE void add_to(hn::Vec<F64> x, double* sums) {
  hn::StoreU(hn::Add(hn::LoadU(F64(), sums), x), F64(), sums);
}

// Whole vectors of ordinary numbers; returns how many elements those are.
template <bool kChannels>
std::size_t add_vectors(const Part& part, const Channels& channels, RowSums& row,
                        ErrorSums& result) {
  const F64 f64;
  const std::size_t lanes = hn::Lanes(f64);
  auto wide_squares = hn::Zero(f64);
  VectorSums candidate;
  VectorSums beside;
  VectorSums rounded;
  std::size_t i = 0;
  for (; i + lanes <= part.count; i += lanes) {
    const auto w = hn::Load(f64, part.wide.data() + i);
    const auto c = hn::Sub(hn::Load(f64, part.candidate.data() + i), w);
    const auto b = hn::Sub(hn::Load(f64, part.beside.data() + i), w);
    const auto r = hn::Sub(hn::Load(f64, part.result.data() + i), w);
    const auto w2 = hn::Mul(w, w);
    const auto c2 = hn::Mul(c, c);
    const auto b2 = hn::Mul(b, b);
    wide_squares = hn::Add(wide_squares, w2);
    candidate.add(c2, c, w);
    beside.add(b2, b, w);
    rounded.add(hn::Mul(r, r), r, w);
    if constexpr (kChannels) {
      add_to(w2, channels.wide + i);
      add_to(c2, channels.candidate + i);
      add_to(b2, channels.beside + i);
      add_to(hn::Mul(b2, b2), channels.beside_fourths + i);
    }
  }
  row.wide += hn::GetLane(hn::SumOfLanes(f64, wide_squares));
  candidate.add_to(row.candidate);
  beside.add_to(row.beside);
  rounded.add_to(result);
  return i;
}

void add_one(const Part& part, std::size_t i, const Channels& channels, RowSums& row,
             OutputErrors& errors) {
  const double w = part.wide[i];
  const double c = part.candidate[i] - w;
  const double b = part.beside[i] - w;
  if (!ordinary(w) || !ordinary(part.candidate[i])) {
    if (!same_special(w, part.candidate[i])) ++errors.one_sided;
    return;
  }
  ++errors.elements;
  row.wide += w * w;
  row.candidate.add(c, w);
  errors.result.add(part.result[i] - w, w);
  const bool counts = ordinary(part.beside[i]);
  if (counts) row.beside.add(b, w);
  if (channels.wide == nullptr) return;
  channels.wide[i] += w * w;
  channels.candidate[i] += c * c;
  if (!counts) return;
  channels.beside[i] += b * b;
  channels.beside_fourths[i] += b * b * b * b;
}

void add_part(const Part& part, const Channels& channels, RowSums& row, OutputErrors& errors) {
  std::size_t done = 0;
  const std::size_t count = part.count;
  if (all_ordinary(part)) {
    done = channels.wide != nullptr ? add_vectors<true>(part, channels, row, errors.result)
                                    : add_vectors<false>(part, channels, row, errors.result);
    errors.elements += done;
  }
  for (; done < count; ++done) add_one(part, done, channels, row, errors);
}

void load_part(const CutValues& values, std::size_t first, Part& part) {
  widen(values.wide, first, part.count, part.wide.data());
  widen(values.candidate, first, part.count, part.candidate.data());
  round_to(values.recorded, part.wide.data(), part.count, part.result.data());
  if (values.beside.data != nullptr) {
    widen(values.beside, first, part.count, part.beside.data());
  } else {
    std::copy_n(part.wide.data(), part.count, part.beside.data());
  }
}

// A strip of channels after the other, so that their sums stay in the cache.
void measure(const CutValues& values, OutputErrors& errors) {
  Part part;
  SliceSums& of = errors.channels;
  for (std::size_t begin = 0; begin < values.channels; begin += kPart) {
    part.count = std::min(kPart, values.channels - begin);
    const Channels channels =
        of.wide.empty() ? Channels()
                        : Channels{of.wide.data() + begin, of.candidate.data() + begin,
                                   of.beside.data() + begin, of.beside_fourths.data() + begin};
    for (std::size_t r = 0; r < values.rows; ++r) {
      load_part(values, r * values.channels + begin, part);
      RowSums row;
      add_part(part, channels, row, errors);
      errors.rows.wide[r] += row.wide;
      errors.rows.candidate[r] += row.candidate.squares;
      errors.rows.beside[r] += row.beside.squares;
      errors.rows.beside_fourths[r] += row.beside.fourths;
      errors.wide += row.wide;
      errors.candidate.add(row.candidate);
      errors.beside.add(row.beside);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace goldentrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace goldentrace {

HWY_EXPORT(measure);

void ErrorSums::add(double d, double wide) {
  const double square = d * d;
  squares += square;
  fourths += square * square;
  along += d * wide;
}

void ErrorSums::add(const ErrorSums& other) {
  squares += other.squares;
  fourths += other.fourths;
  along += other.along;
}

double ErrorSums::degrees_of_freedom() const {
  return fourths > 0 ? 3 * squares * squares / fourths : 0;
}

void SliceSums::reset(std::size_t slices) {
  for (auto* sums : {&wide, &candidate, &beside, &beside_fourths}) sums->assign(slices, 0.0);
}

void SliceSums::add(std::size_t slice, const SliceSums& other, std::size_t at) {
  wide[slice] += other.wide[at];
  candidate[slice] += other.candidate[at];
  beside[slice] += other.beside[at];
  beside_fourths[slice] += other.beside_fourths[at];
}

void measure_errors(const CutValues& values, OutputErrors& errors) {
  errors.elements = 0;
  errors.one_sided = 0;
  errors.wide = 0;
  errors.candidate = {};
  errors.beside = {};
  errors.result = {};
  errors.rows.reset(values.rows);
  // One row's elements are no slices that could be told from noise.
  errors.channels.reset(values.rows > 1 ? values.channels : 0);
  HWY_DYNAMIC_DISPATCH(measure)(values, errors);
}

}  // namespace goldentrace
#endif
