// Promises of a recording as a whole: every call, nothing but the calls, and nothing disturbed.
#include "recorder/recorder.h"

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Recorded;
using testing::same_bits;

using RecorderTest = testing::RecordingTest;

// With torch's own checks compiled in (no NDEBUG) most calls would be lost: trap 1.
TEST_F(RecorderTest, HundredCallsMadeAreHundredCallsRecorded) {
  const at::Tensor x = at::linspace(-1, 1, 12).reshape({3, 4});
  const Recorded recorded = record([&] {
    at::Tensor y = x;
    for (int i = 0; i < 100; ++i) y = at::tanh(y);
  });
  EXPECT_EQ(recorded.calls.size(), 100u);
  EXPECT_EQ(recorded.trace->summary().calls, 100u);
  EXPECT_EQ(recorded.counter("recorder_errors"), 0u);
  EXPECT_EQ(expect_reproduced().hashes, 100u);
}

TEST_F(RecorderTest, CallsInsideACallAreNotRecorded) {
  const at::Tensor x = at::ones({2, 3});
  const at::Tensor weight = at::ones({4, 3});
  const Recorded recorded = record([&] { at::linear(x, weight); });
  EXPECT_THAT(recorded.ops(), ElementsAre("aten::linear"));
  expect_reproduced();
}

// Kernels such as transposed convolution call the dispatcher from the threads of a parallel loop.
TEST_F(RecorderTest, CallsOfAKernelsWorkerThreadsAreNotRecorded) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const at::Tensor image = at::linspace(-1, 1, 8 * 2 * 6 * 6, at::kDouble).reshape({8, 2, 6, 6});
  const at::Tensor weight = at::linspace(-1, 1, 2 * 3 * 3 * 3, at::kDouble).reshape({2, 3, 3, 3});
  const Recorded recorded = record([&] { at::conv_transpose2d(image, weight); });
  EXPECT_THAT(recorded.ops(), ElementsAre("aten::conv_transpose2d.input"));
  expect_reproduced();
  at::set_num_threads(threads);
}

TEST_F(RecorderTest, AnEmptyRecordingIsAWholeTrace) {
  const Recorded recorded = record([] {});
  EXPECT_TRUE(recorded.calls.empty());
  EXPECT_EQ(expect_reproduced().calls, 0u);
}

TEST_F(RecorderTest, RefusesASecondStartAndLeavesTheFileOfTheFirstAlone) {
  record([&] {
    at::ones({2}).add_(1);
    const auto second = Recorder::start({.path = trace_path()});
    EXPECT_EQ(second.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(second.status().message(), HasSubstr("running already"));
  });
  EXPECT_EQ(expect_reproduced().calls, 2u);
}

TEST_F(RecorderTest, RefusesAFolderThatDoesNotExistByName) {
  const auto recorder = Recorder::start({.path = folder().file("none/x.fb")});
  ASSERT_FALSE(recorder.ok());
  EXPECT_THAT(recorder.status().message(), HasSubstr("none/x.fb"));
  record([] { at::ones({1}); });  // and nothing is left running
}

TEST_F(RecorderTest, PausedCallsAreNotRecordedAndPausesNest) {
  const Recorded recorded = record([] {
    const at::Tensor x = at::ones({2});
    {
      const PauseRecording outer;
      x.add(1);
      { const PauseRecording inner; }
      x.add(2);
    }
    x.mul(3);
  });
  EXPECT_THAT(recorded.ops(), ElementsAre("aten::ones", "aten::mul.Scalar"));
}

TEST_F(RecorderTest, WhatAPausedCallMadeIsAnInputOfTheProgram) {
  const Recorded recorded = record([] {
    at::Tensor x;
    {
      const PauseRecording pause;
      x = at::arange(4, at::kFloat);
    }
    x.mul(3);
  });
  EXPECT_EQ(recorded.counter("external_inputs"), 1u);
  expect_reproduced();
}

TEST_F(RecorderTest, AnExceptionInsideACallPassesIsRecordedAndRecordingGoesOn) {
  const at::Tensor x = at::ones({2, 3});
  const Recorded recorded = record([&] {
    EXPECT_THROW(at::matmul(x, x), c10::Error);
    at::relu(x);
  });
  ASSERT_THAT(recorded.ops(), ElementsAre("aten::matmul", "aten::relu"));
  EXPECT_EQ(recorded.calls[0].call.flags & kCallFailed, kCallFailed);
  EXPECT_EQ(recorded.calls[0].call.results, 0);
  EXPECT_EQ(recorded.calls[1].call.flags & kCallFailed, 0);
  EXPECT_EQ(recorded.counter("calls_failed"), 1u);
  EXPECT_EQ(expect_reproduced().threw_when_recorded, 1u);
}

TEST_F(RecorderTest, AFailedInPlaceCallLeavesItsTargetUnknown) {
  const at::Tensor x = at::full({4}, 2.0);
  const at::Tensor longer = at::ones({3});
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(x, 2);
    EXPECT_THROW(y.add_(longer), c10::Error);
    at::mul(y, 2);
  });
  EXPECT_TRUE(recorded.calls.at(1).writes.empty());
  expect_reproduced();
}

