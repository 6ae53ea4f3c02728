#include "replayer/band/local_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace goldentrace {
namespace {

constexpr double kRate = 1e-6;
constexpr double kNoise = 1e-2;
constexpr JudgeOptions kOptions{.alarm_rate = kRate};

// A wide result and runs that miss it by normal noise.
struct Runs {
  explicit Runs(std::size_t count, unsigned seed = 1) : random(seed), wide(count) {
    for (double& x : wide) x = normal(random);
    eager = off_by(kNoise);
    rounded = off_by(2 * kNoise);
  }

  std::vector<double> off_by(double size) {
    std::vector<double> other(wide);
    for (double& x : other) x += size * normal(random);
    return other;
  }

  CutSums sums(const std::vector<double>& candidate, bool with_rounded = true) {
    CutSums sums;
    sums.channels = 50;
    add(candidate, 0, wide.size(), with_rounded, sums);
    return sums;
  }

  // Of the elements from `begin` on.
  void add(const std::vector<double>& candidate, std::size_t begin, std::size_t count,
           bool with_rounded, CutSums& sums) const {
    const auto part = [&](const std::vector<double>& all) {
      return FloatArray{std::as_bytes(std::span(all).subspan(begin, count)).data(),
                        DType::kFloat64};
    };
    OutputErrors errors;
    CutValues values{part(wide), part(candidate), part(eager), DType::kFloat64, 1, count};
    measure_errors(values, errors);
    add_errors(errors, Beside::kEager, sums);
    if (!with_rounded) return;
    values.beside = part(rounded);
    measure_errors(values, errors);
    add_errors(errors, Beside::kRounded, sums);
  }

  std::mt19937 random;
  std::normal_distribution<double> normal;
  std::vector<double> wide;
  std::vector<double> eager;
  std::vector<double> rounded;
};

TEST(LocalError, NoiseOfEagersSizeIsInBand) {
  int in_band = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Runs runs(500, seed);
    in_band += judge(runs.sums(runs.off_by(kNoise)), kOptions).zone == Zone::kInBand ? 1 : 0;
  }
  EXPECT_EQ(in_band, 200);
}

TEST(LocalError, MoreNoiseIsRoundingPolicyUpToFullRounding) {
  Runs runs(5000);
  EXPECT_EQ(judge(runs.sums(runs.off_by(1.7 * kNoise)), kOptions).zone, Zone::kRoundingPolicy);
  EXPECT_EQ(judge(runs.sums(runs.off_by(3 * kNoise)), kOptions).zone, Zone::kFault);
  // Before the fully rounded run is known, what is not in band is still owed.
  EXPECT_EQ(judge(runs.sums(runs.off_by(1.7 * kNoise), false), kOptions).zone, Zone::kFault);
}

TEST(LocalError, ASmallBiasIsAFaultWhereNoiseOfThatSizeIsNone) {
  Runs runs(50000);
  std::vector<double> scaled = runs.off_by(0.8 * kNoise);
  for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] += 0.2 * kNoise * runs.wide[i];
  const ZoneReport report = judge(runs.sums(scaled), kOptions);
  EXPECT_LT(report.ratio, report.band);
  EXPECT_TRUE(report.biased);
  EXPECT_EQ(report.zone, Zone::kFault);
  const CutSums sums = runs.sums(scaled);
  EXPECT_NEAR(sums.bias(sums.candidate).scale, 0.2 * kNoise, 0.1 * kNoise);
}

TEST(LocalError, EagersOwnBiasIsAllowed) {
  Runs runs(50000);
  for (std::size_t i = 0; i < runs.wide.size(); ++i) runs.eager[i] += 0.2 * kNoise * runs.wide[i];
  std::vector<double> same = runs.off_by(kNoise);
  for (std::size_t i = 0; i < same.size(); ++i) same[i] += 0.2 * kNoise * runs.wide[i];
  EXPECT_EQ(judge(runs.sums(same), kOptions).zone, Zone::kInBand);
}

TEST(LocalError, WhatMovesNumbersMustBeExact) {
  Runs runs(100);
  runs.eager = runs.wide;
  EXPECT_EQ(judge(runs.sums(runs.wide, false), kOptions).zone, Zone::kInBand);
  std::vector<double> other = runs.wide;
  other[7] *= 1 + 1e-7;
  EXPECT_EQ(judge(runs.sums(other, false), {.exact = true, .alarm_rate = kRate}).zone,
            Zone::kFault);
  EXPECT_EQ(judge(runs.sums(other, false), {.noise_floor = 1e-10, .alarm_rate = kRate}).zone,
            Zone::kInBand)
      << "under the floor";
}

TEST(LocalError, OneSidedNanIsAFaultAndMasksOnBothSidesAreNone) {
  Runs runs(100);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  runs.wide[3] = -kInfinite;
  std::vector<double> same = runs.off_by(kNoise);
  same[3] = -3e38;  // the lowest of a narrower dtype
  EXPECT_EQ(judge(runs.sums(same), kOptions).zone, Zone::kInBand);
  EXPECT_EQ(runs.sums(same).elements, 99u);
  same[5] = std::nan("");
  EXPECT_EQ(judge(runs.sums(same), kOptions).zone, Zone::kFault);
  EXPECT_EQ(runs.sums(same).one_sided, 1u);
}

TEST(LocalError, FewElementsAreNotJudgedAlone) {
  Runs runs(8);
  EXPECT_EQ(judge(runs.sums(runs.off_by(30 * kNoise)), kOptions).zone, Zone::kTooSmall);
}

TEST(LocalError, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(f_quantile(10, 10, 0.05), 2.9782, 1e-4);
  EXPECT_NEAR(f_quantile(1e9, 1e9, 1e-6), 1.0, 4e-3);
  EXPECT_NEAR(normal_quantile(0.05), 1.95996, 1e-5);
}

TEST(LocalError, SumsOfPartsAreTheSumsOfTheWhole) {
  Runs runs(300);
  const std::vector<double> candidate = runs.off_by(kNoise);
  const CutSums whole = runs.sums(candidate);
  CutSums parts;
  for (std::size_t begin = 0; begin < 300; begin += 100) {
    CutSums one;
    runs.add(candidate, begin, 100, true, one);
    parts.add(one);
  }
  EXPECT_EQ(parts.elements, whole.elements);
  EXPECT_NEAR(parts.candidate.squares, whole.candidate.squares, 1e-12);
  EXPECT_NEAR(parts.rounded.fourths, whole.rounded.fourths, 1e-12);
  EXPECT_NEAR(parts.candidate.degrees_of_freedom(), 300, 100);
}

}  // namespace
}  // namespace goldentrace
