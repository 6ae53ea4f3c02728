// The digests of schema/FORMAT.md, section 11, written once more from the page, one clause after
// the other: slow, and with nothing of src/digest/ in it. And elements that need care.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/base/digest.h"
#include "src/base/dtype.h"

namespace goldentrace::testing {

// ---- stats
// ---------------------------------------------------------------------------------------

inline Stats reference_stats(const std::vector<double>& x) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Stats stats;
  stats.count = x.size();
  std::vector<double> ordinary;
  for (const double value : x) {
    if (std::isnan(value))
      ++stats.nan;
    else if (value == kInf)
      ++stats.positive_infinity;
    else if (value == -kInf)
      ++stats.negative_infinity;
    else if (value >= 1e30 || value <= -1e30)
      ++stats.sentinel;
    else
      ordinary.push_back(value);
  }
  if (!ordinary.empty()) {
    stats.zero = static_cast<std::uint64_t>(std::count(ordinary.begin(), ordinary.end(), 0.0));
    stats.min = *std::min_element(ordinary.begin(), ordinary.end());
    stats.max = *std::max_element(ordinary.begin(), ordinary.end());
  }
  if (stats.min == 0) stats.min = 0.0;
  if (stats.max == 0) stats.max = 0.0;
  for (std::size_t block = 0; block < x.size(); block += 4096) {
    double sum = 0;
    double squares = 0;
    for (std::size_t lane = 0; lane < 64; ++lane) {
      volatile double lane_sum = 0;  // volatile: no fused multiply-add, no reordering
      volatile double lane_squares = 0;
      for (std::size_t i = block + lane; i < std::min(block + 4096, x.size()); i += 64) {
        if (!(std::fabs(x[i]) < 1e30)) continue;
        const volatile double square = x[i] * x[i];
        lane_sum = lane_sum + x[i];
        lane_squares = lane_squares + square;
      }
      sum += lane_sum;
      squares += lane_squares;
    }
    stats.sum += sum;
    stats.sum_squares += squares;
  }
  return stats;
}

// Equal to the last bit, signs of zeros too.
inline void expect_same(const Stats& got, const Stats& want) {
  EXPECT_EQ(got.count, want.count);
  EXPECT_EQ(got.nan, want.nan);
  EXPECT_EQ(got.positive_infinity, want.positive_infinity);
  EXPECT_EQ(got.negative_infinity, want.negative_infinity);
  EXPECT_EQ(got.sentinel, want.sentinel);
  EXPECT_EQ(got.zero, want.zero);
  const std::pair<double, double> figures[] = {{got.min, want.min},
                                               {got.max, want.max},
                                               {got.sum, want.sum},
                                               {got.sum_squares, want.sum_squares}};
  for (const auto& [g, w] : figures) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(g), std::bit_cast<std::uint64_t>(w)) << g << ' ' << w;
  }
}

// ---- sketch
// --------------------------------------------------------------------------------------

inline std::uint64_t sketch_number(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

inline std::size_t reversed(std::size_t block) {
  std::size_t out = 0;
  for (int bit = 0; bit < 6; ++bit) out = 2 * out + (block >> bit & 1);
  return out;
}

inline Sketch reference_sketch(const std::vector<double>& x) {
  std::array<double, 64> total{};
  for (std::size_t s = 0; 4096 * s < x.size(); ++s) {
    const std::uint64_t signs = sketch_number(64 + 2 * s);
    const std::uint64_t places = sketch_number(65 + 2 * s);
    const std::size_t place = places % 64;
    const std::size_t first = places >> 58;
    std::array<float, 64> sums{};
    const std::size_t begin = 4096 * s;
    const std::size_t end = std::min(begin + 4096, x.size());
    for (std::size_t p = 0; begin + 64 * p < end; ++p) {
      const std::uint64_t row = sketch_number(p ^ first);
      for (std::size_t l = 0; l < 64 && begin + 64 * p + l < end; ++l) {
        const double element = x[begin + 64 * p + l];
        const bool ordinary = std::fabs(element) < 1e30;
        const volatile float rounded = ordinary ? static_cast<float>(element) : 0.0F;
        float& sum = sums[l ^ reversed(p)];
        sum = (row >> l & 1) != 0 ? sum - rounded : sum + rounded;
      }
    }
    for (std::size_t k = 0; k < 64; ++k) {
      const double sum = sums[k];
      total[k ^ place] += (signs >> k & 1) != 0 ? -sum : sum;
    }
  }
  Sketch sketch;
  for (std::size_t k = 0; k < 64; ++k) sketch[k] = static_cast<float>(total[k]);
  return sketch;
}

inline void expect_same(const Sketch& got, const Sketch& want) {
  for (std::size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[k]), std::bit_cast<std::uint32_t>(want[k]))
        << "sum " << k << ": " << got[k] << ' ' << want[k];
  }
}

