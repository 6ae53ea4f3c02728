#include "replayer/band/band.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using testing::dense_of;
using testing::digest_of;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kReal[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64};

Distance of(DType dtype, const std::vector<double>& want, const std::vector<double>& got) {
  return distance_from_values(dtype, dense_of(dtype, want), dense_of(dtype, got));
}

TEST(DefaultBand, IsTheOneOfTheDtypeAndExactForEverythingElse) {
  const std::pair<DType, double> cases[] = {{DType::kBFloat16, 6e-2}, {DType::kFloat16, 1e-2},
                                            {DType::kFloat32, 1e-4},  {DType::kFloat64, 1e-4},
                                            {DType::kInt64, 0},       {DType::kBool, 0},
                                            {DType::kComplex64, 0},   {DType::kFloat8E4M3FN, 0}};
  for (const auto& [dtype, band] : cases) {
    EXPECT_EQ(default_band(dtype), band) << dtype_name(dtype);
  }
}

// Exact in every dtype of the table, so that the expected distances are too.
TEST(DistanceFromValues, IsTheNormOfTheDifferenceInEveryDtype) {
  struct Case {
    const char* why;
    std::vector<double> want, got;
    double difference, norm, relative;
  };
  const Case cases[] = {
      {"equal", {1, -2, 2}, {1, -2, 2}, 0, 3, 0},
      {"one element off", {3, 4}, {3, 5}, 1, 5, 0.2},
      {"root of squares, not a sum", {6, 8}, {9, 12}, 5, 10, 0.5},
      {"negative values count by size", {-3, -4}, {3, 4}, 10, 5, 2},
      {"signed zeros are one value", {0.0, 1}, {-0.0, 1}, 0, 1, 0},
      {"both all zero", {0, 0}, {0, 0}, 0, 0, 0},
      {"any difference from all zero is infinite", {0, 0}, {0, 0.5}, 0.5, 0, kInf},
      {"all zero against something is one", {3, 4}, {0, 0}, 5, 5, 1},
      {"no elements", {}, {}, 0, 0, 0},
      {"denormals are numbers (fp16's smallest)", {0x1p-24}, {0x1p-23}, 0x1p-24, 0x1p-24, 1},
  };
  for (const DType dtype : kReal) {
    for (const Case& c : cases) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ": " + c.why);
      const Distance distance = of(dtype, c.want, c.got);
      EXPECT_DOUBLE_EQ(distance.difference, c.difference);
      EXPECT_DOUBLE_EQ(distance.norm, c.norm);
      EXPECT_DOUBLE_EQ(distance.relative(), c.relative);
      EXPECT_FALSE(distance.non_finite);
      EXPECT_EQ(distance.note, "");
    }
  }
}

TEST(DistanceFromValues, SeesDenormalsOfTheWiderDtypes) {
  EXPECT_DOUBLE_EQ(of(DType::kFloat32, {0x1p-149}, {0x1p-148}).relative(), 1);
  EXPECT_DOUBLE_EQ(of(DType::kBFloat16, {0x1p-133}, {0x1p-132}).relative(), 1);
}

TEST(DistanceFromValues, LeavesNonFinitePairsOutAndNamesOneSidedOnes) {
  struct Case {
    const char* why;
    double want, got;
    bool non_finite;
  };
  const Case cases[] = {
      {"NaN on both sides is agreement", kNan, kNan, false},
      {"NaN in the candidate", 4, kNan, true},
      {"NaN in the oracle", kNan, 4, true},
      {"the same infinity", kInf, kInf, false},
      {"the same negative infinity", -kInf, -kInf, false},
      {"opposite infinities", kInf, -kInf, true},
      {"infinity in the candidate", 4, -kInf, true},
      {"NaN is no infinity", kNan, kInf, true},
      {"mask values, however large", -1e30, -3e38, false},
      {"a mask value on one side", 0, -1e38, true},
      {"a mask value is not minus infinity", -kInf, -3e38, true},
  };
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const Case& c : cases) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ": " + c.why);
      const Distance distance = of(dtype, {3, c.want, 4}, {3, c.got, 4});
      EXPECT_EQ(distance.non_finite, c.non_finite);
      EXPECT_EQ(distance.difference, 0);
      EXPECT_EQ(distance.norm, 5);
      EXPECT_THAT(distance.note, HasSubstr(c.non_finite ? "in 1 of 3 elements" : ""));
    }
  }
}

TEST(DistanceFromValues, JustUnderTheMaskLimitIsAnOrdinaryNumber) {
  const Distance distance = of(DType::kFloat64, {9e29}, {0});
  EXPECT_FALSE(distance.non_finite);
  EXPECT_DOUBLE_EQ(distance.relative(), 1);
}

