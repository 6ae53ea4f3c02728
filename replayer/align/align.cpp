#include "replayer/align/align.h"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace goldentrace {
namespace {

using Positions = std::vector<std::uint32_t>;
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// A table of this many cells takes 16 MiB; a scope with more calls than that is cut where it is.
constexpr std::size_t kMaxCells = 4u << 20;

// Longest common subsequence of the keys at `left` and `right`, appended to `pairs`; those between
// the equal beginning and the equal end are `uncertain` too.
void match_sequences(const std::vector<StepCall>& oracle, const std::vector<StepCall>& candidate,
                     std::span<const std::uint32_t> left, std::span<const std::uint32_t> right,
                     Pairs& pairs, Positions& uncertain) {
  const auto same = [&](std::size_t i, std::size_t j) {
    return oracle[left[i]].key == candidate[right[j]].key;
  };
  // Equal beginnings and ends, which are most of it, need no table.
  std::size_t head = 0;
  while (head < left.size() && head < right.size() && same(head, head)) {
    pairs.emplace_back(left[head], right[head]);
    ++head;
  }
  std::size_t tail = 0;
  while (head + tail < left.size() && head + tail < right.size() &&
         same(left.size() - 1 - tail, right.size() - 1 - tail)) {
    ++tail;
    pairs.emplace_back(left[left.size() - tail], right[right.size() - tail]);
  }
  std::size_t rows = left.size() - head - tail;
  std::size_t columns = right.size() - head - tail;
  if (rows == 0 || columns == 0) return;
  if (rows > kMaxCells / columns) {
    rows = std::min(rows, std::size_t{2048});
    columns = std::min(columns, std::size_t{2048});
  }
  // length[i][j]: of the common subsequence of the rows from i and the columns from j.
  std::vector<std::uint32_t> length((rows + 1) * (columns + 1), 0);
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& {
    return length[i * (columns + 1) + j];
  };
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      at(i, j) =
          same(head + i, head + j) ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    }
  }
  for (std::size_t i = 0, j = 0; i < rows && j < columns;) {
    if (same(head + i, head + j)) {
      uncertain.push_back(left[head + i]);
      pairs.emplace_back(left[head + i++], right[head + j++]);
    } else if (at(i + 1, j) >= at(i, j + 1)) {
      ++i;
    } else {
      ++j;
    }
  }
}

std::unordered_map<std::uint32_t, Positions> by_scope(const std::vector<StepCall>& calls) {
  std::unordered_map<std::uint32_t, Positions> scopes;
  for (std::uint32_t i = 0; i < calls.size(); ++i) scopes[calls[i].scope].push_back(i);
  return scopes;
}

bool same_program(const std::vector<StepCall>& oracle, const std::vector<StepCall>& candidate) {
  return std::equal(oracle.begin(), oracle.end(), candidate.begin(), candidate.end(),
                    [](const StepCall& left, const StepCall& right) {
                      return left.scope == right.scope && left.key == right.key;
                    });
}

Positions left_over(std::size_t count, const std::vector<bool>& used) {
  Positions rest;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!used[i]) rest.push_back(i);
  }
  return rest;
}

}  // namespace

Alignment align(const std::vector<StepCall>& oracle, const std::vector<StepCall>& candidate) {
  Alignment alignment;
  if (same_program(oracle, candidate)) {
    for (std::uint32_t i = 0; i < oracle.size(); ++i) alignment.matched.emplace_back(i, i);
    return alignment;
  }
  const auto candidate_scopes = by_scope(candidate);
  for (const auto& [scope, left] : by_scope(oracle)) {
    const auto right = candidate_scopes.find(scope);
    if (right == candidate_scopes.end()) continue;
    match_sequences(oracle, candidate, left, right->second, alignment.matched, alignment.uncertain);
  }
  std::sort(alignment.uncertain.begin(), alignment.uncertain.end());
  std::sort(alignment.matched.begin(), alignment.matched.end());
  std::vector<bool> oracle_used(oracle.size(), false);
  std::vector<bool> candidate_used(candidate.size(), false);
  for (const auto& [left, right] : alignment.matched) {
    oracle_used[left] = true;
    candidate_used[right] = true;
  }
  alignment.only_oracle = left_over(oracle.size(), oracle_used);
  alignment.only_candidate = left_over(candidate.size(), candidate_used);
  return alignment;
}

}  // namespace goldentrace
