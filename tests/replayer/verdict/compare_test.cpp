// The calls of two traces: what is found, where, by which evidence, and that every output is
// counted exactly once.
#include "replayer/verdict/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "replayer/band/run_dtype.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using testing::disturb;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Keep;
using testing::MadeRun;
using testing::RunCall;
using testing::RunOutput;
using testing::sample_run;
using ::testing::SizeIs;
using testing::TempFolder;
using testing::values_of;
using testing::write_run;

OpsReport compare(const MadeRun& oracle, const MadeRun& candidate, bool given_tokens = false) {
  const TempFolder folder;
  const auto want = TraceReader::open(write_run(folder, "oracle.fb", oracle));
  const auto got = TraceReader::open(write_run(folder, "candidate.fb", candidate));
  if (!want.ok() || !got.ok()) throw std::runtime_error("can't open what was just written");
  const auto report =
      compare_ops(**want, **got, 0xffffffff, given_tokens, run_dtype(**want, **got));
  if (!report.ok()) throw std::runtime_error(report.status().message());
  EXPECT_EQ(report->outputs, report->identical + report->decisions_differing + report->in_band +
                                 report->not_refuted + report->out_of_band + report->not_judged);
  return *report;
}

TEST(CompareOps, CountsEveryOutputOfTheSameRunAsIdentical) {
  const OpsReport report = compare(sample_run(), sample_run());
  EXPECT_EQ(report.outputs, 18u);
  EXPECT_EQ(report.identical, 18u);
  EXPECT_EQ(report.matched, 18u);
  EXPECT_EQ(report.steps, 3u);
  EXPECT_EQ(report.differing_calls, 0u);
  EXPECT_FALSE(report.first || report.worst_in_band || report.first_constant);
}

