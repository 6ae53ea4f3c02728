// The text report: its layout is a contract (25 lines of 100 columns, fixed order of rows),
// whatever the traces contain.
#include "replayer/report/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "replayer/report/format.h"
#include "tests/replayer/report/sample_reports.h"

namespace goldentrace {
namespace {

using testing::add_local;
using testing::full_report;
using ::testing::HasSubstr;
using testing::kEveryVerdict;
using testing::nasty_text;
using ::testing::Not;
using testing::sample_lossy;
using testing::sample_moved;
using testing::sample_not_executable;
using testing::sample_promoted;
using testing::sample_verify;

std::vector<std::string> lines_of(const std::string& report) {
  std::vector<std::string> lines;
  std::istringstream in(report);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void expect_layout(const std::string& report, int exit) {
  ASSERT_TRUE(report.ends_with('\n'));
  const std::vector<std::string> lines = lines_of(report);
  EXPECT_LE(lines.size(), 25u) << report;
  EXPECT_TRUE(lines[0].ends_with(" exit " + std::to_string(exit))) << lines[0];
  for (const std::string& line : lines) {
    EXPECT_LE(columns(line), kReportWidth) << line;
    EXPECT_EQ(line, printable(line));
  }
}

// The labels of the rows under the headline, findings and details left out.
std::vector<std::string> labels_of(const std::string& report) {
  std::vector<std::string> labels;
  for (const std::string& line : lines_of(report)) {
    if (!line.starts_with("  ") || line.size() < 3 || line[2] == ' ') continue;
    labels.push_back(line.substr(2, line.find("  ", 2) - 2));
  }
  return labels;
}

// Every field at once, longer than any row and full of what breaks a row.
TEST(TextReport, KeepsItsLayoutWhateverTheTraceContains) {
  for (const Verdict verdict : kEveryVerdict) {
    for (const bool nasty : {false, true}) {
      SCOPED_TRACE(std::string(verdict_name(verdict)) + (nasty ? ", nasty" : ""));
      const std::string report = text_report(full_report(verdict, nasty));
      expect_layout(report, exit_status(verdict));
      const char* words[] = {"AGREE  ", "DIVERGE  ", "UNDECIDED  "};
      EXPECT_TRUE(report.starts_with(words[exit_status(verdict)]));
      std::vector<std::string> labels = {"oracle",   "candidate", "loss",   "inputs", "weights",
                                         "config",   "sampling",  "logits", "tokens", "ops",
                                         "coverage", "not seen",  "next"};
      // No call is compared below other inputs.
      if (verdict == Verdict::kInputs) std::erase(labels, "coverage");
      EXPECT_EQ(labels_of(report), labels);
    }
  }
}

// Details give way to what makes the oracle doubtful; no row of the fixed order does.
TEST(TextReport, SaysUnderWhoRanThatTheOracleIsNotPureAndKeepsItsLength) {
  for (const Verdict verdict : kEveryVerdict) {
    SCOPED_TRACE(verdict_name(verdict));
    ReplayReport report = full_report(verdict, false);
    const std::vector<std::string> labels = labels_of(text_report(report));
    report.oracle.doubts = {.impure = {"mlp: runs a", "mlp: runs b", "mlp: runs c"},
                            .warnings = {"training: mlp: on"}};
    report.candidate.doubts = {.impure = {"mlp: runs elsewhere"}};
    const std::string text = text_report(report);
    expect_layout(text, exit_status(verdict));
    const std::vector<std::string> lines = lines_of(text);
    EXPECT_EQ(lines[3], "  oracle not pure: mlp runs a");
    EXPECT_EQ(lines[4], "  oracle not pure: mlp runs b (and 1 other place)");
    EXPECT_EQ(lines[5], "  oracle warned: training: mlp on");
    EXPECT_THAT(text, Not(HasSubstr("elsewhere"))) << "a candidate need not be pure";
    for (const std::string& label : labels) EXPECT_THAT(text, HasSubstr("  " + label));
  }
}

TEST(TextReport, KeepsItsLayoutWithLocalFindingsToo) {
  for (const Verdict verdict : kEveryVerdict) {
    for (const std::size_t others : {0, 2, 30}) {
      for (const bool nasty : {false, true}) {
        SCOPED_TRACE(std::string(verdict_name(verdict)) + (nasty ? ", nasty" : ""));
        ReplayReport report = full_report(verdict, nasty);
        add_local(report, others, nasty ? nasty_text() : "model.layers.");
        const std::string text = text_report(report);
        expect_layout(text, exit_status(verdict));
        EXPECT_THAT(text,
                    HasSubstr("  local      DIFF " + std::to_string(3 + others) + " cuts judged"));
        EXPECT_THAT(text, HasSubstr("9.5 x eager's own error (band 1.1), 8.5 x full rounding's"));
        EXPECT_THAT(text, HasSubstr("clean up to position 0, all dirty from 1 on"));
      }
    }
  }
}

TEST(TextReport, OneFaultInManyLayersIsOneFinding) {
  ReplayReport report = full_report(Verdict::kOps, false);
  add_local(report, 2, "model.layers.");
  ASSERT_EQ(report.findings.size(), 3u);
  EXPECT_EQ(report.findings[0].module, "model.layers.*.mlp");
  EXPECT_EQ(report.findings[0].scopes.size(), 3u);
  EXPECT_EQ(report.findings[2].zone, Zone::kRoundingPolicy) << "faults come first";
  const std::string text = text_report(report);
  EXPECT_THAT(text, HasSubstr("1  model.layers.*.mlp      3 modules, 3 cuts\n"));
  EXPECT_THAT(text, Not(HasSubstr("first call out of band"))) << "re-execution says it better";
}

TEST(TextReport, AVerifiedTraceIsStillNotPure) {
  const Doubts doubts{.impure = {"mlp: runs a"}};
  const std::string text = text_report(sample_verify(true, false, false), doubts);
  expect_layout(text, 0);
  EXPECT_EQ(lines_of(text)[2], "  oracle not pure: mlp runs a");
  EXPECT_THAT(text_report(sample_verify(true, false, false)), Not(HasSubstr("not pure")));
  const Doubts cut{.incomplete = "trace_cut 1"};
  EXPECT_EQ(lines_of(text_report(sample_verify(true, false, false), cut))[2],
            "  not whole  trace_cut 1");
}

TEST(TextReport, GivesDetailsOfTheFirstRungThatDiffersOnly) {
  ReplayReport report = full_report(Verdict::kConfig, false);
  report.config = {RungStatus::kDiff, "7 of 9 fields differ", {"a", "b", "c", "d", "e", "f", "g"}};
  report.sampling = {RungStatus::kDiff, "1 settings differ", {"top_k: oracle 1, candidate 2"}};
  const std::string text = text_report(report);
  EXPECT_THAT(text, HasSubstr("  config     DIFF 7 of 9 fields differ\n             a\n"));
  EXPECT_THAT(text, HasSubstr("             e\n             and 2 more (--json has them)\n"));
  EXPECT_THAT(text, HasSubstr("  sampling   DIFF 1 settings differ\n"));
  EXPECT_THAT(text, Not(HasSubstr("top_k")));
  EXPECT_THAT(text, Not(HasSubstr("first call out of band"))) << "nobody is blamed below it";
  EXPECT_THAT(text, HasSubstr("    first    out of band: model.layers.3.mlp, aten::linear"));
}

TEST(TextReport, EscapesTokensSoThatEachCanBeTold) {
  ReplayReport report = full_report(Verdict::kTokens, false);
  report.tokens.oracle_piece = "\n";
  report.tokens.candidate_piece = "it's\xff";
  EXPECT_THAT(text_report(report),
              HasSubstr("first at step 2 (position 11): 'it\\'s\\xff' for '\\n'"));
  report.tokens.oracle_piece.clear();
  EXPECT_THAT(text_report(report), HasSubstr("for id 5"));
}

TEST(TextReport, NeverCallsAnIncompleteAlignmentAllOfIt) {
  ReplayReport report = full_report(Verdict::kInBand, false);
  report.ops.oracle_calls = 2320;
  report.ops.matched = 2318;
  report.ops.unmatched_oracle = 2;
  report.ops.unmatched_candidate = 0;
  EXPECT_THAT(text_report(report),
              HasSubstr("  coverage   99.9 % of 2,320 calls aligned; only the oracle: 2, "
                        "only the candidate: 0\n"));
}

TEST(TextReport, ShowsWhatDiffersButCouldNotBeJudgedAndWhy) {
  struct Case {
    std::uint64_t by_values, by_stats, too_small, hash_only;
    const char* row;
  };
  const Case cases[] = {
      {7, 0, 0, 0, "1,300 calls not bit-identical: 7 in band by values"},
      {0, 7, 0, 0, "1,300 calls not bit-identical: 7 in band by stats"},
      {1, 2, 0, 0, "1,300 calls not bit-identical: 1 in band by values, 2 by stats"},
      {0, 7, 200, 0, "1,300 calls not bit-identical: 7 in band by stats, 200 too small"},
      {0, 0, 0, 5, "1,300 calls not bit-identical: 5 by hash only"},
      {1000, 2000, 200, 100,
       "1,300 calls not bit-identical: 1,000 in band by values, 2,000 by stats, 200 too small.."},
      {0, 0, 0, 0, "1,300 calls not bit-identical"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.row);
    ReplayReport report = full_report(Verdict::kInBand, false);
    report.ops.differing_calls = 1300;
    report.ops.in_band = c.by_values;
    report.ops.not_refuted = c.by_stats;
    report.ops.not_judged = c.too_small + c.hash_only;
    report.ops.hash_only = c.hash_only;
    const std::string text = text_report(report);
    EXPECT_THAT(text, HasSubstr("\n    differ   " + std::string(c.row) + "\n"));
    // Only a bound stands behind stats: what it can't see is said.
    EXPECT_EQ(text.find("faults that keep norms and sums") != std::string::npos, c.by_stats > 0);
  }
}

TEST(TextReport, SaysWhichSideRanNoMoreSteps) {
  ReplayReport report = full_report(Verdict::kInBand, false);
  report.tokens.oracle_steps = 9;
  EXPECT_THAT(text_report(report), HasSubstr("tokens     ok   4 of 9, the candidate ran no more;"));
  report.tokens.oracle_steps = 4;
  report.tokens.candidate_steps = 7;
  EXPECT_THAT(text_report(report), HasSubstr("tokens     ok   4 of 7, the oracle ran no more;"));
  report.tokens.candidate_steps = 4;
  EXPECT_THAT(text_report(report), HasSubstr("tokens     ok   4 of 4; smallest gap 6 ulp"));
}

TEST(TextReport, NamesTheFaultyCallItsErrorAndItsBand) {
  const std::string text = text_report(full_report(Verdict::kOps, false));
  EXPECT_THAT(text, HasSubstr("1  model.layers.3.mlp, aten::linear      first call out of band\n"));
  EXPECT_THAT(text, HasSubstr("     where      step 2 (decode), call 41, the candidate's 40, "
                              "bfloat16 [1, 1, 64]\n"));
  EXPECT_THAT(text,
              HasSubstr("     error      at least 31 % away (band 6 %; 12 % over 8 steps), by "
                        "norm, sum and extremes\n"));
  EXPECT_THAT(text, HasSubstr("     before     1,234 outputs fine, 1,000 identical; the last: "
                              "model.layers.2.mlp, aten::mul\n"));
  EXPECT_THAT(text,
              HasSubstr("     lacks      aten::add bfloat16 [1, 1, 64]: the oracle calls it"));
  EXPECT_THAT(text, HasSubstr("     adds       aten::neg view: the oracle does not"));
  EXPECT_THAT(text, HasSubstr("     after      41 later outputs out of band"));
}

TEST(TextReport, NamesTheConstantOfAStructuralDifference) {
  const std::string text = text_report(full_report(Verdict::kStructure, false));
  EXPECT_THAT(text, HasSubstr("first call with another constant\n"));
  EXPECT_THAT(text, HasSubstr("     constant   oracle 1e-06, candidate 1e-05; in 3 calls"));
}

TEST(TextReport, KeepsTheEndOfLongPathsAndBothDescriptions) {
  ReplayReport report = full_report(Verdict::kInBand, false);
  report.oracle.path = "/" + std::string(200, 'p') + "/gold.fb";
  const std::string text = text_report(report);
  EXPECT_THAT(text, HasSubstr("/gold.fb  transformers 5.24.0 eager bfloat16, torch 2.15.0, cpu\n"));
  expect_layout(text, 0);
}

TEST(TextVerify, SaysOnItsFirstLineWhatCameOfIt) {
  struct Case {
    const char* why;
    VerifyReport report;
    int exit;
    const char* headline;
    const char* row;
  };
  const Case cases[] = {
      {"reproduced", sample_verify(true, false, false), 0, "VERIFIED  every output hash reproduced",
       "outputs    90 of 90 hashes equal"},
      {"not reproduced in the same environment", sample_verify(false, false, false), 1,
       "DIVERGE  the program does not reproduce what was recorded",
       "first      call 7  model.layers.0, aten::mul: bytes differ"},
      {"the rest is reproduced", sample_not_executable(), 2,
       "UNDECIDED  not all calls can be executed again; the others reproduce",
       "lost       quantized::linear  3 calls: an argument was not stored"},
      {"out of band elsewhere", sample_verify(false, true, false), 1,
       "DIVERGE  out of band, in another environment than recorded",
       "elsewhere  torch 2.15.0 when recorded"},
      {"in band elsewhere", sample_moved(), 0,
       "VERIFIED  in band, in another environment than recorded", "moved      10 in band (6 %)"},
      {"the worst in band has a place", sample_moved(), 0, "VERIFIED  in band",
       "worst      2.4 % away    model.layers.0, aten::mul"},
      {"too many calls lost elsewhere", sample_lossy(), 2,
       "UNDECIDED  too much was lost in this environment",
       "lost       vendor::fused  10 calls: this LibTorch has no such operator"},
      {"promoted", sample_promoted(0), 0,
       "RUNS  promoted to float32: every call ran, every shape as recorded",
       "decisions  4 of 4 the same here; all taken from the trace"},
      {"promoted, another shape", sample_promoted(1), 1,
       "DIVERGE  promoted to float32, the program does not run as recorded",
       "shapes     1 outputs have another one here"},
      {"reproduced elsewhere", sample_verify(true, true, false), 0,
       "VERIFIED  every output hash reproduced", "elsewhere  torch 2.15.0 when recorded"},
      {"other weights", sample_verify(false, false, true), 1, "DIVERGE  weights: these are not",
       "weights    DIFF 2 of 12 parameters have other bytes; nothing was executed"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const std::string text = text_report(c.report);
    expect_layout(text, c.exit);
    EXPECT_TRUE(text.starts_with(c.headline)) << text;
    EXPECT_THAT(text, HasSubstr(c.row));
  }
}

TEST(TextVerify, KeepsItsLayoutWithManyFindingsInAnOddEnvironment) {
  VerifyReport report = sample_verify(false, true, false);
  report.environment.assign(40, "key\n" + std::string(200, 'v'));
  report.findings.assign(40, {7, "op\t", "scope\n" + std::string(200, 's'), 1, "what\r\xff"});
  report.worst = 1;
  report.worst_where = std::string(300, 'w');
  for (int i = 0; i < 9; ++i) report.lost["op" + std::to_string(i)] = {1, std::string(200, 'y')};
  const std::string text = text_report(report);
  expect_layout(text, 1);
  EXPECT_THAT(text, HasSubstr("  lost       and 6 more operators\n"));
  EXPECT_THAT(text, HasSubstr("  elsewhere  and 35 more (--json has them)\n"));
}

}  // namespace
}  // namespace goldentrace
