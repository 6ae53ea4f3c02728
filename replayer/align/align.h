// Which call of the candidate is which call of the oracle, inside one step.
//
// Same program is the common case and costs one pass. Otherwise the calls of each module scope are
// matched by a longest common subsequence over (operator, shapes and dtypes written): inserted,
// missing and reordered calls leave their neighbours matched, and a call is never matched with one
// of another kind.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "replayer/align/step_reader.h"

namespace goldentrace {

struct Alignment {
  // Positions in the oracle's and the candidate's calls, by rising oracle position.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> matched;
  // Oracle positions of matches with unmatched calls on both sides of them in their scope: the same
  // operator and shape, but perhaps another quantity (a cast before a product, not after it).
  std::vector<std::uint32_t> uncertain;
  std::vector<std::uint32_t> only_oracle;
  std::vector<std::uint32_t> only_candidate;
};

Alignment align(const std::vector<StepCall>& oracle, const std::vector<StepCall>& candidate);

}  // namespace goldentrace
