// Finds numbers by 64-bit hashes: what a map's key is lives with its owner, who says which of the
// numbers with an equal hash is meant. Open addressing with linear probing; one cache line is read
// as a rule, and nothing is allocated but when it doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace goldentrace {

// A good hash of a few words: `seed` is the hash so far.
constexpr std::uint64_t mix_hash(std::uint64_t seed, std::uint64_t word) {
  std::uint64_t z = (seed ^ word) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93u;
  return z ^ (z >> 29);
}

class FlatIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  FlatIndex() : slots_(kFirstSize) {}

  // The number with this hash for which `same(number)` is true; kNone when there is none.
  template <typename Same>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, Same same) const {
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.number == kNone) return kNone;
      if (slot.hash == hash && same(slot.number)) return slot.number;
    }
  }

  // Below kNone, and not there yet under this hash.
  void insert(std::uint64_t hash, std::uint32_t number) {
    if (2 * ++size_ > slots_.size()) grow();
    place({hash, number});
  }

  // Does nothing when it isn't there.
  void erase(std::uint64_t hash, std::uint32_t number) {
    std::size_t hole = hash & mask();
    while (slots_[hole].number != number) {
      if (slots_[hole].number == kNone) return;
      hole = (hole + 1) & mask();
    }
    --size_;
    // What was pushed past the hole moves back, so that no search stops there.
    for (std::size_t at = (hole + 1) & mask(); slots_[at].number != kNone; at = (at + 1) & mask()) {
      const std::size_t home = slots_[at].hash & mask();
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = {};
  }

  void clear() {
    slots_.assign(slots_.size(), {});
    size_ = 0;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kFirstSize = 64;  // a power of two, as all sizes
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t number = kNone;
  };

  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }

  void place(Slot slot) {
    std::size_t at = slot.hash & mask();
    while (slots_[at].number != kNone) at = (at + 1) & mask();
    slots_[at] = slot;
  }

  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    for (const Slot& slot : old) {
      if (slot.number != kNone) place(slot);
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace goldentrace
