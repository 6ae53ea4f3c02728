// `stats`: the test vectors of schema/FORMAT.md, and a table of elements that need care. That they
// equal the definition on every machine: same_bits_test.cpp.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "src/digest/digest.h"
#include "tests/src/digest/reference.h"

namespace goldentrace {
namespace {

using testing::expect_same;
using testing::reference_stats;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename T>
Digest digest_of(DType dtype, const std::vector<T>& elements) {
  const std::array<std::int64_t, 1> sizes{static_cast<std::int64_t>(elements.size())};
  const std::array<std::int64_t, 1> strides{1};
  return digest_tensor({reinterpret_cast<const std::byte*>(elements.data()), dtype, sizes, strides},
                       {.stats = true});
}

Stats stats_of(const std::vector<double>& elements) {
  return digest_of(DType::kFloat64, elements).stats;
}

TEST(Stats, CountsAndMeasuresEachKindOfElement) {
  struct Case {
    const char* why;
    std::vector<double> elements;
    Stats want;  // count, nan, +inf, -inf, sentinel, zero, min, max, sum, sum of squares
  };
  const double denormal = std::numeric_limits<double>::denorm_min();
  const double below = std::nextafter(1e30, 0);
  const Case cases[] = {
      {"no element", {}, {}},
      {"negatives", {-3, -1}, {2, 0, 0, 0, 0, 0, -3, -1, -4, 10}},
      {"NaN is left out", {kNan, 2, -kNan}, {3, 2, 0, 0, 0, 0, 2, 2, 2, 4}},
      {"infinities are left out", {kInf, -kInf, kInf, 1}, {4, 0, 2, 1, 0, 0, 1, 1, 1, 1}},
      {"1e30 is a sentinel", {1e30, -1e30, 5}, {3, 0, 0, 0, 2, 0, 5, 5, 5, 25}},
      {"less than 1e30 is ordinary",
       {below},
       {1, 0, 0, 0, 0, 0, below, below, below, below * below}},
      {"the lowest double is a sentinel",
       {std::numeric_limits<double>::lowest(), 1},
       {2, 0, 0, 0, 1, 0, 1, 1, 1, 1}},
      {"nothing ordinary: the figures are 0", {kNan, kInf, 1e31}, {3, 1, 1, 0, 1, 0, 0, 0, 0, 0}},
      {"FORMAT.md's third", {1e30, kNan, -kInf}, {3, 1, 0, 1, 1, 0, 0, 0, 0, 0}},
      {"both zeros count, and are +0", {-0.0, 0.0}, {2, 0, 0, 0, 0, 2, 0, 0, 0, 0}},
      {"-0 alone is +0", {-0.0}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
      {"zero is a minimum", {0, 3}, {2, 0, 0, 0, 0, 1, 0, 3, 3, 9}},
      {"zero is a maximum", {-0.0, -3}, {2, 0, 0, 0, 0, 1, -3, 0, -3, 9}},
      {"denormals are not zero",
       {denormal, -denormal},
       {2, 0, 0, 0, 0, 0, -denormal, denormal, 0, 0}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    expect_same(stats_of(c.elements), c.want);
    expect_same(reference_stats(c.elements), c.want);
  }
}

TEST(Stats, GivesTheTestVectors) {
  const std::vector<std::uint16_t> bits = {0x3f80, 0xbf80, 0x0000, 0x8000, 0x0001, 0x7f80,
                                           0xff80, 0x7fc0, 0xff7f, 0x714a, 0x4049, 0x3eab};
  const Digest small = digest_of(DType::kBFloat16, bits);
  EXPECT_EQ(to_hex(small.hash), "9d739dd0d783ef6b204e50e2d442d350");
  expect_same(small.stats, {12, 1, 1, 1, 2, 2, -1.0, 0x1.92p+1, 0x1.bccp+1, 0x1.7f33c8p+3});

  std::vector<float> fractions;
  for (int i = 0; i < 5000; ++i) fractions.push_back(1.0f / static_cast<float>(i + 1));
  const Digest large = digest_of(DType::kFloat32, fractions);
  EXPECT_EQ(to_hex(large.hash), "4e1084206c1cb39107ae1bf018e10c69");
  expect_same(large.stats, {5000, 0, 0, 0, 0, 0, 0x1.a36e2ep-13, 1.0, 0x1.230637912a000p+3,
                            0x1.a50d4b4ae420bp+0});
}

// The order of the additions is part of the definition: lengths around lanes and superblocks.
TEST(Stats, SumsEqualTheDefinitionToTheLastBit) {
  std::uint64_t state = 1;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  for (const std::size_t size : {1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 8192u, 20000u}) {
    SCOPED_TRACE(size);
    std::vector<double> elements(size);
    for (double& x : elements) x = (next() - 0.5) * std::exp2(40 * next() - 20);
    for (std::size_t i = 0; i < size; i += 97) elements[i] = i % 2 == 0 ? kNan : 0.0;
    expect_same(stats_of(elements), reference_stats(elements));
  }
}

TEST(Stats, AFirstSuperblockWithoutOrdinaryElementsHasNoSay) {
  std::vector<double> elements(4096, kNan);
  elements.push_back(7);
  expect_same(stats_of(elements), {4097, 4096, 0, 0, 0, 0, 7, 7, 7, 49});
}

TEST(Stats, DoNotDependOnStrides) {
  std::vector<float> memory(2 * 5000);
  std::vector<float> dense(5000);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    dense[i] = 1.0f / static_cast<float>(i + 3);
    memory[2 * i] = dense[i];
    memory[2 * i + 1] = 1e9f;
  }
  const std::array<std::int64_t, 1> sizes{5000};
  const std::array<std::int64_t, 1> strides{2};
  const Digest strided = digest_tensor(
      {reinterpret_cast<const std::byte*>(memory.data()), DType::kFloat32, sizes, strides},
      {.stats = true});
  const Digest contiguous = digest_of(DType::kFloat32, dense);
  EXPECT_EQ(strided.hash, contiguous.hash);
  expect_same(strided.stats, contiguous.stats);
}

TEST(Stats, AreForRealFloatsAndOnRequestOnly) {
  EXPECT_EQ(digest_of(DType::kInt32, std::vector<std::int32_t>{1, 2}).stats, Stats{});
  EXPECT_EQ(digest_of(DType::kFloat8E4M3FN, std::vector<std::uint8_t>{1, 2}).stats, Stats{});
  EXPECT_EQ(digest_of(DType::kComplex64, std::vector<double>{1, 2}).stats, Stats{});
  EXPECT_EQ(digest_of(DType::kFloat16, std::vector<std::uint16_t>{0x3c00}).stats.sum, 1.0);
  const std::array<double, 1> one{1.0};
  const std::array<std::int64_t, 1> sizes{1};
  EXPECT_EQ(digest_tensor(
                {reinterpret_cast<const std::byte*>(one.data()), DType::kFloat64, sizes, sizes}, {})
                .stats,
            Stats{});
}

}  // namespace
}  // namespace goldentrace
