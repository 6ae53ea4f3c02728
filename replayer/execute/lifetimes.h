// Which storages are needed no more after a call, so that memory is given back.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "replayer/execute/memory.h"
#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Of every storage of a program, the last call that touches it.
class Lifetimes {
 public:
  // Reads the whole program once.
  static Result<Lifetimes> read(const TraceReader& trace);

  // Storages that no later call touches, handed to `release`. Calls in rising order.
  template <typename Release>
  void release_after(std::uint64_t call, Release release) {
    for (; next_ < ends_.size() && ends_[next_].first <= call; ++next_) {
      release(ends_[next_].second);
    }
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> ends_;  // call, storage
  std::size_t next_ = 0;
};

}  // namespace goldentrace
