// The differing outputs of a replay, gathered into pools and judged at the end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "replayer/align/step_reader.h"
#include "replayer/band/band.h"
#include "replayer/replay.h"

namespace goldentrace {

// Prefill or not, scope, op, which of the scope's calls of that op, which output: one output of one
// call of the model's code. All its decode steps are one pool; a prefill is a pool of its own.
using PoolKey = std::tuple<bool, std::uint32_t, std::uint32_t, std::uint32_t, std::size_t>;

// Gathers outputs in the order of the oracle's calls, then judges.
//
// An output over its band is held back until it is known who reads it: when everything that does is
// bit-identical, or is a sum that its difference moves by less than one rounding, it is *absorbed*
// and no finding (a state that has decayed to 1e-19 is 13 % away and adds nothing to what it is
// added to).
//
// A fault is made by a call: it takes inputs that are close and gives an output that is not. So a
// pool over the band is out of band when one of its outputs is at least kJump times as far away as
// the farthest thing that its call read, or when it is far over (PooledDistance::kSingleLimit times
// the band). Otherwise rounding has *drifted* over the band, through calls that each do no harm.
class Pools {
 public:
  // `roundoff`: unit roundoff of the run's dtype, which sums are measured by.
  explicit Pools(double roundoff) : roundoff_(roundoff) {}

  static constexpr double kJump = 2;

  // One differing output of the matched call `call`, measured.
  void add(const PoolKey& key, const CallDifference& difference, const Distance& distance,
           const StepCall& call, const Output& want);
  // `pooled`: its norm counts in its pool.
  void add_identical(const PoolKey& key, const Output& want, bool pooled);
  // The matched call `want` was compared; its differing outputs, if any, were added before.
  // `identical`: all its outputs are, and are floats. `sum`: it adds or subtracts.
  void finish_call(const StepCall& want, bool identical, bool sum);
  // A call of the oracle that has no match: what it reads counts as having an effect.
  void see_unmatched(const StepCall& call);

  // Counts and findings into `report`.
  void judge(OpsReport& report);

 private:
  struct Pool {
    double band = 0;
    PooledDistance distance;
    std::uint32_t steps = 0;      // all
    std::uint64_t by_values = 0;  // differing outputs, by evidence
    std::uint64_t by_stats = 0;
    std::uint64_t over = 0;  // of them, outputs over the band that are not absorbed
    std::uint64_t over_by_stats = 0;
    bool jumped = false;
    std::optional<CallDifference> first_over;
    std::optional<CallDifference> worst;
  };
  using Range = std::pair<std::size_t, std::size_t>;  // of overs_: begin, end
  // An output over its band.
  struct Over {
    PoolKey key;
    CallDifference difference;
    Distance distance;
    std::uint64_t elements = 0;
    bool jump = false;
    bool read = false;
    bool effect = false;       // some reader is moved by it, or can't be told
    std::vector<Range> heirs;  // outputs over their bands that were made from it, a range a call
  };

  static void count(Pool& pool, const CallDifference& difference, const Distance& distance,
                    std::uint64_t elements);
  void settle_overs(OpsReport& report);

  const double roundoff_;
  std::map<PoolKey, Pool> pools_;
  std::vector<Over> overs_;
  std::unordered_map<std::uint32_t, std::size_t> over_of_storage_;  // the latest one
  std::unordered_map<std::uint32_t, double> distance_of_storage_;   // of what differs in it
  std::size_t overs_before_call_ = 0;
};

}  // namespace goldentrace
