#include "replayer/execute/allocation_limit.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>

namespace goldentrace {
namespace {

// A weight or a prefill's activations, page by page of 4 KiB, cost more to get than to compute.
void ask_for_large_pages(void* memory, std::size_t bytes) {
  constexpr std::size_t kPage = 2u << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kPage * kPage;
  if (bytes < kPage || end <= begin) return;
  // Only advice: where it is not taken, nothing is lost.
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// Large blocks that were given back. The next call, layer or step wants blocks of the very same
// sizes, and the system clears every page that it hands out.
class Blocks {
 public:
  // Never destroyed: tensors may live longer than anything else.
  static Blocks& all() {
    static Blocks* const blocks = new Blocks;
    return *blocks;
  }

  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(bytes);
    if (found == free_.end()) return nullptr;
    void* const block = found->second;
    free_.erase(found);
    kept_ -= bytes;
    return block;
  }
  void lend(void* block, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[block] = bytes;
  }
  static void give_back(void* block) { all().put(block); }
  void clear() {
    const std::lock_guard lock(mutex_);
    for (const auto& [bytes, block] : free_) {
      sizes_.erase(block);
      c10::free_cpu(block);
    }
    free_.clear();
    kept_ = 0;
  }

 private:
  static constexpr std::size_t kMost = 256u << 20;  // bytes that are kept

  void put(void* block) {
    const std::lock_guard lock(mutex_);
    const auto known = sizes_.find(block);
    if (known != sizes_.end() && kept_ + known->second <= kMost) {
      free_.emplace(known->second, block);
      kept_ += known->second;
      return;
    }
    if (known != sizes_.end()) sizes_.erase(known);
    c10::free_cpu(block);
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;  // of large blocks
  std::multimap<std::size_t, void*> free_;        // by size
  std::size_t kept_ = 0;
};

constexpr std::size_t kLarge = 64u << 10;

}  // namespace

AllocationLimit::AllocationLimit()
    : real_(c10::GetCPUAllocator()), limit_(std::numeric_limits<std::size_t>::max()) {
  c10::SetCPUAllocator(this);
}

AllocationLimit::~AllocationLimit() {
  c10::SetCPUAllocator(real_);
  Blocks::all().clear();
}

c10::DataPtr AllocationLimit::allocate(std::size_t bytes) {
  TORCH_CHECK(bytes <= limit_, "asks for ", bytes, " bytes, far more than when recorded");
  void* memory = bytes < kLarge ? nullptr : Blocks::all().take(bytes);
  if (memory == nullptr && bytes > 0) {
    memory = c10::alloc_cpu(bytes);
    if (bytes >= kLarge) {
      ask_for_large_pages(memory, bytes);
      Blocks::all().lend(memory, bytes);
    }
  }
  return {memory, memory, &Blocks::give_back, c10::Device(c10::DeviceType::CPU)};
}

c10::DeleterFnPtr AllocationLimit::raw_deleter() const { return &Blocks::give_back; }

}  // namespace goldentrace
