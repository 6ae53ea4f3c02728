#include "replayer/report/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/replayer/report/sample_reports.h"

namespace goldentrace {
namespace {

using nlohmann::json;
using testing::full_report;
using testing::kEveryVerdict;
using testing::sample_lossy;
using testing::sample_moved;
using testing::sample_promoted;
using testing::sample_verify;

TEST(JsonReport, ParsesAndNamesVersionVerdictAndExitWhateverTheTraceContains) {
  for (const Verdict verdict : kEveryVerdict) {
    for (const bool nasty : {false, true}) {
      SCOPED_TRACE(std::string(verdict_name(verdict)) + (nasty ? ", nasty" : ""));
      const json report = json::parse(json_report(full_report(verdict, nasty)), nullptr, false);
      ASSERT_TRUE(report.is_object());
      EXPECT_EQ(report["report"], "replay");
      EXPECT_EQ(report["version"], 1);
      EXPECT_EQ(report["verdict"], verdict_name(verdict));
      EXPECT_EQ(report["exit"], exit_status(verdict));
      for (const char* key : {"headline", "oracle", "candidate", "inputs", "weights", "config",
                              "sampling", "tokens", "ops", "longest_position"}) {
        EXPECT_TRUE(report.contains(key)) << key;
      }
    }
  }
}

TEST(JsonReport, HasLocalFindingsWithTheirCuts) {
  ReplayReport whole = full_report(Verdict::kOps, false);
  EXPECT_EQ(json::parse(json_report(whole))["local"], nullptr);
  testing::add_local(whole, 2, "model.layers.");
  const json local = json::parse(json_report(whole))["local"];
  EXPECT_EQ(local["cuts"], 5);
  EXPECT_EQ(local["zones"], (json{{"fault", 4}, {"rounding_policy", 1}}));
  const json finding = local["findings"][0];
  EXPECT_EQ(finding["zone"], "fault");
  EXPECT_EQ(finding["scopes"].size(), 3u);
  EXPECT_EQ(finding["cuts"][0]["rounded_ratio"], 8.5);
  EXPECT_EQ(finding["cuts"][0]["dirty_tokens"], json::array({1, 2}));
}

TEST(JsonReport, HasAllDetailsAndCounts) {
  ReplayReport whole = full_report(Verdict::kWeights, false);
  whole.oracle.doubts.impure = {"mlp: runs a"};
  whole.candidate.doubts.warnings = {"training: mlp: on"};
  const json report = json::parse(json_report(whole));
  EXPECT_EQ(report["weights"]["status"], "diff");
  EXPECT_EQ(report["weights"]["details"].size(), 7u);
  EXPECT_EQ(report["candidate"]["losses"], 1);
  EXPECT_EQ(report["oracle"]["not_pure"], json::array({"mlp: runs a"}));
  EXPECT_EQ(report["candidate"]["warnings"], json::array({"training: mlp: on"}));
  EXPECT_EQ(report["ops"]["matched"], 9133);
  EXPECT_EQ(report["ops"]["not_judged"], 243);
  EXPECT_EQ(report["ops"]["not_judged_hash_only"], 3);
  EXPECT_EQ(report["ops"]["first_out_of_band"]["scope"], "model.layers.3.mlp");
  EXPECT_EQ(report["ops"]["first_out_of_band"]["evidence"], "stats");
  EXPECT_EQ(report["ops"]["missing_in_module"][0]["op"], "aten::add");
  EXPECT_EQ(report["ops"]["first_constant"], nullptr);
  EXPECT_EQ(report["tokens"]["first"]["oracle"]["piece"], " bank");
  EXPECT_EQ(report["tokens"]["oracle_steps"], 4);
}

TEST(JsonReport, WritesNullForWhatJsonHasNoNumberFor) {
  ReplayReport report = full_report(Verdict::kStructure, false);
  report.ops.first->distance = INFINITY;
  report.ops.first->pooled = NAN;
  report.ops.first_constant->oracle = -INFINITY;
  report.tokens.oracle_gap_ulp = INFINITY;
  report.tokens.smallest_gap_ulp = NAN;
  const json parsed = json::parse(json_report(report));
  EXPECT_TRUE(parsed["ops"]["first_out_of_band"]["distance"].is_null());
  EXPECT_TRUE(parsed["ops"]["first_out_of_band"]["pooled"].is_null());
  EXPECT_TRUE(parsed["ops"]["first_constant"]["oracle"].is_null());
  EXPECT_EQ(parsed["ops"]["first_constant"]["candidate"], 1e-5);
  EXPECT_TRUE(parsed["tokens"]["first"]["oracle"]["gap_ulp"].is_null());
  EXPECT_TRUE(parsed["tokens"]["smallest_gap_ulp"].is_null());
}

TEST(JsonVerify, NamesVerdictAndExitOfEveryOutcome) {
  struct Case {
    const char* why;
    VerifyReport report;
    const char* verdict;
    int exit;
  };
  const Case cases[] = {
      {"reproduced", sample_verify(true, false, false), "reproduced", 0},
      {"not reproduced here", sample_verify(false, false, false), "not_reproduced", 1},
      {"out of band elsewhere", sample_verify(false, true, false), "not_reproduced", 1},
      {"in band elsewhere", sample_moved(), "in_band", 0},
      {"too much lost", sample_lossy(), "too_much_lost", 2},
      {"promoted", sample_promoted(0), "runs_promoted", 0},
      {"promoted, another shape", sample_promoted(1), "not_reproduced", 1},
      {"other weights", sample_verify(true, false, true), "not_reproduced", 1},
      {"other weights elsewhere", sample_verify(true, true, true), "not_reproduced", 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const json report = json::parse(json_report(c.report));
    EXPECT_EQ(report["report"], "verify");
    EXPECT_EQ(report["version"], 1);
    EXPECT_EQ(report["verdict"], c.verdict);
    EXPECT_EQ(report["exit"], c.exit);
    EXPECT_EQ(report["findings"].size(), c.report.findings.size());
    EXPECT_EQ(report["wrong_parameters"].size(), c.report.wrong_parameters.size());
  }
}

}  // namespace
}  // namespace goldentrace
