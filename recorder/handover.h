// Hands items from the recording threads to the writer thread without a lock, in order, and hands
// emptied ones back. One thread brings items at a time (the session's mutex sees to it), one takes.
// Memory is bounded: who brings an item waits until there is room, because nothing may be dropped.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace goldentrace {

template <typename Item, std::size_t kSlots = 64>
class Handover {
 public:
  explicit Handover(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // `bytes` is the item's rough size. An item larger than the bound passes alone.
  void bring(Item item, std::uint64_t bytes) {
    const std::uint64_t place = brought_.load(std::memory_order_relaxed);
    for (std::uint64_t done = done_.load(std::memory_order_acquire); !has_room(place, done, bytes);
         done = done_.load(std::memory_order_acquire)) {
      done_.wait(done, std::memory_order_acquire);
    }
    Slot& slot = slots_[place % kSlots];
    slot.item = std::move(item);
    slot.bytes = bytes;
    brought_bytes_ += bytes;
    brought_.store(place + 1, std::memory_order_release);
    brought_.notify_one();
  }
  // Nothing is brought after it.
  void end() {
    // Whoever waits for the next item waits for this number to change.
    brought_.fetch_add(kEnd, std::memory_order_release);
    brought_.notify_one();
  }

  // The next item, in its slot, or null after the last one. finish() follows.
  Item* take() {
    const std::uint64_t place = done_.load(std::memory_order_relaxed);
    std::uint64_t brought = brought_.load(std::memory_order_acquire);
    while (brought == place) {
      brought_.wait(brought, std::memory_order_acquire);
      brought = brought_.load(std::memory_order_acquire);
    }
    if (brought % kEnd == place) return nullptr;
    return &slots_[place % kSlots].item;
  }
  void finish() {
    const std::uint64_t place = done_.load(std::memory_order_relaxed);
    done_bytes_.fetch_add(slots_[place % kSlots].bytes, std::memory_order_relaxed);
    done_.store(place + 1, std::memory_order_release);
    done_.notify_one();
  }

 private:
  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 62;
  struct Slot {
    Item item;
    std::uint64_t bytes = 0;
  };

  [[nodiscard]] bool has_room(std::uint64_t place, std::uint64_t done, std::uint64_t bytes) const {
    if (place == done) return true;
    const std::uint64_t queued = brought_bytes_ - done_bytes_.load(std::memory_order_relaxed);
    return place - done < kSlots && queued + bytes <= max_bytes_;
  }

  const std::uint64_t max_bytes_;
  std::array<Slot, kSlots> slots_{};
  alignas(64) std::atomic<std::uint64_t> brought_{0};
  std::uint64_t brought_bytes_ = 0;  // of the bringing side
  alignas(64) std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> done_bytes_{0};
};

}  // namespace goldentrace
