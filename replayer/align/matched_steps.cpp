#include "replayer/align/matched_steps.h"

#include <algorithm>

#include "replayer/align/align.h"

namespace goldentrace {

Result<bool> MatchedSteps::go_to(std::uint64_t number, std::uint32_t step) {
  if (!want_.calls.empty() && number <= want_.calls.back().number) return false;
  const auto more = oracle_.next(want_);
  if (!more.ok()) return more.status();
  match_.clear();
  ordinals_.clear();
  while (!ended_ && (!started_ || got_.step < step)) {
    const auto another = candidate_.next(got_);
    if (!another.ok()) return another.status();
    started_ = true;
    ended_ = !*another;
  }
  if (ended_ || got_.step != step) return true;
  const Alignment alignment = align(want_.calls, got_.calls);
  std::set<std::uint32_t> taken;  // of the candidate's calls
  for (const auto& [left, right] : alignment.matched) {
    if (std::ranges::binary_search(alignment.uncertain, left) ||
        !holds_rows(want_.calls[left], got_.calls[right])) {
      continue;
    }
    match_[want_.calls[left].number] = right;
    taken.insert(right);
  }
  match_module_outputs(taken);
  return true;
}

bool MatchedSteps::holds_rows(const StepCall& want, const StepCall& got) const {
  return std::ranges::equal(
      want.outputs, got.outputs,
      [&](const Output& mine, const Output& theirs) { return holds_row(mine, theirs, row_); });
}

// "[1, 96, 128]" of "bfloat16 [1, 96, 128]".
std::string_view MatchedSteps::sizes_of(const Output& output) const {
  const std::string_view shape = names_.text(output.shape);
  return shape.substr(shape.find(' '));
}

// A module that computes the same by other calls, or by one more: what each side wrote last in it
// is its result, whatever else matches.
void MatchedSteps::match_module_outputs(const std::set<std::uint32_t>& taken) {
  const auto last_of = [](const std::vector<StepCall>& calls) {
    std::unordered_map<std::uint32_t, std::uint32_t> last;  // by scope
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (!calls[i].outputs.empty()) last[calls[i].scope] = i;
    }
    return last;
  };
  const auto of_candidate = last_of(got_.calls);
  for (const auto& [scope, left] : last_of(want_.calls)) {
    const auto right = of_candidate.find(scope);
    if (right == of_candidate.end() || names_.text(scope).empty()) continue;
    const StepCall& want = want_.calls[left];
    const StepCall& got = got_.calls[right->second];
    if (taken.contains(right->second)) continue;
    if (want.outputs.size() == 1 && got.outputs.size() == 1 &&
        is_real_float(want.outputs[0].dtype) && is_real_float(got.outputs[0].dtype) &&
        (row_.count > 1 ? holds_row(want.outputs[0], got.outputs[0], row_)
                        : sizes_of(want.outputs[0]) == sizes_of(got.outputs[0]))) {
      match_[want.number] = right->second;
    }
  }
}

}  // namespace goldentrace
