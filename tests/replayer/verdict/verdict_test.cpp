// run_replay on two whole traces: which verdict, which exit status, which headline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "replayer/replay.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using testing::disturb;
using testing::double_node;
using ::testing::HasSubstr;
using testing::Keep;
using testing::MadeRun;
using testing::RunCall;
using testing::sample_run;
using testing::TempFolder;
using testing::values_of;
using testing::write_run;
using Change = std::function<void(MadeRun&)>;

Result<ReplayReport> replay(const MadeRun& oracle, const MadeRun& candidate) {
  const TempFolder folder;
  return run_replay(
      {write_run(folder, "candidate.fb", candidate), write_run(folder, "oracle.fb", oracle)});
}

TEST(Replay, EveryVerdictHasItsExitStatusAndSaysWhatDiffers) {
  struct Case {
    const char* why;
    Change change;  // of the candidate
    Verdict verdict;
    int exit;
    const char* headline;
  };
  const Case cases[] = {
      {"the same run", [](MadeRun&) {}, Verdict::kIdentical, 0,
       "bit-identical, greedy tokens identical"},
      {"small noise in one tensor", [](MadeRun& r) { disturb(values_of(r, 0, 2), 0.02); },
       Verdict::kInBand, 0, "in band as far as stats tell, greedy tokens identical"},
      {"a big change in one tensor", [](MadeRun& r) { values_of(r, 0, 2)[0] += 5; }, Verdict::kOps,
       1, "kernel: model.layers.1 differs first, by stats"},
      {"another prompt", [](MadeRun& r) { r.text.requests[0].prompt = "Hallo"; }, Verdict::kInputs,
       1, "inputs: the two runs were given other prompts"},
      {"other weights",
       [](MadeRun& r) {
         r.parameters[0].hash = {9, 9};
       },
       Verdict::kWeights, 1, "weights: parameters are not the oracle's"},
      {"another config",
       [](MadeRun& r) { r.header.model_config = R"({"model_type": "tiny", "hidden_size": 64})"; },
       Verdict::kConfig, 1, "configuration: the models are set up differently"},
      {"other sampling", [](MadeRun& r) { r.text.requests[0].stop_ids.push_back(3); },
       Verdict::kSampling, 1, "sampling: the tokens were chosen by other rules"},
      {"another token, far from a tie", [](MadeRun& r) { r.text.steps[1].chosen = 7; },
       Verdict::kTokens, 1, "tokens: greedy decoding took another token"},
      {"another choice along the same tokens",
       [](MadeRun& r) {
         r.text.requests[0].sampling.push_back({"forced", "true", "request"});
         r.text.steps[1].chosen = 7;
       },
       Verdict::kTokens, 1, "tokens: greedy decoding would take another token"},
      {"a fault after another choice along the same tokens is found",
       [](MadeRun& r) {
         r.text.requests[0].sampling.push_back({"forced", "true", "request"});
         r.text.steps[1].chosen = 7;
         values_of(r, 2, 2)[0] += 5;
       },
       Verdict::kOps, 1, "kernel: model.layers.1 differs first, by stats"},
      {"fed other tokens from the second step on",
       [](MadeRun& r) {
         r.text.requests[0].sampling.push_back({"forced", "true", "request"});
         r.text.requests[0].output_ids[0] = 7;
       },
       Verdict::kIdentical, 0, "bit-identical, greedy tokens identical in 1 of 3 steps"},
      {"no call in common",
       [](MadeRun& r) {
         for (auto& step : r.steps) {
           for (RunCall& call : step) call.scope = "other";
         }
       },
       Verdict::kStructure, 1, "structure: no call of one program is found in the other"},
      {"the first rung that differs is blamed, not those below",
       [](MadeRun& r) {
         r.parameters[0].hash = {9, 9};
         r.text.steps[1].chosen = 7;
         values_of(r, 0, 0)[0] += 5;
       },
       Verdict::kWeights, 1, "weights: parameters are not the oracle's"},
      {"a call out of band is blamed for the token that it changed",
       [](MadeRun& r) {
         r.text.steps[1].chosen = 7;
         values_of(r, 1, 0)[0] += 9;
       },
       Verdict::kOps, 1, "kernel: model.layers.0 differs first, by stats"},
      {"code outside every module",
       [](MadeRun& r) {
         for (auto& step : r.steps) {
           for (RunCall& call : step) call.scope.clear();
         }
       },
       Verdict::kStructure, 1, "structure: no call"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    MadeRun candidate = sample_run();
    c.change(candidate);
    const auto report = replay(sample_run(), candidate);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_STREQ(verdict_name(report->verdict), verdict_name(c.verdict));
    EXPECT_EQ(exit_status(report->verdict), c.exit);
    EXPECT_THAT(report->headline, HasSubstr(c.headline));
  }
}

// The oracle's own gap at step 1 is 0.5, and 6 % of logits of size 8 lets it be 0.68.
MadeRun near_tie() {
  MadeRun run = sample_run();
  run.text.steps[1].top_logits = {20, 19.5f};
  run.text.steps[1].logits_rms = 8;
  return run;
}

TEST(Replay, PartingAtANearGapIsATieBetweenTwoSoundRuns) {
  MadeRun candidate = near_tie();
  candidate.text.steps[1].chosen = 7;
  disturb(values_of(candidate, 1, 3), 0.02);
  values_of(candidate, 2, 3)[0] += 9;  // the step after has other inputs: not compared
  const auto report = replay(near_tie(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kTie);
  EXPECT_EQ(exit_status(report->verdict), 0);
  EXPECT_EQ(report->headline, "up to step 1, where the texts part at a tie: either token is right");
  EXPECT_EQ(report->ops.steps, 2u);
  EXPECT_EQ(report->ops.oracle_calls, 12u);
  EXPECT_EQ(report->ops.out_of_band, 0u);
}

TEST(Replay, PartingAtANearGapIsNoTieWhenACallIsOutOfBand) {
  MadeRun candidate = near_tie();
  candidate.text.steps[1].chosen = 7;
  values_of(candidate, 1, 3)[0] += 9;
  const auto report = replay(near_tie(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kOps);
  EXPECT_EQ(report->tokens.rung.status, RungStatus::kDiff);
}

TEST(Replay, ComparesNothingBelowOtherInputs) {
  MadeRun candidate = sample_run();
  candidate.text.requests[0].prompt_ids[1] = 77;
  values_of(candidate, 0, 0)[0] += 9;
  const auto report = replay(sample_run(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kInputs);
  EXPECT_EQ(report->tokens.rung.status, RungStatus::kNotCompared);
  EXPECT_EQ(report->ops_rung.status, RungStatus::kNotCompared);
  EXPECT_EQ(report->ops.outputs, 0u);
}

TEST(Replay, ClaimsNothingOfTokensThatWereNotCompared) {
  MadeRun candidate = sample_run();
  candidate.text.steps.clear();
  const auto report = replay(sample_run(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kIdentical);
  EXPECT_EQ(report->headline, "bit-identical, tokens not compared");
}

TEST(Replay, ClaimsNothingOfCallsThatWereNotCompared) {
  MadeRun bare = sample_run();
  bare.steps.clear();
  bare.parameters.clear();
  const auto report = replay(bare, bare);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kInBand);
  EXPECT_EQ(report->headline, "no call compared, greedy tokens identical");
  EXPECT_EQ(report->ops_rung.status, RungStatus::kNotCompared);
}

// The same run as another engine tells it: other names, other operators, another number of tensors.
MadeRun of_another_engine() {
  MadeRun run = sample_run();
  for (auto& step : run.steps) {
    step.resize(2);
    for (RunCall& call : step) {
      call.scope = "blk.0";
      call.op = "MUL_MAT";
      call.flags = kCallForeign;
    }
  }
  return run;
}

TEST(Replay, TensorsOfAnotherEngineAreNoOtherStructure) {
  const auto report = replay(sample_run(), of_another_engine());
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kInBand);
  EXPECT_EQ(report->headline, "no call compared, greedy tokens identical");
  EXPECT_EQ(report->ops_rung.status, RungStatus::kNotCompared);
  EXPECT_EQ(report->ops_rung.text,
            "another engine's tensors are not aligned by call (18 against 6)");
}

TEST(Replay, TokensOfAnotherEngineAreJudged) {
  MadeRun candidate = of_another_engine();
  candidate.text.steps[1].chosen = 7;
  const auto report = replay(sample_run(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kTokens);
}

TEST(Replay, ACandidateWithoutAnyTensorIsJudgedByItsTokens) {
  MadeRun candidate = sample_run();
  for (auto& step : candidate.steps) step.clear();
  const auto report = replay(sample_run(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kInBand);
  EXPECT_EQ(report->ops_rung.status, RungStatus::kNotCompared);
}

TEST(Replay, TwoTracesOfOneOtherEngineAreAlignedByTheirNames) {
  MadeRun candidate = of_another_engine();
  values_of(candidate, 0, 1)[0] += 5;
  const auto report = replay(of_another_engine(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kOps);
  EXPECT_EQ(report->ops.matched, 6u);
}

TEST(Replay, CannotDistinguishWhenOnlyHashesAreKeptOfWhatDiffers) {
  MadeRun candidate = sample_run(3, 6, Keep::kHash);
  values_of(candidate, 0, 2)[0] += 5;
  const auto report = replay(sample_run(3, 6, Keep::kHash), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kUndecided);
  EXPECT_EQ(exit_status(report->verdict), 2);
  EXPECT_EQ(report->headline,
            "outputs differ, and hashes alone can't say how far, greedy tokens identical");
}

TEST(Replay, GivesNoAnswerWhenThereIsNothingToCompare) {
  MadeRun bare = sample_run(3, 6, Keep::kNothing);
  bare.text = {};
  const auto report = replay(bare, bare);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(report.status().message(), HasSubstr("nothing to compare"));
}

TEST(Replay, GivesNoAnswerForTwoModels) {
  MadeRun candidate = sample_run();
  candidate.header.model_config = R"({"model_type": "large"})";
  const auto report = replay(sample_run(), candidate);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(report.status().message(),
              HasSubstr("not comparable: a 'large' model against the oracle's 'tiny'"));
}

TEST(Replay, ComparesATraceThatDoesNotNameItsModel) {
  MadeRun candidate = sample_run();
  candidate.header.model_config.clear();
  const auto report = replay(sample_run(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verdict, Verdict::kIdentical);
  EXPECT_EQ(report->config.status, RungStatus::kNotCompared);
}

TEST(Replay, GivesNoAnswerForFilesThatAreNoWholeTraces) {
  const TempFolder folder;
  const std::string whole = write_run(folder, "whole.fb", sample_run());
  const std::string text = folder.write("text.fb", "not a trace");
  const std::string missing = folder.file("missing.fb");
  EXPECT_EQ(run_replay({whole, text}).status().code(), Code::kCorrupt);
  EXPECT_EQ(run_replay({text, whole}).status().code(), Code::kCorrupt);
  EXPECT_EQ(run_replay({missing, whole}).status().code(), Code::kNotFound);
}

// Wherever the damage is: in values that no comparison needs, in what follows other inputs.
TEST(Replay, GivesNoAnswerForADamagedFile) {
  const TempFolder folder;
  const MadeRun oracle = sample_run(2, 4, Keep::kValues);
  MadeRun near = oracle;
  disturb(values_of(near, 0, 2), 0.02);
  MadeRun other = oracle;
  other.text.requests[0].prompt = "Hallo";
  const std::string whole = write_run(folder, "whole.fb", oracle);
  for (const MadeRun& run : {near, other}) {
    const std::string path = write_run(folder, "candidate.fb", run);
    ASSERT_TRUE(run_replay({path, whole}).ok());
    std::string bytes = *read_text_file(path, 1 << 20);
    for (std::size_t i = 0; i < bytes.size(); i += 11) {
      bytes[i] ^= 0x10;
      const std::string damaged = folder.write("damaged.fb", bytes);
      for (const auto& report : {run_replay({damaged, whole}), run_replay({whole, damaged})}) {
        const bool cut = report.ok() && !(report->candidate.doubts.incomplete.empty() &&
                                          report->oracle.doubts.incomplete.empty());
        EXPECT_TRUE(!report.ok() || cut) << "byte " << i << " of " << bytes.size();
      }
      bytes[i] ^= 0x10;
    }
  }
}

TEST(Replay, GivesNoAnswerForAProgramThatLacksACall) {
  MadeRun broken = sample_run();
  broken.counters = {
      {"recorder_errors", CounterSeverity::kError, CounterOrigin::kRecording, 1, "call 3: boom"}};
  for (const auto& report : {replay(sample_run(), broken), replay(broken, sample_run())}) {
    EXPECT_EQ(report.status().code(), Code::kCorrupt);
    EXPECT_THAT(report.status().message(), ::testing::HasSubstr("not whole"));
    EXPECT_THAT(report.status().message(), ::testing::HasSubstr("call 3"));
  }
}

TEST(Replay, DescribesBothSidesAndAddsUpWhatTheirRecordingsLost) {
  MadeRun candidate = sample_run();
  candidate.header.environment = {{"attention", "sdpa"}, {"torch", "2.16.0"}};
  candidate.counters = {
      {"calls", CounterSeverity::kInfo, CounterOrigin::kRecording, 18, ""},
      {"holes", CounterSeverity::kLoss, CounterOrigin::kRecording, 2, "x"},
      {"calls_not_executable", CounterSeverity::kLoss, CounterOrigin::kRecording, 3, "y"}};
  const auto report = replay(sample_run(), candidate);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->candidate.losses, 5u);
  EXPECT_EQ(report->oracle.losses, 0u);
  EXPECT_EQ(report->candidate.calls, 18u);
  EXPECT_EQ(report->candidate.description, "transformers 5.24.0 sdpa bfloat16, torch 2.16.0, cpu");
  EXPECT_EQ(report->longest_position, 4);
}

}  // namespace
}  // namespace goldentrace
