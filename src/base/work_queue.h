// Items that one thread of the queue's own handles in the order of pushing. Memory is bounded:
// whoever brings an item waits until there is room for it, because nothing may be dropped.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "src/base/status.h"

namespace goldentrace {

template <typename Item>
class WorkQueue {
 public:
  // What `handle` answers or throws first latches. It is called for every item all the same.
  using Handle = std::function<Status(Item&)>;

  WorkQueue(std::uint64_t max_bytes, Handle handle)
      : max_bytes_(max_bytes), handle_(std::move(handle)), thread_([this] { run(); }) {}
  ~WorkQueue() { stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Waits for room for an item of about `bytes`, which is then taken: push() or withdraw() follows.
  // An item larger than the bound passes alone. First come, first served: a large item's turn
  // comes.
  void admit(std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = waiting_++;
    changed_.wait(
        lock, [&] { return turn == admitted_ && (bytes_ == 0 || bytes_ + bytes <= max_bytes_); });
    ++admitted_;
    bytes_ += bytes;
    if (waiting_ > admitted_) changed_.notify_all();
  }
  void withdraw(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    changed_.notify_all();
  }
  // Returns the item's number, for wait(). Not after finish().
  std::uint64_t push(Item item, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(item), bytes);
    changed_.notify_all();
    return ++pushed_;
  }

  // Until item `number` and all before it are handled; the first failure so far.
  Status wait(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return handled_ >= number; });
    return status_;
  }
  // The first failure so far.
  [[nodiscard]] Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  // Handles what is queued and ends the thread; the first failure of all.
  Status finish() {
    stop();
    return status_;
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::uint64_t bytes = queue_.front().second;
      {
        Item item = std::move(queue_.front().first);
        queue_.pop_front();
        lock.unlock();
        Status status = handle(item);
        lock.lock();
        if (status_.ok()) status_ = std::move(status);
      }
      ++handled_;
      bytes_ -= bytes;
      changed_.notify_all();
    }
  }

  Status handle(Item& item) {
    try {
      return handle_(item);
    } catch (const std::bad_alloc&) {
      return {Code::kInternal, "out of memory"};  // short enough to need none
    } catch (const std::exception& error) {
      return {Code::kInternal, std::string("the writer failed: ") + error.what()};
    } catch (...) {
      return {Code::kInternal, "writer failed"};
    }
  }

  const std::uint64_t max_bytes_;
  const Handle handle_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Item, std::uint64_t>> queue_;
  std::uint64_t bytes_ = 0;     // admitted and not handled yet
  std::uint64_t waiting_ = 0;   // ever
  std::uint64_t admitted_ = 0;  // ever
  std::uint64_t pushed_ = 0;
  std::uint64_t handled_ = 0;
  bool stopping_ = false;
  Status status_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace goldentrace
