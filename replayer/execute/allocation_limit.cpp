#include "replayer/execute/allocation_limit.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cstdint>
#include <limits>

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

}  // namespace

AllocationLimit::AllocationLimit()
    : real_(c10::GetCPUAllocator()), limit_(std::numeric_limits<std::size_t>::max()) {
  c10::SetCPUAllocator(this);
}

AllocationLimit::~AllocationLimit() { c10::SetCPUAllocator(real_); }

c10::DataPtr AllocationLimit::allocate(std::size_t bytes) {
  TORCH_CHECK(bytes <= limit_, "asks for ", bytes, " bytes, far more than when recorded");
  c10::DataPtr memory = real_->allocate(bytes);
  ask_for_large_pages(memory.get(), bytes);
  return memory;
}

}  // namespace goldentrace