TEST_F(RecorderTest, AForcedFaultLeavesResultsAloneAndStopNamesTheCall) {
  const at::Tensor x = at::linspace(-1, 1, 12).reshape({3, 4});
  const at::Tensor weight = at::linspace(0, 1, 16).reshape({4, 4});
  const auto model = [&] {
    at::Tensor y = x;
    for (int i = 0; i < 6; ++i) y = at::linear(y, weight).relu().add_(0.25);
    return y;
  };
  const at::Tensor want = model();
  auto recorder = Recorder::start({.path = trace_path(), .fail_at_call = 4});
  ASSERT_TRUE(recorder.ok());
  const at::Tensor got = model();
  const Status stopped = (*recorder)->stop();
  EXPECT_TRUE(same_bits(got, want));
  EXPECT_EQ(stopped.code(), Code::kInternal);
  EXPECT_THAT(stopped.message(), AllOf(HasSubstr("not whole"), HasSubstr("call 4")));
  EXPECT_EQ((*recorder)->summary().counter("recorder_errors"), 1u);
  EXPECT_EQ((*recorder)->summary().calls, 17u);  // one lost, and none of its inner calls instead
}

TEST_F(RecorderTest, StopTellsThatTheDiskIsFull) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  auto recorder = Recorder::start({.path = "/dev/full"});
  if (recorder.ok()) {
    EXPECT_TRUE(same_bits(at::ones({2}).add(1), at::full({2}, 2.0)));
    EXPECT_EQ((*recorder)->stop().code(), Code::kIo);
  } else {
    EXPECT_EQ(recorder.status().code(), Code::kIo);
  }
}

// ---- frames without an operator: trap 2
// -----------------------------------------------------------

TEST_F(RecorderTest, AFrameWithoutAnOperatorDoesNotHideTheCallsInside) {
  const Recorded recorded = record([] {
    const at::Tensor x = at::ones({2});
    {
      at::RecordFunction guard(at::RecordScope::FUNCTION);
      if (guard.isActive()) guard.before("a compiled region");
      x.add(1);
      x.mul(2);
    }
    x.neg();
  });
  EXPECT_THAT(recorded.ops(),
              ElementsAre("aten::ones", "aten::add.Scalar", "aten::mul.Scalar", "aten::neg"));
  expect_reproduced();
}

TEST_F(RecorderTest, AFrameThatSpansStartAndStopDoesNoHarm) {
  const at::Tensor x = at::ones({2});
  at::RecordFunction outer(at::RecordScope::FUNCTION);
  if (outer.isActive()) outer.before("outside");
  const Recorded recorded = record([&] { x.add(1); });
  EXPECT_THAT(recorded.ops(), ElementsAre("aten::add.Scalar"));
}

// ---- processes: trap 16
// ---------------------------------------------------------------------------

TEST_F(RecorderTest, AForkedChildRecordsNothingAndCanNotSpoilTheTrace) {
  auto recorder = Recorder::start({.path = trace_path()});
  ASSERT_TRUE(recorder.ok());
  const at::Tensor x = at::ones({2});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    x.add(1);
    const bool stopped = (*recorder)->stop().ok();
    recorder->reset();
    ::_exit(stopped ? 0 : 1);
  }
  int answer = -1;
  ASSERT_EQ(::waitpid(child, &answer, 0), child);
  EXPECT_EQ(answer, 0);
  x.mul(2);
  const Status stopped = (*recorder)->stop();
  ASSERT_TRUE(stopped.ok()) << stopped.message();
  EXPECT_THAT(testing::read_trace(trace_path()).ops(),
              ElementsAre("aten::ones", "aten::mul.Scalar"));
}

}  // namespace
}  // namespace goldentrace
