// While a call is executed again, no single allocation may be far larger than what the call had
// when it was recorded: a size that was computed from bytes that are not those recorded could ask
// for any amount, and get it until the machine is out of memory.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace goldentrace {

// In place of the process's CPU allocator for as long as it lives. Blocks that it gave outlive it.
// Large ones that were given back are kept for the next request of their size.
class AllocationLimit final : public c10::Allocator {
 public:
  AllocationLimit();
  ~AllocationLimit() override;
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

  // Requests over `bytes` throw c10::Error from now on.
  void set(std::size_t bytes) { limit_ = bytes; }

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t count) const override {
    real_->copy_data(to, from, count);
  }

 private:
  c10::Allocator* real_;
  std::size_t limit_;
};

}  // namespace goldentrace