// ---- elements
// ------------------------------------------------------------------------------------

inline constexpr DType kRealFloats[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32,
                                        DType::kFloat64};

// Of the low bits of `bits`, by the layouts of IEEE 754 and of bfloat16.
inline double value_of(DType dtype, std::uint64_t bits) {
  if (dtype == DType::kFloat64) return std::bit_cast<double>(bits);
  if (dtype == DType::kFloat32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (dtype == DType::kBFloat16)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double mantissa = static_cast<double>(bits & 1023);
  double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits >> 15 & 1) != 0 ? -magnitude : magnitude;
}

// Elements as they lie in memory, and what they are.
struct Elements {
  std::string why;
  DType dtype = DType::kFloat32;
  std::vector<std::byte> bytes;
  std::vector<double> values;

  void add(std::uint64_t bits) {
    const std::size_t size = item_size(dtype);
    const std::size_t at = bytes.size();
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at, &bits, size);  // little-endian
    values.push_back(value_of(dtype, bits));
  }
};

struct FloatLayout {
  int exponent_bits;
  int mantissa_bits;
};
inline FloatLayout layout_of(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return {8, 7};
    case DType::kFloat16:
      return {5, 10};
    case DType::kFloat32:
      return {8, 23};
    default:
      return {11, 52};
  }
}

// `count` elements of each kind of content, always the same ones.
inline std::vector<Elements> contents(DType dtype, std::size_t count) {
  const auto [exponent_bits, mantissa_bits] = layout_of(dtype);
  const int width = 1 + exponent_bits + mantissa_bits;
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  const std::uint64_t mantissa = (std::uint64_t{1} << mantissa_bits) - 1;
  const std::uint64_t bias = (std::uint64_t{1} << (exponent_bits - 1)) - 1;
  const std::uint64_t infinity = (2 * bias + 1) << mantissa_bits;
  const std::uint64_t specials[] = {infinity,
                                    infinity | sign,
                                    infinity | 1,
                                    infinity | sign | mantissa,
                                    infinity - 1,
                                    (infinity - 1) | sign,
                                    0,
                                    sign,
                                    1};
  std::mt19937_64 random(count + static_cast<std::size_t>(dtype));
  // About 1: exponents of -3 to 0.
  const auto plain = [&](std::uint64_t bits) {
    return (bits & (sign | mantissa)) | ((bias - (bits >> 60 & 3)) << mantissa_bits);
  };
  std::vector<Elements> all;
  const auto make = [&](const char* why, auto bits_of) {
    Elements& elements = all.emplace_back(Elements{why, dtype, {}, {}});
    for (std::size_t i = 0; i < count; ++i) elements.add(bits_of(i, random()));
  };
  make("plain numbers", [&](std::size_t, std::uint64_t r) { return plain(r); });
  make("any bits", [&](std::size_t, std::uint64_t r) { return r; });
  make("all negative", [&](std::size_t, std::uint64_t r) { return plain(r) | sign; });
  make("all positive", [&](std::size_t, std::uint64_t r) { return plain(r) & ~sign; });
  make("zeros of both signs", [&](std::size_t, std::uint64_t r) { return r & sign; });
  make("-0 alone", [&](std::size_t, std::uint64_t) { return sign; });
  make("denormals", [&](std::size_t, std::uint64_t r) { return r & (sign | mantissa); });
  make("nothing ordinary", [&](std::size_t, std::uint64_t r) { return specials[r % 4]; });
  make("some specials", [&](std::size_t, std::uint64_t r) {
    return r % 300 == 0 ? specials[r / 300 % 9] : plain(r);
  });
  make("one NaN at the end",
       [&](std::size_t i, std::uint64_t r) { return i + 1 == count ? infinity | 1 : plain(r); });
  make("one infinity at the start",
       [&](std::size_t i, std::uint64_t r) { return i == 0 ? infinity : plain(r); });
  make("a negative NaN among positives", [&](std::size_t i, std::uint64_t r) {
    return i == count / 2 ? infinity | sign | 5 : plain(r) & ~sign;
  });
  make("the largest finite one among negatives", [&](std::size_t i, std::uint64_t r) {
    return i == count / 3 ? infinity - 1 : plain(r) | sign;
  });
  return all;
}

}  // namespace goldentrace::testing
