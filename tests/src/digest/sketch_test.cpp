// `sketch`: the test vectors of schema/FORMAT.md, elements that need care, and what it promises.
// That it equals the definition on every machine: same_bits_test.cpp.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "src/digest/digest.h"
#include "tests/src/digest/reference.h"

namespace goldentrace {
namespace {

using testing::Elements;
using testing::expect_same;
using testing::reference_sketch;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename T>
Sketch sketch_of(DType dtype, const std::vector<T>& elements) {
  const std::array<std::int64_t, 1> sizes{static_cast<std::int64_t>(elements.size())};
  const std::array<std::int64_t, 1> strides{1};
  return digest_tensor({reinterpret_cast<const std::byte*>(elements.data()), dtype, sizes, strides},
                       {.sketch = true})
      .sketch;
}
Sketch sketch_of(const std::vector<double>& elements) {
  return sketch_of(DType::kFloat64, elements);
}

double squared_distance(const Sketch& left, const Sketch& right) {
  double sum = 0;
  for (std::size_t k = 0; k < left.size(); ++k) {
    const double difference = static_cast<double>(left[k]) - static_cast<double>(right[k]);
    sum += difference * difference;
  }
  return sum;
}

template <typename T>
std::vector<T> fractions(std::size_t count) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = T{1} / static_cast<T>(i + 1);
  return out;
}

// Uniform in -0.5 to 0.5, always the same for the same seed.
std::vector<double> noise(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::vector<double> out(count);
  for (double& x : out) x = std::ldexp(static_cast<double>(random()), -32) - 0.5;
  return out;
}

TEST(Sketch, GivesTheTestVectors) {
  const std::vector<std::uint16_t> bits = {0x3f80, 0xbf80, 0x0000, 0x8000, 0x0001, 0x7f80,
                                           0xff80, 0x7fc0, 0xff7f, 0x714a, 0x4049, 0x3eab};
  std::vector<std::uint16_t> halves;
  for (int i = 0; i < 9001; ++i) {
    const int numerator = 37 * i % 251 - 125;  // of 64ths
    const int magnitude = std::abs(numerator);
    const int exponent =
        magnitude == 0 ? 0 : static_cast<int>(std::bit_width(static_cast<unsigned>(magnitude))) + 8;
    const int mantissa = magnitude == 0 ? 0 : (magnitude << (19 - exponent)) - 1024;
    halves.push_back(
        static_cast<std::uint16_t>((numerator < 0 ? 0x8000 : 0) | exponent << 10 | mantissa));
  }
  ASSERT_EQ(testing::value_of(DType::kFloat16, halves[0]), -125.0 / 64);
  ASSERT_EQ(testing::value_of(DType::kFloat16, halves[2]), -51.0 / 64);
  ASSERT_EQ(testing::value_of(DType::kFloat16, halves[8]), -80.0 / 64);
  struct Case {
    const char* why;
    Sketch sketch;
    const char* hash;
    std::array<float, 5> sums;  // 0, 1, 2, 3, 63
  };
  const Case cases[] = {
      {"bfloat16 of all sorts",
       sketch_of(DType::kBFloat16, bits),
       "0a0067e7e53019801d250acf49b10ab2",
       {0, 0, -1, 1, 0}},
      {"64 float32: no two in one sum",
       sketch_of(DType::kFloat32, fractions<float>(64)),
       "5b1c185ad7a0d938fd77b35c0433f968",
       {-0x1p-2F, 0x1.555556p-2F, 0x1p-1F, 0x1p+0F, 0x1.0c9714p-6F}},
      {"two superblocks",
       sketch_of(DType::kFloat32, fractions<float>(5000)),
       "13c8d9365d933a671b265442a557283c",
       {-0x1.008038p-2F, 0x1.6487fap-2F, 0x1.f5a09ap-2F, 0x1.03ba8ap+0F, 0x1.5790fep-6F}},
      {"float64, rounded first",
       sketch_of(DType::kFloat64, fractions<double>(5000)),
       "13c8d9365d933a671b265442a557283c",
       {-0x1.008038p-2F, 0x1.6487fap-2F, 0x1.f5a09ap-2F, 0x1.03ba8ap+0F, 0x1.5790fep-6F}},
      {"five superblocks",
       sketch_of(DType::kFloat32, fractions<float>(20000)),
       "fd06b028fed8edca5baa29ed89ac309a",
       {-0x1.fedcbcp-3F, 0x1.64e9fap-2F, 0x1.f5796cp-2F, 0x1.04406p+0F, 0x1.696e56p-6F}},
      {"float16",
       sketch_of(DType::kFloat16, halves),
       "2eafa3cb76412eb790730953c920be2d",
       {-0x1.ecp+2F, 0x1.268p+3F, -0x1.4cp+0F, -0x1.16p+3F, 0x1.d6p+2F}},
      {"nothing ordinary",
       sketch_of({1e30, kNan, -kInf}),
       "6775020e5be2c343326ea508591ff185",
       {0, 0, 0, 0, 0}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    EXPECT_EQ(to_hex(hash_bytes(std::as_bytes(std::span(c.sketch)))), c.hash);
    const std::array<float, 5> got = {c.sketch[0], c.sketch[1], c.sketch[2], c.sketch[3],
                                      c.sketch[63]};
    EXPECT_EQ(got, c.sums);
  }
}

TEST(Sketch, ElementsThatAreNotOrdinaryCountAsZero) {
  const double denormal = 0x1p-149;  // of float32
  struct Case {
    const char* why;
    std::vector<double> elements;
    std::vector<double> instead;
  };
  const Case cases[] = {
      {"no element", {}, {0}},
      {"NaN", {kNan, 2, -kNan}, {0, 2, 0}},
      {"infinities", {kInf, 3, -kInf}, {0, 3, 0}},
      {"sentinels", {1e30, -1e30, std::numeric_limits<double>::lowest(), 7}, {0, 0, 0, 7}},
      {"zeros of both signs", {-0.0, 0.0}, {0, 0}},
      {"a double that float32 rounds to 0", {0x1p-151, 1}, {0, 1}},
      {"a double that float32 rounds up to a denormal", {0x1.8p-150, 1}, {denormal, 1}},
      {"rounded to even", {1 + 0x1p-24, 1 + 0x3p-24}, {1, 1 + 0x1p-22}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    expect_same(sketch_of(c.elements), sketch_of(c.instead));
    expect_same(sketch_of(c.elements), reference_sketch(c.instead));
  }
  // The largest number that is ordinary is one, though it is 1e30 as float32.
  const double below = std::nextafter(1e30, 0);
  EXPECT_EQ(squared_distance(sketch_of({below}), {}),
            static_cast<double>(1e30F) * static_cast<double>(1e30F));
  EXPECT_EQ(std::sqrt(squared_distance(sketch_of({denormal}), {})), denormal);
}

TEST(Sketch, DoesNotDependOnStrides) {
  std::vector<float> memory(2 * 5000);
  std::vector<float> dense(5000);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    dense[i] = 1.0F / static_cast<float>(i + 3);
    memory[2 * i] = dense[i];
    memory[2 * i + 1] = 1e9F;
  }
  const std::array<std::int64_t, 1> sizes{5000};
  const std::array<std::int64_t, 1> strides{2};
  const Digest strided = digest_tensor(
      {reinterpret_cast<const std::byte*>(memory.data()), DType::kFloat32, sizes, strides},
      {.sketch = true});
  expect_same(strided.sketch, sketch_of(DType::kFloat32, dense));
}

// Numbers whose sums are exact.
TEST(Sketch, IsLinear) {
  std::vector<float> left(20000);
  std::vector<float> right(20000);
  std::vector<float> together(20000);
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = static_cast<float>(i * 7 % 13) - 6;
    right[i] = static_cast<float>(i * 5 % 11) / 4;
    together[i] = 3 * left[i] - right[i];
  }
  const Sketch a = sketch_of(DType::kFloat32, left);
  const Sketch b = sketch_of(DType::kFloat32, right);
  Sketch sum;
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = 3 * a[k] - b[k];
  expect_same(sketch_of(DType::kFloat32, together), sum);
}

TEST(Sketch, KeepsTheLengthOf64Elements) {
  const std::vector<double> left = noise(1, 64);
  const std::vector<double> right = noise(2, 64);
  double want = 0;
  for (std::size_t i = 0; i < 64; ++i) want += (left[i] - right[i]) * (left[i] - right[i]);
  EXPECT_NEAR(squared_distance(sketch_of(left), sketch_of(right)) / want, 1, 1e-6);
}

// 18 % to be expected; a table of signs that were alike would give far more.
TEST(Sketch, EstimatesTheSquaredDistanceOfTensors) {
  struct Case {
    const char* why;
    std::size_t rows;
    std::size_t columns;
    bool changes(std::size_t row, std::size_t column, std::uint32_t trial) const {
      const std::string what = why;
      if (what == "a row") return row == trial % rows;
      if (what == "a column") return column == trial * 7 % columns;
      return true;
    }
  };
  const Case cases[] = {{"all", 1, 100},        {"all", 1, 4096},       {"all", 100, 200},
                        {"a row", 22, 512},     {"a column", 100, 128}, {"a column", 100, 512},
                        {"a column", 22, 5120}, {"a row", 22, 5120}};
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.why) + " of " + std::to_string(c.rows) + " x " +
                 std::to_string(c.columns));
    constexpr std::uint32_t kTrials = 60;
    double sum = 0;
    double squares = 0;
    for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
      const std::vector<double> want = noise(1000 + trial, c.rows * c.columns);
      const std::vector<double> change = noise(trial, want.size());
      std::vector<double> got = want;
      double distance = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (!c.changes(i / c.columns, i % c.columns, trial)) continue;
        got[i] += change[i] / 16;
        distance += (got[i] - want[i]) * (got[i] - want[i]);
      }
      const double error = squared_distance(sketch_of(got), sketch_of(want)) / distance - 1;
      sum += error;
      squares += error * error;
    }
    EXPECT_LT(std::sqrt(squares / kTrials), 0.25);
    EXPECT_LT(std::fabs(sum / kTrials), 0.1);
  }
}

TEST(Sketch, IsZeroWithoutElements) {
  for (const float sum : sketch_of({})) EXPECT_EQ(std::bit_cast<std::uint32_t>(sum), 0u);
}

TEST(Sketch, IsForRealFloatsAndOnRequestOnly) {
  // The rest of the digest is the same with it and without it.
  const std::vector<float> elements = fractions<float>(5000);
  const std::array<std::int64_t, 1> sizes{5000};
  const std::array<std::int64_t, 1> strides{1};
  const TensorView view{reinterpret_cast<const std::byte*>(elements.data()), DType::kFloat32, sizes,
                        strides};
  const Digest with = digest_tensor(view, {.stats = true, .sketch = true});
  const Digest without = digest_tensor(view, {.stats = true});
  EXPECT_EQ(with.hash, without.hash);
  expect_same(with.stats, without.stats);
  for (const DType dtype : {DType::kInt32, DType::kComplex64}) {
    TensorView other = view;
    other.dtype = dtype;
    const std::array<std::int64_t, 1> half{2500};
    other.sizes = half;
    EXPECT_EQ(digest_tensor(other, {.sketch = true}).hash, digest_tensor(other, {}).hash);
  }
}

}  // namespace
}  // namespace goldentrace