TEST(CompareOps, JudgesByTheBestEvidenceThatBothSidesKept) {
  struct Case {
    const char* why;
    Keep oracle, candidate;
    Evidence evidence;
    std::uint64_t in_band, not_refuted, hash_only;
  };
  const Case cases[] = {
      {"values on both sides", Keep::kValues, Keep::kValues, Evidence::kValues, 1, 0, 0},
      {"values on one side only", Keep::kValues, Keep::kStats, Evidence::kStats, 0, 1, 0},
      {"stats on both sides", Keep::kStats, Keep::kStats, Evidence::kStats, 0, 1, 0},
      {"stats on one side only", Keep::kStats, Keep::kHash, Evidence::kNone, 0, 0, 1},
      {"hashes only", Keep::kHash, Keep::kHash, Evidence::kNone, 0, 0, 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    MadeRun candidate = sample_run(3, 6, c.candidate);
    disturb(values_of(candidate, 0, 2), 0.02);
    const OpsReport report = compare(sample_run(3, 6, c.oracle), candidate);
    EXPECT_EQ(report.differing_calls, 1u);
    EXPECT_EQ(report.in_band, c.in_band);
    EXPECT_EQ(report.not_refuted, c.not_refuted);
    EXPECT_EQ(report.hash_only, c.hash_only);
    EXPECT_EQ(report.not_judged, c.hash_only);
    EXPECT_EQ(report.out_of_band, 0u);
    if (c.evidence == Evidence::kNone) {
      EXPECT_FALSE(report.worst_in_band.has_value());
      continue;
    }
    ASSERT_TRUE(report.worst_in_band.has_value());
    EXPECT_EQ(report.worst_in_band->evidence, c.evidence);
    EXPECT_EQ(report.worst_in_band->scope, "model.layers.1");
    EXPECT_EQ(report.worst_in_band->band, 0.06);
    if (c.evidence == Evidence::kValues) {
      EXPECT_NEAR(report.worst_in_band->distance, 0.02, 0.005);
    } else {
      EXPECT_LE(report.worst_in_band->distance, 0.02);
    }
  }
}

TEST(CompareOps, NamesTheFirstCallOutOfBandAndWhatWasFineBeforeIt) {
  MadeRun candidate = sample_run(3, 6, Keep::kValues);
  disturb(values_of(candidate, 0, 1), 0.02);  // in band
  for (const std::size_t call : {3, 4, 5}) {  // the fault, and what it does to the calls after it
    for (double& value : values_of(candidate, 0, call)) value *= 3;
  }
  const OpsReport report = compare(sample_run(3, 6, Keep::kValues), candidate);
  ASSERT_TRUE(report.first.has_value());
  EXPECT_EQ(report.first->oracle_call, 3u);
  EXPECT_EQ(report.first->candidate_call, 3u);
  EXPECT_EQ(report.first->step, 0u);
  EXPECT_EQ(report.first->scope, "model.layers.1");
  EXPECT_EQ(report.first->op, "aten::mul");
  EXPECT_EQ(report.first->tensor, "bfloat16 [1, 32]");
  EXPECT_NEAR(report.first->distance, 2, 0.02);
  EXPECT_EQ(report.first->pooled_steps, 1u);
  EXPECT_EQ(report.out_of_band, 3u);
  EXPECT_EQ(report.in_band, 1u);
  EXPECT_EQ(report.compared_before_first, 3u);
  EXPECT_EQ(report.identical_before_first, 2u);
  ASSERT_TRUE(report.last_good.has_value());
  EXPECT_EQ(report.last_good->oracle_call, 2u);
}

TEST(CompareOps, ListsTheCallsThatOneSideLacksInTheFaultyModule) {
  MadeRun candidate = sample_run();
  RunCall extra = candidate.steps[0][2];
  extra.op = "aten::neg";
  candidate.steps[0].erase(candidate.steps[0].begin() + 2);  // layer 1's linear
  candidate.steps[0].insert(candidate.steps[0].begin() + 2, extra);
  candidate.steps[0].erase(candidate.steps[0].begin());         // and layer 0's, elsewhere
  for (double& value : values_of(candidate, 0, 2)) value *= 3;  // layer 1's mul
  const OpsReport report = compare(sample_run(), candidate);
  ASSERT_TRUE(report.first.has_value());
  EXPECT_EQ(report.first->oracle_call, 3u);
  EXPECT_EQ(report.first->candidate_call, 2u);
  ASSERT_THAT(report.missing_near, SizeIs(1));
  EXPECT_EQ(report.missing_near[0].op, "aten::linear");
  EXPECT_EQ(report.missing_near[0].scope, "model.layers.1");
  ASSERT_THAT(report.extra_near, SizeIs(1));
  EXPECT_EQ(report.extra_near[0].op, "aten::neg");
  EXPECT_EQ(report.unmatched_oracle, 2u);
  EXPECT_EQ(report.unmatched_candidate, 1u);
  EXPECT_THAT(report.unmatched_oracle_first, SizeIs(2));
  EXPECT_EQ(report.oracle_calls, 18u);
  EXPECT_EQ(report.candidate_calls, 17u);
}

// A decode step's tensor may be far out alone; four times the band is too far even so.
TEST(CompareOps, JudgesDecodeStepsTogetherButNoStepMayBeFarOut) {
  for (const bool far_out : {false, true}) {
    SCOPED_TRACE(far_out);
    MadeRun candidate = sample_run(40, 6, Keep::kValues);
    for (std::size_t step = 1; step < 40; ++step) {
      disturb(values_of(candidate, step, 3), step != 5 ? 0.01 : far_out ? 0.3 : 0.15);
    }
    const OpsReport report = compare(sample_run(40, 6, Keep::kValues), candidate);
    EXPECT_EQ(report.out_of_band, far_out ? 1u : 0u);
    EXPECT_EQ(report.in_band, far_out ? 38u : 39u);
    if (!far_out) continue;
    ASSERT_TRUE(report.first.has_value());
    EXPECT_EQ(report.first->step, 5u);
    EXPECT_EQ(report.first->oracle_call, 33u);
    EXPECT_NEAR(report.first->distance, 0.3, 0.01);
    EXPECT_LT(report.first->pooled, 0.06);
    EXPECT_EQ(report.first->pooled_steps, 39u);
  }
}

TEST(CompareOps, CountsTheOutputsInBandOfACallThatIsOutOfItElsewhere) {
  for (const Keep keep : {Keep::kValues, Keep::kStats}) {
    MadeRun candidate = sample_run(4, 6, keep);
    for (double& value : values_of(candidate, 2, 3)) value *= 1.5;
    for (double& value : values_of(candidate, 3, 3)) value *= 1.015625;
    const OpsReport report = compare(sample_run(4, 6, keep), candidate);
    EXPECT_EQ(report.out_of_band, 1u);
    EXPECT_EQ(report.in_band, keep == Keep::kValues ? 1u : 0u);
    EXPECT_EQ(report.not_refuted, keep == Keep::kStats ? 1u : 0u);
    EXPECT_EQ(report.first->pooled_steps, 3u);
    EXPECT_LT(report.first->pooled, report.first->distance);
  }
}

TEST(CompareOps, RefusesWhatNoBandMayLetPass) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* why;
    RunOutput want, got;
    const char* note;
  };
  const Case cases[] = {
      {"NaN in the candidate only, by stats",
       {{1, 2, 3}},
       {{1, kNan, 3}},
       "NaN in 1 elements, oracle 0"},
      {"NaN in the candidate only, by values",
       {{1, 2, 3}, DType::kBFloat16, Keep::kValues},
       {{1, kNan, 3}, DType::kBFloat16, Keep::kValues},
       "NaN, infinite or mask on one side only in 1 of 3 elements"},
      {"an integer",
       {{7}, DType::kInt64},
       {{8}, DType::kInt64},
       "integers that no rounding may move"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    MadeRun oracle = sample_run();
    MadeRun candidate = sample_run();
    oracle.steps[1][3].outputs = {c.want};
    candidate.steps[1][3].outputs = {c.got};
    const OpsReport report = compare(oracle, candidate);
    ASSERT_TRUE(report.first.has_value());
    EXPECT_EQ(report.first->oracle_call, 9u);
    EXPECT_EQ(report.first->note, c.note);
    EXPECT_EQ(report.out_of_band, 1u);
  }
}

