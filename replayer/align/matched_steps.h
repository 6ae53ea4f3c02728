// Both sides' calls, a step at a time, and which is which.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "replayer/align/batch.h"
#include "replayer/align/step_reader.h"

namespace goldentrace {

class MatchedSteps {
 public:
  // Both must outlive this.
  MatchedSteps(const TraceReader& oracle, const TraceReader& candidate, const BatchRow& row)
      : row_(row),
        oracle_(oracle, names_, {.floats = true, .leading = row.count > 1}),
        candidate_(candidate, names_, {.floats = true, .leading = row.count > 1}) {}

  // Goes to the run of calls that holds the oracle's call `number` of `step`; true where that is
  // another than before.
  Result<bool> go_to(std::uint64_t number, std::uint32_t step);

  // The oracle's calls of this run.
  [[nodiscard]] const std::vector<StepCall>& calls() const { return want_.calls; }
  [[nodiscard]] const StepCall& oracle(std::uint64_t number) const {
    return want_.calls[static_cast<std::size_t>(number - want_.calls.front().number)];
  }
  // Null where the candidate has no such call.
  [[nodiscard]] const StepCall* candidate(std::uint64_t number) const {
    const auto found = match_.find(number);
    return found != match_.end() ? &got_.calls[found->second] : nullptr;
  }
  // How many calls of its kind its scope made before; to be asked once a call, in order.
  std::uint32_t ordinal(const StepCall& call) { return ordinals_[{call.scope, call.op}]++; }
  [[nodiscard]] const Names& names() const { return names_; }

 private:
  [[nodiscard]] bool holds_rows(const StepCall& want, const StepCall& got) const;
  [[nodiscard]] std::string_view sizes_of(const Output& output) const;
  void match_module_outputs(const std::set<std::uint32_t>& taken);

  const BatchRow row_;
  Names names_;
  StepReader oracle_;
  StepReader candidate_;
  StepCalls want_;
  StepCalls got_;
  bool started_ = false;
  bool ended_ = false;
  std::unordered_map<std::uint64_t, std::uint32_t> match_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ordinals_;
};

}  // namespace goldentrace
