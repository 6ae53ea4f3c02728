// Numbers among a call's arguments that the code chose: eps, scales, factors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "replayer/replay.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using testing::double_node;
using testing::MadeRun;
using testing::sample_run;
using testing::TempFolder;
using testing::values_of;
using testing::write_run;

ReplayReport replay(const MadeRun& oracle, const MadeRun& candidate) {
  const TempFolder folder;
  const auto report = run_replay(
      {write_run(folder, "candidate.fb", candidate), write_run(folder, "oracle.fb", oracle)});
  if (!report.ok()) throw std::runtime_error(report.status().message());
  return *report;
}

MadeRun with_constant(const Node& node) {
  MadeRun run = sample_run();
  for (auto& step : run.steps) step[3].arguments = {node};
  return run;
}

TEST(Constants, DifferWhenTheyAreOtherNumbers) {
  struct Case {
    const char* why;
    Node want, got;
    bool differ;
  };
  const Node wrapped_two{NodeKind::kWrappedInt, 0, 2};
  const Case cases[] = {
      {"equal", double_node(1e-6), double_node(1e-6), false},
      {"another eps", double_node(1e-6), double_node(1e-5), true},
      {"rounded to float32", double_node(0.1), double_node(static_cast<double>(0.1f)), false},
      {"rounded to bfloat16 is another number", double_node(0.1), double_node(0.10009765625), true},
      {"opposite signs", double_node(1), double_node(-1), true},
      {"zero against something", double_node(0), double_node(1e-12), true},
      {"signed zeros", double_node(0.0), double_node(-0.0), false},
      {"NaN on both sides", double_node(NAN), double_node(NAN), false},
      {"the same infinity", double_node(-INFINITY), double_node(-INFINITY), false},
      {"opposite infinities", double_node(-INFINITY), double_node(INFINITY), true},
      {"NaN against a number", double_node(1), double_node(NAN), true},
      {"a large finite mask is not infinity", double_node(-INFINITY), double_node(-3.4e38), true},
      {"a Python float", double_node(0.5, NodeKind::kWrappedDouble),
       double_node(0.25, NodeKind::kWrappedDouble), true},
      {"a Python int", wrapped_two, Node{NodeKind::kWrappedInt, 0, 3}, true},
      {"an int and a float of the same value", wrapped_two, double_node(2), false},
      {"sizes and dims are no constants", Node{NodeKind::kInt, 0, 4}, Node{NodeKind::kInt, 0, 5},
       false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const ReplayReport report = replay(with_constant(c.want), with_constant(c.got));
    EXPECT_EQ(report.verdict, c.differ ? Verdict::kStructure : Verdict::kIdentical);
    EXPECT_EQ(report.ops.constants_differing, c.differ ? 3u : 0u);
  }
}

TEST(Constants, NameTheFirstCallThatHasAnother) {
  const ReplayReport report =
      replay(with_constant(double_node(1e-6)), with_constant(double_node(1e-5)));
  EXPECT_EQ(report.headline, "structure: model.layers.1 works with another constant");
  ASSERT_TRUE(report.ops.first_constant.has_value());
  EXPECT_EQ(report.ops.first_constant->call.oracle_call, 3u);
  EXPECT_EQ(report.ops.first_constant->call.op, "aten::mul");
  EXPECT_EQ(report.ops.first_constant->oracle, 1e-6);
  EXPECT_EQ(report.ops.first_constant->candidate, 1e-5);
  EXPECT_EQ(report.ops_rung.status, RungStatus::kDiff);
}

TEST(Constants, AreBlamedOnlyWhenNothingBeforeThemIsOutOfBand) {
  for (const std::size_t faulty : {1, 3, 5}) {
    SCOPED_TRACE(faulty);
    MadeRun candidate = with_constant(double_node(1e-5));
    for (double& value : values_of(candidate, 0, faulty)) value *= 3;
    const ReplayReport report = replay(with_constant(double_node(1e-6)), candidate);
    EXPECT_EQ(report.verdict, faulty < 3 ? Verdict::kOps : Verdict::kStructure);
    EXPECT_EQ(constant_comes_first(report.ops), faulty >= 3);
  }
}

// x.item() brings a number of the data to Python; where it returns as an argument it is data still.
TEST(Constants, AreNotNumbersThatCameOutOfATensor) {
  const auto with_item = [](double value, NodeKind kind) {
    MadeRun run = sample_run();
    run.steps[0][1].results = {double_node(value)};
    run.steps[0][3].arguments = {double_node(value, kind)};
    run.steps[2][3].arguments = {double_node(value, kind)};  // a later step
    return run;
  };
  for (const NodeKind kind : {NodeKind::kDouble, NodeKind::kWrappedDouble}) {
    const ReplayReport report = replay(with_item(0.71, kind), with_item(0.69, kind));
    EXPECT_EQ(report.ops.constants_differing, 0u);
    EXPECT_EQ(report.verdict, Verdict::kIdentical);
  }
}

}  // namespace
}  // namespace goldentrace
