#include "recorder/parallel.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <cstdint>

namespace goldentrace {

void run_on_intra_op_pool(std::size_t count, void (*task)(std::size_t, void*), void* context) {
  // The pool orders what the caller, the tasks and the caller again see. So does this, in words that
  // need no knowledge of the pool: it may be a library that a thread sanitizer can't look into.
  std::atomic<std::size_t> done{0};
  at::parallel_for(0, static_cast<std::int64_t>(count), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     (void)done.load(std::memory_order_acquire);
                     for (std::int64_t i = begin; i < end; ++i) {
                       task(static_cast<std::size_t>(i), context);
                     }
                     done.fetch_add(static_cast<std::size_t>(end - begin),
                                    std::memory_order_acq_rel);
                   });
  (void)done.load(std::memory_order_acquire);
}

}  // namespace goldentrace
