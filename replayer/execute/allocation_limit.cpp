#include "replayer/execute/allocation_limit.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <limits>

namespace goldentrace {

AllocationLimit::AllocationLimit()
    : real_(c10::GetCPUAllocator()), limit_(std::numeric_limits<std::size_t>::max()) {
  c10::SetCPUAllocator(this);
}

AllocationLimit::~AllocationLimit() { c10::SetCPUAllocator(real_); }

c10::DataPtr AllocationLimit::allocate(std::size_t bytes) {
  TORCH_CHECK(bytes <= limit_, "asks for ", bytes, " bytes, far more than when recorded");
  return real_->allocate(bytes);
}

}  // namespace goldentrace
