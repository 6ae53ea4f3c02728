// A device for tests: streams of copies and kernels that run, in order, on a thread of its own, and
// only once the test lets them. Its memory is the host's, which nobody but the device may touch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "src/capi/goldentrace.h"

namespace goldentrace::testing {

class SimulatedDevice {
 public:
  SimulatedDevice() {
    goldentrace_device_init(&calls_);
    calls_.context = this;
    calls_.copy = [](void* self, void* destination, const void* source, std::uint64_t bytes, void*,
                     void** ticket) {
      return static_cast<SimulatedDevice*>(self)->copy(destination, source, bytes, ticket);
    };
    calls_.done = [](void* self, void* ticket) {
      return static_cast<SimulatedDevice*>(self)->done(ticket);
    };
    thread_ = std::thread([this] { run(); });
  }
  ~SimulatedDevice() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = running_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  SimulatedDevice(const SimulatedDevice&) = delete;
  SimulatedDevice& operator=(const SimulatedDevice&) = delete;

  [[nodiscard]] const goldentrace_device* calls() const { return &calls_; }
  // Copies then go into page-locked memory of the device's.
  void use_own_memory() {
    calls_.allocate = [](void* self, std::uint64_t bytes) -> void* {
      auto* device = static_cast<SimulatedDevice*>(self);
      if (device->out_of_memory) return nullptr;
      ++device->allocated;
      return ::operator new(bytes);
    };
    calls_.release = [](void* self, void* memory) {
      --static_cast<SimulatedDevice*>(self)->allocated;
      ::operator delete(memory);
    };
  }

  // Behind what the stream has.
  void enqueue(std::function<void()> kernel) {
    const std::lock_guard lock(mutex_);
    stream_.push_back(std::move(kernel));
    changed_.notify_all();
  }
  // From now on the stream runs.
  void start() {
    const std::lock_guard lock(mutex_);
    running_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return stream_.size();
  }
  // Threads that have asked whether a copy is done.
  [[nodiscard]] std::set<std::thread::id> askers() {
    const std::lock_guard lock(mutex_);
    return askers_;
  }

  std::atomic<int> allocated = 0;
  std::atomic<bool> out_of_memory = false;
  std::atomic<int> copies_before_refusal = -1;  // -1: none is refused
  std::atomic<int> copies_before_failure = -1;

 private:
  struct Ticket {
    std::atomic<int> state = 0;
  };

  int copy(void* destination, const void* source, std::uint64_t bytes, void** ticket) {
    if (copies_before_refusal >= 0 && copies_before_refusal-- == 0) return 77;
    auto* state = new Ticket;
    *ticket = state;
    const bool fails = copies_before_failure >= 0 && copies_before_failure-- == 0;
    enqueue([=] {
      std::memcpy(destination, source, bytes);
      state->state = fails ? -1 : 1;
    });
    return 0;
  }

  int done(void* ticket) {
    auto* state = static_cast<Ticket*>(ticket);
    {
      const std::lock_guard lock(mutex_);
      askers_.insert(std::this_thread::get_id());
    }
    const int answer = state->state;
    if (answer != 0) delete state;
    return answer;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return running_ && (stopping_ || !stream_.empty()); });
      if (stream_.empty()) return;
      const auto kernel = std::move(stream_.front());
      stream_.pop_front();
      lock.unlock();
      kernel();
      lock.lock();
    }
  }

  goldentrace_device calls_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> stream_;
  std::set<std::thread::id> askers_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace goldentrace::testing