// A damaged or foreign recorder may have written anything: that is no agreement.
TEST(CompareOps, DoesNotLetStatsPassThatAreNotNumbers) {
  Stats stats = testing::digest_of(DType::kBFloat16, testing::numbers(1, 32)).stats;
  for (const double squares : {std::numeric_limits<double>::quiet_NaN(), -1.0}) {
    stats.sum_squares = squares;
    MadeRun candidate = sample_run();
    candidate.steps[1][3].outputs = {{testing::numbers(1, 32), DType::kBFloat16, Keep::kStats,
                                      /*decision=*/false, stats}};
    const OpsReport report = compare(sample_run(), candidate);
    EXPECT_EQ(report.out_of_band, 1u);
    EXPECT_TRUE(report.first.has_value());
  }
}

TEST(CompareOps, CountsDecisionsApart) {
  MadeRun oracle = sample_run();
  oracle.steps[0][5].outputs = {{{3, 4}, DType::kInt64, Keep::kHash, /*decision=*/true}};
  oracle.steps[1][5].outputs = {{{1, 4}, DType::kInt64, Keep::kHash, /*decision=*/true}};
  MadeRun candidate = oracle;
  values_of(candidate, 0, 5) = {4, 3};
  const OpsReport report = compare(oracle, candidate);
  EXPECT_EQ(report.decisions, 2u);
  EXPECT_EQ(report.decisions_differing, 1u);
  ASSERT_TRUE(report.first_decision.has_value());
  EXPECT_EQ(report.first_decision->oracle_call, 5u);
  EXPECT_EQ(report.out_of_band, 0u);
  EXPECT_FALSE(report.first.has_value());
}

