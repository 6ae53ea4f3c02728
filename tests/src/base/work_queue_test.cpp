// Items are handled in order, on another thread, within the bound; failures latch.
#include "src/base/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

namespace goldentrace {
namespace {

TEST(WorkQueue, HandlesItemsInOrderOnAThreadOfItsOwn) {
  std::vector<int> handled;
  std::thread::id handler;
  WorkQueue<int> queue(100, [&](int& item) {
    handled.push_back(item);
    handler = std::this_thread::get_id();
    return Status();
  });
  for (int i = 0; i < 50; ++i) {
    queue.admit(10);
    EXPECT_EQ(queue.push(i, 10), static_cast<std::uint64_t>(i + 1));
  }
  EXPECT_TRUE(queue.finish().ok());
  ASSERT_EQ(handled.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(handled[static_cast<std::size_t>(i)], i);
  EXPECT_NE(handler, std::this_thread::get_id());
}

TEST(WorkQueue, WaitsForRoom) {
  std::promise<void> gate;
  std::atomic<bool> handled = false;
  WorkQueue<int> queue(100, [&, open = gate.get_future().share()](int&) {
    open.wait();
    handled = true;
    return Status();
  });
  queue.admit(1000);  // larger than the bound: passes alone
  (void)queue.push(1, 1000);
  gate.set_value();
  queue.admit(1);
  EXPECT_TRUE(handled) << "admitted before there was room";
  queue.withdraw(1);
  EXPECT_TRUE(queue.finish().ok());
}

TEST(WorkQueue, TheFirstFailureLatchesAndLaterItemsAreHandledAllTheSame) {
  int handled = 0;
  WorkQueue<int> queue(100, [&](int& item) -> Status {
    ++handled;
    if (item == 2) throw std::runtime_error("boom");
    return item < 2 ? Status() : Status(Code::kIo, "later");
  });
  std::uint64_t number = 0;
  for (int i = 0; i < 4; ++i) {
    queue.admit(1);
    number = queue.push(i, 1);
  }
  const Status status = queue.wait(number);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(status.message(), "the writer failed: boom");
  EXPECT_EQ(queue.status().message(), status.message());
  EXPECT_EQ(queue.finish().message(), status.message());
  EXPECT_EQ(handled, 4);
}

}  // namespace
}  // namespace goldentrace
