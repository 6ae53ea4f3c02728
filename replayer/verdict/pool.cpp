#include "replayer/verdict/pool.h"

#include <algorithm>
#include <cmath>

namespace goldentrace {
namespace {

// Not "over": stats that are not numbers are no agreement.
bool in_band(const CallDifference& difference, const Distance& distance) {
  return !distance.non_finite && difference.distance <= difference.band;
}

double norm_of(const Output& output) {
  return (output.flags & kWriteStats) != 0 ? std::sqrt(output.stats.sum_squares) : 0;
}

}  // namespace

void Pools::add(const PoolKey& key, const CallDifference& difference, const Distance& distance,
                const StepCall& call, const Output& want) {
  double farthest_read = 0;
  for (const std::uint32_t storage : call.reads) {
    const auto found = distance_of_storage_.find(storage);
    if (found != distance_of_storage_.end()) farthest_read = std::max(farthest_read, found->second);
  }
  distance_of_storage_[want.storage] = difference.distance;
  Pool& pool = pools_[key];
  pool.band = std::max(pool.band, difference.band);
  ++pool.steps;
  ++(difference.evidence == Evidence::kStats ? pool.by_stats : pool.by_values);
  if (in_band(difference, distance)) {
    count(pool, difference, distance, want.elements);
    return;
  }
  over_of_storage_[want.storage] = overs_.size();
  const bool jump = distance.non_finite || !(difference.distance < kJump * farthest_read);
  overs_.push_back({key, difference, distance, want.elements, jump, false, false, {}});
}

void Pools::add_identical(const PoolKey& key, const Output& want, bool pooled) {
  distance_of_storage_.erase(want.storage);
  if (!pooled) return;
  Pool& pool = pools_[key];
  ++pool.steps;
  pool.distance.add_identical(norm_of(want), want.elements);
}

void Pools::count(Pool& pool, const CallDifference& difference, const Distance& distance,
                  std::uint64_t elements) {
  pool.distance.add(distance, elements);
  if (!pool.worst || difference.distance > pool.worst->distance) pool.worst = difference;
}

void Pools::finish_call(const StepCall& want, bool identical, bool sum) {
  if (!want.outputs.empty() && !over_of_storage_.empty()) {
    for (const std::uint32_t storage : want.reads) {
      const auto found = over_of_storage_.find(storage);
      if (found == over_of_storage_.end()) continue;
      Over& over = overs_[found->second];
      // An in-place call's own output, just added, is not its reader.
      if (over.difference.oracle_call == want.number) continue;
      over.read = true;
      const Output& output = want.outputs.front();
      const bool outweighed = sum && norm_of(output) > 0 && !over.distance.non_finite &&
                              over.distance.difference <= roundoff_ * norm_of(output);
      if (identical || outweighed) continue;
      const Range of_call{overs_before_call_, overs_.size()};
      if (of_call.first == of_call.second) {
        over.effect = true;  // in band, but moved
      } else if (over.heirs.empty() || over.heirs.back() != of_call) {
        over.heirs.push_back(of_call);
      }
    }
    // Memory that was written over holds another quantity now.
    for (const Output& output : want.outputs) {
      const auto found = over_of_storage_.find(output.storage);
      if (found != over_of_storage_.end() &&
          overs_[found->second].difference.oracle_call != want.number) {
        over_of_storage_.erase(found);
      }
    }
  }
  overs_before_call_ = overs_.size();
}

void Pools::see_unmatched(const StepCall& call) {
  if (call.outputs.empty()) return;
  for (const std::uint32_t storage : call.reads) {
    const auto found = over_of_storage_.find(storage);
    if (found != over_of_storage_.end()) overs_[found->second].effect = true;
  }
}

// Readers come after what they read, so that going backwards every heir is settled first.
void Pools::settle_overs(OpsReport& report) {
  std::vector<bool> absorbed(overs_.size(), false);
  std::vector<std::size_t> next_kept(overs_.size() + 1,
                                     overs_.size());  // i or the next not absorbed
  for (std::size_t i = overs_.size(); i-- > 0;) {
    const Over& over = overs_[i];
    absorbed[i] = over.read && !over.effect &&
                  std::all_of(over.heirs.begin(), over.heirs.end(), [&](const Range& heirs) {
                    return next_kept[heirs.first] >= heirs.second;
                  });
    next_kept[i] = absorbed[i] ? next_kept[i + 1] : i;
  }
  for (std::size_t i = 0; i < overs_.size(); ++i) {
    const Over& over = overs_[i];
    Pool& pool = pools_[over.key];
    if (absorbed[i]) {
      ++report.absorbed;
      --(over.difference.evidence == Evidence::kStats ? pool.by_stats : pool.by_values);
      continue;
    }
    count(pool, over.difference, over.distance, over.elements);
    ++pool.over;
    pool.jumped |= over.jump;
    if (over.difference.evidence == Evidence::kStats) ++pool.over_by_stats;
    if (!pool.first_over) pool.first_over = over.difference;
  }
}

void Pools::judge(OpsReport& report) {
  settle_overs(report);
  for (auto& entry : pools_) {
    Pool& pool = entry.second;
    const std::uint64_t outputs = pool.by_values + pool.by_stats;
    if (outputs == 0) continue;
    if (!pool.distance.judged()) {
      report.not_judged += outputs;
      continue;
    }
    const auto pooled = [&](CallDifference difference) {
      difference.pooled = pool.distance.relative();
      difference.pooled_steps = pool.steps;
      return difference;
    };
    if (pool.distance.in_band(pool.band)) {
      report.in_band += pool.by_values;
      report.not_refuted += pool.by_stats;
      const CallDifference worst = pooled(*pool.worst);
      if (!report.worst_in_band || worst.pooled > report.worst_in_band->pooled) {
        report.worst_in_band = worst;
      }
      continue;
    }
    if (!pool.jumped && pool.distance.in_band(PooledDistance::kSingleLimit * pool.band)) {
      report.drifted += outputs;
      continue;
    }
    report.out_of_band += pool.over;
    report.not_refuted += pool.by_stats - pool.over_by_stats;
    report.in_band += pool.by_values - (pool.over - pool.over_by_stats);
    // Rounding alone can put a pool over the band with no output over it.
    const CallDifference& first = pool.first_over ? *pool.first_over : *pool.worst;
    if (!report.first || first.oracle_call < report.first->oracle_call) {
      report.first = pooled(first);
    }
  }
}

}  // namespace goldentrace
