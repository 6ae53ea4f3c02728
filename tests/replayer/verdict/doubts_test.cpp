// What a trace says against its own run: one row for the same thing in many places, and never more
// rows than a report has room for.
#include "replayer/verdict/doubts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/report/format.h"
#include "tests/replayer/report/sample_reports.h"

namespace goldentrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Doubts doubts(std::vector<std::string> warnings, std::vector<Counter> counters = {}) {
  Header header;
  header.warnings = std::move(warnings);
  Summary summary;
  summary.counters = std::move(counters);
  return doubts_of(header, summary);
}

Counter random_calls(std::uint64_t value, const char* first) {
  return {"calls_random", CounterSeverity::kInfo, CounterOrigin::kRecording, value, first};
}

TEST(Doubts, ASoundRunHasNone) {
  EXPECT_THAT(doubt_rows(doubts({})), IsEmpty());
  EXPECT_THAT(doubt_rows(doubts({}, {random_calls(0, "")})), IsEmpty());
  const Doubts unused = doubts({"unexpected: mtp.weight: in the checkpoint, not in the model"});
  EXPECT_THAT(doubt_rows(unused), IsEmpty()) << "information";
  EXPECT_THAT(information_rows(unused, 9),
              ElementsAre("note: unexpected: mtp.weight in the checkpoint, not in the model"));
}

TEST(Doubts, WhatIsNotPureIsNamedWithItsPlace) {
  EXPECT_THAT(doubt_rows(doubts({"impure: model.layers.0.mlp: runs kernels.SiluAndMul"})),
              ElementsAre("oracle not pure: model.layers.0.mlp runs kernels.SiluAndMul"));
}

TEST(Doubts, TheSameThingInManyPlacesIsOneRow) {
  std::vector<std::string> warnings;
  for (int layer = 0; layer < 48; ++layer) {
    const std::string path = "impure: model.layers." + std::to_string(layer);
    warnings.push_back(path + ".mlp: runs kernels.SiluAndMul");
    warnings.push_back(path + ".norm: runs kernels.RMSNorm");
    warnings.push_back(path + ".attn: runs flash_attn.func");
  }
  EXPECT_THAT(
      doubt_rows(doubts(warnings)),
      ElementsAre("oracle not pure: model.layers.0.mlp runs kernels.SiluAndMul (and 47 alike)",
                  "oracle not pure: model.layers.0.norm runs kernels.RMSNorm (and 47 alike, "
                  "48 other places)"));
}

TEST(Doubts, OnlyNumbersMakePlacesAlike) {
  const std::vector<std::string> rows =
      doubt_rows(doubts({"impure: a.0.b: x", "impure: a.0b: x", "impure: a.1.b: y"}), 9);
  EXPECT_THAT(rows, ElementsAre("oracle not pure: a.0.b x", "oracle not pure: a.0b x",
                                "oracle not pure: a.1.b y"));
}

TEST(Doubts, AWarningIsNamedByItsKind) {
  const Doubts found = doubts({"training: (root): training mode is on", "odd",
                               "initialised: lm_head.weight: the checkpoint lacks it"},
                              {random_calls(1234, "aten::native_dropout")});
  EXPECT_THAT(
      doubt_rows(found, 2, 9),
      ElementsAre("oracle warned: training: (root) training mode is on", "oracle warned: odd",
                  "oracle warned: initialised: lm_head.weight the checkpoint lacks it",
                  "oracle warned: random calls: 1,234, first aten::native_dropout"));
  EXPECT_THAT(doubt_rows(found), ElementsAre("oracle warned: training: (root) training mode is on "
                                             "(and 3 other places)"));
}

TEST(Doubts, RowsKeepTheWidthWhateverTheTraceContains) {
  const std::string nasty = testing::nasty_text();
  Doubts found;
  for (int i = 0; i < 9; ++i) {
    found.impure.push_back(nasty + std::to_string(i));
    found.warnings.push_back(nasty + ": " + nasty + ": " + nasty + std::to_string(i));
  }
  const std::vector<std::string> rows = doubt_rows(found);
  ASSERT_EQ(rows.size(), 3u);
  for (const std::string& row : rows) {
    EXPECT_LE(columns(row), kReportWidth - 2);
    EXPECT_EQ(row, printable(row));
    EXPECT_NE(row.find("oracle "), row.npos);
  }
}

}  // namespace
}  // namespace goldentrace
