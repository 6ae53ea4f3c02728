// compare_tokens: the rung of the greedy tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "replayer/verdict/ladder.h"

namespace goldentrace {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Three steps that chose 10, 11, 12 over 20 with the logits 5 and 4.
Text three_steps() {
  Text text;
  Request request;
  request.output_pieces = {" a", " b", " c"};
  text.requests = {request};
  for (std::uint32_t i = 0; i < 3; ++i) {
    Step step;
    step.step = i;
    step.rows = {{0, 0, i == 0 ? 4u : 1u, i == 0 ? 0 : 3 + static_cast<std::int64_t>(i)}};
    step.chosen = 10 + i;
    step.top_ids = {step.chosen, 20};
    step.top_logits = {5, 4};
    step.gap_ulp = 30 - i;
    text.steps.push_back(step);
  }
  return text;
}

TEST(CompareTokens, CountsEqualStepsAndTheSmallestGap) {
  const TokensReport report = compare_tokens(three_steps(), three_steps(), 0.06);
  EXPECT_EQ(report.rung.status, RungStatus::kOk);
  EXPECT_EQ(report.compared, 3u);
  EXPECT_FALSE(report.first_step.has_value());
  EXPECT_EQ(report.smallest_gap_ulp, 28);
  EXPECT_EQ(report.smallest_gap_step, 2u);
}

TEST(CompareTokens, WithoutLogitsADifferenceIsNoTie) {
  Text oracle = three_steps();
  for (Step& step : oracle.steps) {
    step.top_logits.clear();
    step.logits_rms = 1;
  }
  Text candidate = oracle;
  candidate.steps[1].chosen = 20;
  EXPECT_EQ(compare_tokens(oracle, candidate, 0.06).rung.status, RungStatus::kDiff);
}

TEST(CompareTokens, NamesTheStepThePositionAndBothTokensWhereTheyPart) {
  Text candidate = three_steps();
  candidate.steps[1].chosen = 20;
  candidate.steps[1].gap_ulp = 3;
  candidate.requests[0].output_pieces[1] = " z";
  candidate.steps[2].chosen = 99;  // after they part nothing is compared
  const TokensReport report = compare_tokens(three_steps(), candidate, 0.06);
  EXPECT_EQ(report.rung.status, RungStatus::kDiff);
  EXPECT_EQ(report.compared, 1u);
  EXPECT_EQ(report.first_step, 1u);
  EXPECT_EQ(report.position, 5);  // the token after position 4
  EXPECT_EQ(report.oracle_token, 11);
  EXPECT_EQ(report.candidate_token, 20);
  EXPECT_EQ(report.oracle_piece, " b");
  EXPECT_EQ(report.candidate_piece, " z");
  EXPECT_EQ(report.oracle_gap_ulp, 29);
  EXPECT_EQ(report.candidate_gap_ulp, 3);
}

TEST(CompareTokens, CallsItATieOnlyWhenTheOraclesOwnGapIsInsideTheBand) {
  struct Case {
    const char* why;
    std::vector<std::int64_t> ids;
    std::vector<float> logits;
    RungStatus status;
    double logits_rms = 16 / std::numbers::sqrt2;  // the band then lets the gap be 1
  };
  const Case cases[] = {
      {"equal logits", {10, 20}, {5, 5}, RungStatus::kTie},
      {"the edge of the band", {10, 20}, {16, 15.001f}, RungStatus::kTie},
      {"just outside", {10, 20}, {16, 14.9f}, RungStatus::kDiff},
      {"far outside", {10, 20}, {16, 1}, RungStatus::kDiff},
      {"the second of three", {10, 15, 20}, {16, 15.8f, 15.5f}, RungStatus::kTie},
      {"negative logits", {10, 20}, {-16, -16.5f}, RungStatus::kTie},
      {"small logits leave little room", {10, 20}, {16, 15.9f}, RungStatus::kDiff, 0.5},
      {"logits of unknown size", {10, 20}, {16, 16}, RungStatus::kDiff, 0},
      {"the other token is not in the evidence", {10, 30}, {16, 15.9f}, RungStatus::kDiff},
      {"no logits at all", {}, {}, RungStatus::kDiff},
      {"an infinite logit is a fault, not a tie", {10, 20}, {kInf, 5}, RungStatus::kDiff},
      {"nor is NaN", {10, 20}, {std::nanf(""), 5}, RungStatus::kDiff},
      {"two infinite logits", {10, 20}, {kInf, kInf}, RungStatus::kDiff},
      {"an infinite logit, the other token unknown", {10, 30}, {kInf, 5}, RungStatus::kDiff},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    Text oracle = three_steps();
    oracle.steps[0].top_ids = c.ids;
    oracle.steps[0].top_logits = c.logits;
    oracle.steps[0].logits_rms = c.logits_rms;
    Text candidate = three_steps();
    candidate.steps[0].chosen = 20;
    EXPECT_EQ(compare_tokens(oracle, candidate, 0.0625).rung.status, c.status);
  }
}

TEST(CompareTokens, ComparesTheStepsThatBothSidesHaveAndCountsBoth) {
  Text shorter = three_steps();
  shorter.steps.pop_back();
  for (const bool oracle_is_shorter : {false, true}) {
    const TokensReport report = oracle_is_shorter ? compare_tokens(shorter, three_steps(), 0.06)
                                                  : compare_tokens(three_steps(), shorter, 0.06);
    EXPECT_EQ(report.rung.status, RungStatus::kOk);
    EXPECT_EQ(report.compared, 2u);
    EXPECT_EQ(report.oracle_steps, oracle_is_shorter ? 2u : 3u);
    EXPECT_EQ(report.candidate_steps, oracle_is_shorter ? 3u : 2u);
  }
}

TEST(CompareTokens, ClaimsNothingWithoutSteps) {
  const TokensReport report = compare_tokens(three_steps(), {}, 0.06);
  EXPECT_EQ(report.rung.status, RungStatus::kNotCompared);
  EXPECT_EQ(report.rung.text, "no steps in the evidence");
  EXPECT_EQ(report.compared, 0u);
}

// The same run, but fed `ids`; in step 1 the model itself chose 20.
Text forced_along(const std::vector<std::int64_t>& ids) {
  Text text = three_steps();
  text.requests[0].sampling = {{"forced", "true", "request"}};
  text.requests[0].output_ids = ids;
  text.steps[1].chosen = 20;
  return text;
}

TEST(CompareTokens, ARunForcedAlongTheOraclesTokensIsComparedChoiceByChoiceToItsEnd) {
  const TokensReport report = compare_tokens(three_steps(), forced_along({10, 11, 12}), 0.06);
  EXPECT_EQ(report.rung.status, RungStatus::kDiff);
  EXPECT_EQ(report.compared, 2u);
  EXPECT_EQ(report.differing, 1u);
  EXPECT_TRUE(report.went_on);
  EXPECT_FALSE(report.parted.has_value());
  EXPECT_EQ(report.first_step, 1u);
  EXPECT_EQ(report.candidate_token, 20);
  EXPECT_EQ(report.candidate_piece, "");  // the piece there is that of the token fed
}

TEST(CompareTokens, AForcedRunPartsWhereItIsFedAnotherToken) {
  // The oracle itself may be the forced side: it follows what an engine generated.
  Text oracle = forced_along({10, 20, 12});
  Text candidate = three_steps();
  TokensReport report = compare_tokens(oracle, candidate, 0.06);
  EXPECT_EQ(report.parted, 1u);
  EXPECT_EQ(report.first_step, 1u);
  EXPECT_FALSE(report.went_on);
  // Equal choices, but other tokens were given.
  oracle.steps[1].chosen = 11;
  report = compare_tokens(oracle, candidate, 0.06);
  EXPECT_EQ(report.rung.status, RungStatus::kOk);
  EXPECT_EQ(report.compared, 2u);
  EXPECT_EQ(report.parted, 1u);
  EXPECT_FALSE(report.first_step.has_value());
}

TEST(CompareTokens, OfSeveralDifferencesTheFirstThatIsNoTieIsShown) {
  Text oracle = three_steps();
  for (Step& step : oracle.steps) step.logits_rms = 16 / std::numbers::sqrt2;  // room of 1
  Text candidate = forced_along({10, 11, 12});
  EXPECT_EQ(compare_tokens(oracle, candidate, 0.0625).rung.status, RungStatus::kTie);
  candidate.steps[2].chosen = 20;
  oracle.steps[2].top_logits = {5, 1};
  const TokensReport report = compare_tokens(oracle, candidate, 0.0625);
  EXPECT_EQ(report.rung.status, RungStatus::kDiff);
  EXPECT_EQ(report.first_step, 2u);
  EXPECT_EQ(report.differing, 2u);
}

// Rows and pieces are optional in a trace.
TEST(CompareTokens, NamesAPartingWithoutRowsOrPieces) {
  Text oracle = three_steps();
  oracle.steps[0].rows.clear();
  oracle.requests.clear();
  Text candidate = three_steps();
  candidate.steps[0].chosen = 20;
  candidate.requests.clear();
  const TokensReport report = compare_tokens(oracle, candidate, 0.06);
  EXPECT_EQ(report.first_step, 0u);
  EXPECT_EQ(report.position, -1);
  EXPECT_EQ(report.oracle_piece, "");
}

}  // namespace
}  // namespace goldentrace