TEST(CompareOps, AChoiceThatNothingFollowsFromIsCountedButIsNoFirstDecision) {
  MadeRun oracle = sample_run();
  oracle.steps[0].push_back({"", "aten::argmax", {{{3}, DType::kInt64, Keep::kHash, true}}});
  oracle.steps[1][5].outputs = {{{1}, DType::kInt64, Keep::kHash, true}};
  MadeRun candidate = oracle;
  candidate.steps[0][6].outputs[0].values = {4};
  const OpsReport choice = compare(oracle, candidate, /*given_tokens=*/true);
  EXPECT_EQ(choice.decisions_differing, 1u);
  EXPECT_FALSE(choice.first_decision.has_value());
  EXPECT_TRUE(compare(oracle, candidate).first_decision.has_value());
  candidate.steps[1][5].outputs[0].values = {2};
  const OpsReport router = compare(oracle, candidate, /*given_tokens=*/true);
  ASSERT_TRUE(router.first_decision.has_value());
  EXPECT_EQ(router.first_decision->step, 1u);
}

TEST(CompareOps, DoesNotJudgeTensorsOfLessThanSixteenElements) {
  MadeRun oracle = sample_run();
  oracle.steps[0][1].outputs = {{testing::numbers(1, 15)}};
  MadeRun candidate = oracle;
  for (double& value : values_of(candidate, 0, 1)) value *= 2;
  const OpsReport report = compare(oracle, candidate);
  EXPECT_EQ(report.not_judged, 1u);
  EXPECT_EQ(report.hash_only, 0u);
  EXPECT_FALSE(report.first.has_value());
}

TEST(CompareOps, GoesByTheCoarserDtypeOfTheRun) {
  for (const char* dtype : {"bfloat16", "float32"}) {
    SCOPED_TRACE(dtype);
    MadeRun oracle = sample_run();
    oracle.header.dtype = dtype;
    oracle.steps[0][1].outputs = {{testing::numbers(1, 32), DType::kFloat32, Keep::kValues}};
    MadeRun candidate = oracle;
    disturb(values_of(candidate, 0, 1), 0.01);
    EXPECT_EQ(compare(oracle, candidate).out_of_band, std::string(dtype) == "float32" ? 1u : 0u);
  }
}

TEST(CompareOps, CountsTheCallsOfStepsThatTheCandidateDidNotRun) {
  MadeRun candidate = sample_run(5);
  candidate.steps.resize(3);
  const OpsReport report = compare(sample_run(5), candidate);
  EXPECT_EQ(report.steps, 3u);
  EXPECT_EQ(report.matched, 18u);
  EXPECT_EQ(report.unmatched_oracle, 12u);
  EXPECT_EQ(report.unmatched_candidate, 0u);
}

// Steps go by number: a hole on one side must not shift the later ones.
TEST(CompareOps, ComparesTheStepsAfterOneThatOnlyOneSideRan) {
  for (const bool oracle_lacks_it : {false, true}) {
    SCOPED_TRACE(oracle_lacks_it);
    MadeRun with = sample_run(4);
    MadeRun without = sample_run(4);
    without.steps[1].clear();
    const OpsReport report = oracle_lacks_it ? compare(without, with) : compare(with, without);
    EXPECT_EQ(report.steps, 3u);
    EXPECT_EQ(report.identical, 18u);
  }
}

TEST(CompareOps, StopsAfterTheLastStepAskedFor) {
  const TempFolder folder;
  const auto trace = TraceReader::open(write_run(folder, "t.fb", sample_run(4)));
  ASSERT_TRUE(trace.ok());
  const auto report = compare_ops(**trace, **trace, 1, false, run_dtype(**trace));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->steps, 2u);
  EXPECT_EQ(report->outputs, 12u);
}

}  // namespace
}  // namespace goldentrace
