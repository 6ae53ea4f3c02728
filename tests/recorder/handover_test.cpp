// The lock-free queue between recording and writing.
#include "recorder/handover.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace goldentrace {
namespace {

using Queue = Handover<std::unique_ptr<int>, 4>;

std::vector<int> take_all(Queue& queue) {
  std::vector<int> taken;
  while (auto* item = queue.take()) {
    taken.push_back(**item);
    item->reset();
    queue.finish();
  }
  return taken;
}

TEST(Handover, KeepsTheOrderOfManyMoreItemsThanSlots) {
  Queue queue(1000);
  auto taken = std::async(std::launch::async, [&] { return take_all(queue); });
  std::vector<int> brought;
  for (int i = 0; i < 20000; ++i) {
    queue.bring(std::make_unique<int>(i), 1 + i % 7);
    brought.push_back(i);
  }
  queue.end();
  EXPECT_EQ(taken.get(), brought);
}

TEST(Handover, EndsAtOnceWhereNothingWasBrought) {
  Queue queue(10);
  auto taken = std::async(std::launch::async, [&] { return take_all(queue); });
  queue.end();
  EXPECT_TRUE(taken.get().empty());
}

// Nothing is dropped, and no more bytes wait than the bound says.
TEST(Handover, WaitsForRoom) {
  Queue queue(100);
  std::atomic<int> brought{0};
  std::thread bringer([&] {
    for (int i = 0; i < 3; ++i) {
      queue.bring(std::make_unique<int>(i), 60);
      ++brought;
    }
    queue.end();
  });
  while (brought == 0) std::this_thread::yield();
  EXPECT_EQ(brought, 1) << "two of 60 are more than 100";
  ASSERT_EQ(**queue.take(), 0);
  EXPECT_EQ(brought, 1) << "what is being written is still there";
  queue.finish();
  ASSERT_EQ(**queue.take(), 1);
  queue.finish();
  ASSERT_EQ(**queue.take(), 2);
  queue.finish();
  EXPECT_EQ(queue.take(), nullptr);
  bringer.join();
}

TEST(Handover, AnItemLargerThanTheBoundPassesAlone) {
  Queue queue(10);
  queue.bring(std::make_unique<int>(1), 1000);
  ASSERT_EQ(**queue.take(), 1);
  queue.finish();
  queue.bring(std::make_unique<int>(2), 5);
  ASSERT_EQ(**queue.take(), 2);
}

}  // namespace
}  // namespace goldentrace
