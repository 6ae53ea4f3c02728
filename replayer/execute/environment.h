// What calls run under besides their arguments: settings of process and thread, and how much memory
// one of them may ask for. Shared by all interpreters of one execution.
#pragma once

#include <memory>

#include "replayer/execute/allocation_limit.h"
#include "replayer/execute/promotion.h"
#include "src/event/program.h"

namespace goldentrace {

// Changes threads, default dtype and so on to those recorded, call by call; puts them back when it
// goes: execution may be one step of a longer program.
class Environment {
 public:
  Environment();
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  void apply(const Ambient& ambient, Promotion promotion);
  void limit_allocations(std::size_t bytes) { allocations_.set(bytes); }

 private:
  struct Settings;  // as found

  std::unique_ptr<Settings> found_;
  AllocationLimit allocations_;
  Ambient applied_;  // when known_
  Promotion promotion_ = Promotion::kNone;
  bool known_ = false;
};

}  // namespace goldentrace