TEST(DistanceFromStats, NamesCountsThatDiffer) {
  struct Case {
    const char* why;
    double got;
    const char* note;
  };
  const Case cases[] = {
      {"NaN", kNan, "NaN in 1 elements, oracle 0"},
      {"+inf", kInf, "+inf in 1 elements, oracle 0"},
      {"-inf", -kInf, "-inf in 1 elements, oracle 0"},
      {"mask", 2e30, "mask values in 1 elements, oracle 0"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Distance distance = distance_from_stats(digest_of(DType::kFloat64, {1, 2}).stats,
                                                  digest_of(DType::kFloat64, {1, c.got}).stats);
    EXPECT_TRUE(distance.non_finite);
    EXPECT_EQ(distance.note, c.note);
  }
}

TEST(DistanceFromStats, EachFigureAloneCanTellTwoTensorsApart) {
  struct Case {
    const char* why;
    std::vector<double> want, got;
    double difference;
  };
  const Case cases[] = {
      {"norm", {3, -4, 0, 0}, {6, -8, 0, 0}, 5},
      {"sum: signs turned, over root 4", {1, 1, -1, -1}, {1, 1, 1, 1}, 2},
      {"greatest and least: equal norm and sum", {0, 3, 3}, {1, 1, 4}, 1},
      {"a permutation leaves every figure as it was", {1, 2, 3}, {3, 1, 2}, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Distance distance = distance_from_stats(digest_of(DType::kFloat64, c.want).stats,
                                                  digest_of(DType::kFloat64, c.got).stats);
    EXPECT_DOUBLE_EQ(distance.difference, c.difference);
    EXPECT_FALSE(distance.non_finite);
  }
}

TEST(DistanceFromStats, ClaimsNothingOfTensorsWithoutOrdinaryElements) {
  const Stats stats = digest_of(DType::kFloat32, {kNan, kInf, -1e38}).stats;
  EXPECT_EQ(distance_from_stats(stats, stats).relative(), 0);
  EXPECT_EQ(distance_from_stats({}, {}).relative(), 0);
}

// A bound above the true distance would be a false alarm on the gate.
TEST(DistanceFromStats, NeverExceedsTheTrueDistance) {
  std::mt19937 generator(20240607);
  const auto uniform = [&] { return static_cast<double>(generator()) / 4294967296.0; };
  int tight = 0;
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(trial);
    const DType dtype = kReal[trial % 4];
    const std::size_t count = 1 + generator() % 300;
    const double noise = std::pow(10, -4 * uniform());
    const double offset = trial % 3 == 0 ? 2 * uniform() : 0;
    std::vector<double> want(count);
    std::vector<double> got(count);
    for (std::size_t i = 0; i < count; ++i) {
      want[i] = 8 * uniform() - 4;
      got[i] = want[i] * (1 + noise * (uniform() - 0.5)) + offset;
      // The same specials at the same places, in some of the pairs.
      if (trial % 5 == 0 && i % 7 == 3) want[i] = got[i] = i % 2 == 0 ? kNan : -kInf;
    }
    const Distance truth = of(dtype, want, got);
    const Distance bound =
        distance_from_stats(digest_of(dtype, want).stats, digest_of(dtype, got).stats);
    ASSERT_FALSE(truth.non_finite || bound.non_finite);
    EXPECT_LE(bound.difference, truth.difference + 1e-9);
    EXPECT_NEAR(bound.norm, truth.norm, 1e-9);
    if (bound.difference > 0.5 * truth.difference) ++tight;
  }
  EXPECT_GT(tight, 50);  // the bound is not trivially small either
}

TEST(PooledDistance, JudgesTheStepsOfACallAsOne) {
  struct Added {
    double difference, norm;
    std::uint64_t elements;
    bool non_finite = false;
  };
  struct Case {
    const char* why;
    std::vector<Added> added;
    double relative;
    bool judged, in_band;
  };
  const Case cases[] = {
      {"one step inside", {{0.05, 1, 16}}, 0.05, true, true},
      {"the edge is inside", {{0.0625, 1, 16}}, 0.0625, true, true},
      {"one step outside", {{0.07, 1, 16}}, 0.07, true, false},
      {"root of summed squares", {{3, 100, 16}, {4, 0, 16}}, 0.05, true, false},
      {"one bad step among good ones", {{0.2, 1, 16}, {0, 7, 16}}, 0.2 / std::sqrt(50), true, true},
      {"over four times the band", {{0.26, 1, 16}, {0, 7, 16}}, 0.26 / std::sqrt(50), true, false},
      {"but not of a tensor too small to judge",
       {{0.26, 1, 15}, {0, 7, 16}},
       0.26 / std::sqrt(50),
       true,
       true},
      {"small steps add up", {{0.07, 1, 8}, {0.07, 1, 8}}, 0.07, true, false},
      {"too few elements", {{1, 1, 15}}, 1, false, false},
      {"non-finite is judged however small", {{0, 1, 1, true}}, 0, true, false},
      {"non-finite in one step of many", {{0, 1, 99, true}, {0, 1, 99}}, 0, true, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    PooledDistance pool;
    for (const Added& a : c.added) pool.add({a.difference, a.norm, a.non_finite, ""}, a.elements);
    EXPECT_DOUBLE_EQ(pool.relative(), c.relative);
    EXPECT_EQ(pool.judged(), c.judged);
    EXPECT_EQ(pool.in_band(0.0625), c.in_band);
  }
}

TEST(PooledDistance, IsNotInBandWhenTheStatsAreNotNumbers) {
  PooledDistance pool;
  pool.add({kNan, 1, false, ""}, 100);
  EXPECT_FALSE(pool.in_band(1));
}

}  // namespace
}  // namespace goldentrace
