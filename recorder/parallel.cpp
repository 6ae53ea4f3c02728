#include "recorder/parallel.h"

#include <ATen/Parallel.h>

#include <cstdint>

namespace goldentrace {

void run_on_intra_op_pool(std::size_t count, void (*task)(std::size_t, void*), void* context) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       task(static_cast<std::size_t>(i), context);
                     }
                   });
}

}  // namespace goldentrace
