// Calls of several threads: all there, in each thread's order, under numbers that are never reused.
#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <thread>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using testing::Recorded;
using testing::RecordedCall;
using ::testing::SizeIs;

using ThreadsTest = testing::RecordingTest;

TEST_F(ThreadsTest, TwoThreadsAtOnceKeepTheirCallsAndTheirOrder) {
  constexpr int kCalls = 3000;
  const auto work = [](double first) {
    const ModuleScope scope(first > 0 ? "up" : "down");
    at::Tensor x = at::linspace(first, first + 1, 16);
    for (int i = 1; i < kCalls; ++i) x = i % 2 == 1 ? at::mul(x, 1.0 + i) : at::add(x, -i);
  };
  const Recorded recorded = record([&] {
    std::thread one(work, 1.0);
    std::thread two(work, -1.0);
    one.join();
    two.join();
  });
  ASSERT_THAT(recorded.calls, SizeIs(2 * kCalls));
  std::map<std::uint32_t, std::vector<RecordedCall>> by_thread;
  for (const RecordedCall& call : recorded.calls) by_thread[call.timing.thread].push_back(call);
  ASSERT_THAT(by_thread, SizeIs(2));
  for (const auto& [thread, calls] : by_thread) {
    ASSERT_THAT(calls, SizeIs(kCalls));
    for (std::size_t i = 1; i < calls.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(calls[i].op, i % 2 == 1 ? "aten::mul.Scalar" : "aten::add.Scalar");
      ASSERT_EQ(calls[i].scope, calls[0].scope);
      // Each reads what the one before it made: nothing of the other thread came between.
      ASSERT_EQ(calls[i].arguments[0].value, calls[i - 1].results[0].value);
      ASSERT_GE(calls[i].timing.start_ns, calls[i - 1].timing.start_ns);
    }
  }
  EXPECT_EQ(expect_reproduced().hashes, 2u * kCalls);
}

TEST_F(ThreadsTest, NumbersOfThreadsThatComeAndGoAreNotReused) {
  const at::Tensor x = at::linspace(0, 1, 4);
  std::set<std::thread::id> ids;
  const Recorded recorded = record([&] {
    for (int i = 0; i < 20; ++i) {
      std::thread thread([&] { at::mul(x, 2); });
      ids.insert(thread.get_id());
      thread.join();
    }
  });
  std::set<std::uint32_t> numbers;
  for (const RecordedCall& call : recorded.calls) numbers.insert(call.timing.thread);
  EXPECT_THAT(numbers, SizeIs(20));
  EXPECT_LT(ids.size(), 20u) << "this system reuses no thread id: the test proves nothing";
}

TEST_F(ThreadsTest, PausingOneThreadDoesNotPauseAnother) {
  const at::Tensor x = at::linspace(0, 1, 4);
  const Recorded recorded = record([&] {
    const PauseRecording pause;
    at::add(x, 1);
    std::thread([&] { at::mul(x, 2); }).join();
  });
  EXPECT_THAT(recorded.ops(), ::testing::ElementsAre("aten::mul.Scalar"));
}

TEST_F(ThreadsTest, ThreadsHaveScopesOfTheirOwn) {
  const at::Tensor x = at::linspace(0, 1, 4);
  const Recorded recorded = record([&] {
    const ModuleScope scope("main");
    std::thread([&] { at::mul(x, 2); }).join();
    at::add(x, 1);
  });
  EXPECT_EQ(recorded.only("aten::mul.Scalar").scope, "");
  EXPECT_EQ(recorded.only("aten::add.Scalar").scope, "main");
}

}  // namespace
}  // namespace goldentrace
