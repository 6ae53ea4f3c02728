// What `replay trim` keeps: decided by a first reading of the program.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "replayer/tools/trim.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// The filter leaves calls out.
bool selects_calls(const CallFilter& filter);
// " scope=model.layers.0.** steps=0..1"
std::string describe(const CallFilter& filter);

// Control is kept, since nothing computes it again.
bool drops_value(const TrimOptions& options, const Call& call, const Write& write);

struct TrimPlan {
  std::uint64_t calls = 0;
  std::uint64_t kept_calls = 0;
  std::vector<std::uint64_t> last_use;  // number after the last kept call on each storage
  std::set<Hash128> values;

  // A kept call reads what it put there.
  [[nodiscard]] bool needs(const External& external) const {
    return external.storage < last_use.size() && last_use[external.storage] > external.call;
  }
};

Result<TrimPlan> make_plan(const TraceReader& trace, const TrimOptions& options,
                           const std::vector<Parameter>& parameters);

}  // namespace goldentrace
