#include "replayer/band/distance.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/instruction_set.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using testing::dense_of;
using testing::InstructionSet;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kReal[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64};
constexpr double kSpecials[] = {kNan, -kNan, kInf, -kInf, 1e30, -1e30, 3e38};

int kind_of(double x) {
  if (std::isnan(x)) return 1;
  if (std::isinf(x)) return x > 0 ? 2 : 3;
  return std::fabs(x) >= 1e30 ? 4 : 0;
}

// The definition, one pair after the other.
PairSums plain_sums(DType dtype, const Bytes& want, const Bytes& got, std::size_t count) {
  PairSums sums;
  for (std::size_t i = 0; i < count; ++i) {
    const double w = load_real(dtype, want.data(), i);
    const double g = load_real(dtype, got.data(), i);
    if (kind_of(w) != kind_of(g)) ++sums.one_sided;
    if (kind_of(w) != 0 || kind_of(g) != 0) continue;
    sums.difference += (g - w) * (g - w);
    sums.norm += w * w;
  }
  return sums;
}

// Pairs with a special in one of `rare` elements on either side: 0 for none.
void fill(std::mt19937& random, std::size_t rare, std::vector<double>& want,
          std::vector<double>& got) {
  std::normal_distribution<double> normal;
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = normal(random);
    got[i] = want[i] + 0.05 * normal(random);
    if (rare == 0 || random() % rare != 0) continue;
    const double special = kSpecials[random() % std::size(kSpecials)];
    if (random() % 3 != 0) want[i] = special;
    if (random() % 3 != 0) got[i] = special;
    if (random() % 9 == 0) got[i] = kSpecials[random() % std::size(kSpecials)];
  }
}

void expect_plain_sums(DType dtype, const std::vector<double>& want,
                       const std::vector<double>& got) {
  // Not even aligned to an element.
  Bytes left = dense_of(dtype, want);
  Bytes right = dense_of(dtype, got);
  const PairSums plain = plain_sums(dtype, left, right, want.size());
  left.insert(left.begin(), 1, std::byte{0xff});
  right.insert(right.begin(), 3, std::byte{0xff});
  const double rounding = dtype == DType::kFloat64 ? 1e-12 : 0x1p-22;
  std::optional<PairSums> first;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const InstructionSet chosen(target);
    const PairSums sums = sum_pairs(dtype, &left[1], &right[3], want.size());
    EXPECT_EQ(sums.one_sided, plain.one_sided);
    EXPECT_NEAR(sums.norm, plain.norm, 1e-12 * plain.norm);
    EXPECT_NEAR(sums.difference, plain.difference, rounding * plain.difference);
    if (!first) first = sums;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(sums.norm), std::bit_cast<std::uint64_t>(first->norm));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(sums.difference),
              std::bit_cast<std::uint64_t>(first->difference));
  }
}

TEST(SumPairs, AreThoseOfTheDefinitionOnEveryInstructionSet) {
  std::mt19937 random(11);
  for (const DType dtype : kReal) {
    for (const std::size_t count : {1u, 2u, 15u, 16u, 17u, 31u, 33u, 100u, 2047u, 2048u, 2049u,
                                    2064u, 4095u, 4097u, 6161u, 20000u}) {
      for (const std::size_t rare : {0u, 1000u, 5u, 1u}) {
        SCOPED_TRACE(std::string(dtype_name(dtype)) + ", " + std::to_string(count) + ", 1 in " +
                     std::to_string(rare));
        std::vector<double> want(count);
        std::vector<double> got(count);
        fill(random, rare, want, got);
        expect_plain_sums(dtype, want, got);
        if (HasFailure()) return;
      }
    }
  }
}

// A block of ordinary elements must not hide one of another kind, wherever it stands.
TEST(SumPairs, FindEveryPairOfKindsAtEveryPlace) {
  const double kinds[] = {0, 1.5, 9.9e29, -9.9e29, kNan, kInf, -kInf, 1e30, -1e30, 3e38};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const double w : kinds) {
      for (const double g : kinds) {
        for (const std::size_t place : {0u, 7u, 15u, 16u, 39u, 40u}) {
          SCOPED_TRACE(std::string(dtype_name(dtype)) + ": " + std::to_string(w) + ", " +
                       std::to_string(g) + " at " + std::to_string(place));
          std::vector<double> want(41, 2);
          std::vector<double> got(41, 1);
          want[place] = w;
          got[place] = g;
          expect_plain_sums(dtype, want, got);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(SumPairs, AreRightForEveryNumberOfTwoBytes) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    Bytes want(2 * 65536);
    Bytes got(2 * 65536);
    for (std::size_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const auto other = static_cast<std::uint16_t>(i + (i % 3 == 0 ? 0 : 1));
      std::memcpy(&want[2 * i], &bits, 2);
      std::memcpy(&got[2 * i], &other, 2);
    }
    for (std::size_t i = 0; i < 65536; i += 64) {  // large numbers hide nothing of small ones
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " from " + std::to_string(i));
      const Bytes left(&want[2 * i], &want[2 * i] + 128);
      const Bytes right(&got[2 * i], &got[2 * i] + 128);
      const PairSums plain = plain_sums(dtype, left, right, 64);
      for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        const InstructionSet chosen(target);
        const PairSums sums = sum_pairs(dtype, left.data(), right.data(), 64);
        EXPECT_EQ(sums.one_sided, plain.one_sided);
        EXPECT_NEAR(sums.norm, plain.norm, 1e-12 * plain.norm);
        EXPECT_NEAR(sums.difference, plain.difference, 0x1p-22 * plain.difference);
      }
      if (HasFailure()) return;
    }
  }
}

TEST(SumPairs, OfNothingAreZero) {
  for (const DType dtype : kReal) {
    const PairSums sums = sum_pairs(dtype, nullptr, nullptr, 0);
    EXPECT_EQ(sums.difference + sums.norm, 0);
    EXPECT_EQ(sums.one_sided, 0u);
  }
}

}  // namespace
}  // namespace goldentrace
