#include "replayer/verdict/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "replayer/align/align.h"
#include "replayer/align/step_reader.h"
#include "replayer/band/band.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxListed = 20;
constexpr double kSameNumber = 1e-6;

// One output of one call of the model's code, over all decode steps; a prefill is a pool of its
// own.
struct Pool {
  double band = 0;
  PooledDistance distance;
  std::uint32_t steps = 0;
  std::uint64_t by_values = 0;  // outputs
  std::uint64_t by_stats = 0;
  std::uint64_t beyond_by_values = 0;  // of those, outputs whose own distance is over the band
  std::uint64_t beyond_by_stats = 0;
  std::optional<CallDifference> first_beyond;
  std::optional<CallDifference> worst;
};

// Prefill or not, scope, op, which of the scope's calls of that op, which output.
using PoolKey = std::tuple<bool, std::uint32_t, std::uint32_t, std::uint32_t, std::size_t>;

class OpsComparison {
 public:
  OpsComparison(const TraceReader& oracle, const TraceReader& candidate)
      : oracle_(oracle),
        candidate_(candidate),
        run_band_(std::max(run_band(oracle.header()), run_band(candidate.header()))) {}

  Result<OpsReport> run(std::uint32_t last_step) {
    GOLDENTRACE_RETURN_IF_ERROR(walk(last_step, [&](const StepCalls& want, const StepCalls& got) {
      return compare_step(want, got);
    }));
    judge_pools();
    if (report_.first) {
      // Now that it is known which call is first, what lay before it is counted.
      GOLDENTRACE_RETURN_IF_ERROR(
          walk(report_.first->step, [&](const StepCalls& want, const StepCalls& got) {
            look_before_first(want, got);
            return Status();
          }));
    }
    return std::move(report_);
  }

 private:
  // Visits the steps that both sides ran, with their calls, and counts those only the oracle ran.
  template <typename Visit>
  Status walk(std::uint32_t last_step, Visit visit) {
    StepReader oracle_reader(oracle_, names_);
    StepReader candidate_reader(candidate_, names_);
    StepCalls want;
    StepCalls got;
    StepCalls no_calls;
    bool candidate_has = true;
    bool started = false;
    while (true) {
      const auto more = oracle_reader.next(want);
      if (!more.ok()) return more.status();
      if (!*more || want.step > last_step) return {};
      // A step that only one side ran must not put the later ones out of step.
      while (candidate_has && (!started || got.step < want.step)) {
        started = true;
        const auto other = candidate_reader.next(got);
        if (!other.ok()) return other.status();
        candidate_has = *other;
      }
      const bool both = candidate_has && got.step == want.step;
      no_calls.step = want.step;
      GOLDENTRACE_RETURN_IF_ERROR(visit(want, both ? got : no_calls));
    }
  }

  Status compare_step(const StepCalls& oracle, const StepCalls& candidate) {
    const Alignment alignment = align(oracle.calls, candidate.calls);
    if (!candidate.calls.empty()) ++report_.steps;
    report_.oracle_calls += oracle.calls.size();
    report_.candidate_calls += candidate.calls.size();
    report_.matched += alignment.matched.size();
    step_ = oracle.step;
    ordinals_.clear();
    std::uint32_t next = 0;
    for (const auto& [left, right] : alignment.matched) {
      for (; next < left; ++next) ++ordinals_[{oracle.calls[next].scope, oracle.calls[next].op}];
      GOLDENTRACE_RETURN_IF_ERROR(compare_call(oracle.calls[left], candidate.calls[right]));
    }
    note_unmatched(oracle.calls, alignment.only_oracle, report_.unmatched_oracle,
                   report_.unmatched_oracle_first);
    note_unmatched(candidate.calls, alignment.only_candidate, report_.unmatched_candidate,
                   report_.unmatched_candidate_first);
    return {};
  }

  Status compare_call(const StepCall& oracle, const StepCall& candidate) {
    const std::uint32_t ordinal = ordinals_[{oracle.scope, oracle.op}];
    compare_constants(oracle, candidate);
    bool differs = false;
    // Equal keys: equally many, of equal shapes; but keys are hashes, and a file may be made to fool.
    const std::size_t outputs = std::min(oracle.outputs.size(), candidate.outputs.size());
    for (std::size_t i = 0; i < outputs; ++i) {
      const Output& want = oracle.outputs[i];
      const Output& got = candidate.outputs[i];
      if (want.shape != got.shape) continue;
      if ((want.flags & got.flags & kWriteHashed) == 0) continue;
      const bool decision = (want.flags & kWriteDecision) != 0;
      if (decision) ++report_.decisions;
      ++report_.outputs;
      if (want.hash == got.hash) {
        ++report_.identical;
        continue;
      }
      differs = true;
      CallDifference difference = describe(oracle, candidate, want);
      if (decision) {
        ++report_.decisions_differing;
        if (!report_.first_decision) report_.first_decision = std::move(difference);
        continue;
      }
      GOLDENTRACE_RETURN_IF_ERROR(measure(
          want, got, pools_[{step_ == 0, oracle.scope, oracle.op, ordinal, i}], difference));
    }
    if (differs) ++report_.differing_calls;
    return {};
  }

  void compare_constants(const StepCall& oracle, const StepCall& candidate) {
    if (oracle.constants.size() != candidate.constants.size()) return;
    for (std::size_t i = 0; i < oracle.constants.size(); ++i) {
      const double want = oracle.constants[i];
      const double got = candidate.constants[i];
      // The same number written in float32 is the same number.
      const bool close =
          std::isfinite(want) && std::fabs(got - want) <= kSameNumber * std::fabs(want);
      if (want == got || close) continue;
      if (std::isnan(want) && std::isnan(got)) continue;
      ++report_.constants_differing;
      if (!report_.first_constant) {
        ConstantDifference difference{{}, want, got};
        difference.call = describe(oracle, candidate);
        report_.first_constant = std::move(difference);
      }
      return;
    }
  }

  // Measures one differing output, as well as the evidence allows, and adds it to its pool.
  Status measure(const Output& want, const Output& got, Pool& pool, CallDifference& difference) {
    // What a run in bf16 computes in fp32 carries bf16's drift: the run's coarser dtype rules.
    difference.band = std::max(default_band(want.dtype), run_band_);
    Distance distance;
    if (is_integral(want.dtype)) {
      difference.evidence = Evidence::kHash;
      difference.band = 0;
      distance.non_finite = true;
      distance.note = "integers that no rounding may move";
    } else if (is_real_float(want.dtype) && oracle_.has_value(want.hash) &&
               candidate_.has_value(got.hash)) {
      const auto want_bytes = oracle_.value(want.hash);
      if (!want_bytes.ok()) return want_bytes.status();
      const auto got_bytes = candidate_.value(got.hash);
      if (!got_bytes.ok()) return got_bytes.status();
      if (want_bytes->size() != want.elements * item_size(want.dtype) ||
          want_bytes->size() != got_bytes->size()) {
        return {Code::kCorrupt, candidate_.name() + ": value " + to_hex(got.hash) +
                                    " has another size than its tensor"};
      }
      difference.evidence = Evidence::kValues;
      distance = distance_from_values(want.dtype, *want_bytes, *got_bytes);
    } else if ((want.flags & got.flags & kWriteStats) != 0) {
      difference.evidence = Evidence::kStats;
      distance = distance_from_stats(want.stats, got.stats);
    } else {
      ++report_.not_judged;
      ++report_.hash_only;
      return {};
    }
    difference.distance = distance.relative();
    difference.note = distance.note;
    add(difference, distance, want.elements, pool);
    return {};
  }

  static void add(const CallDifference& difference, const Distance& distance,
                  std::uint64_t elements, Pool& pool) {
    pool.band = difference.band;
    pool.distance.add(distance, elements);
    ++pool.steps;
    const bool stats = difference.evidence == Evidence::kStats;
    ++(stats ? pool.by_stats : pool.by_values);
    // Not in band, rather than over it: stats that are not numbers are no agreement.
    if (distance.non_finite || !(difference.distance <= difference.band)) {
      ++(stats ? pool.beyond_by_stats : pool.beyond_by_values);
      if (!pool.first_beyond) pool.first_beyond = difference;
    }
    if (!pool.worst || difference.distance > pool.worst->distance) pool.worst = difference;
  }

  void judge_pools() {
    for (auto& [key, pool] : pools_) {
      if (pool.steps == 0) continue;
      const std::uint64_t outputs = pool.by_values + pool.by_stats;
      if (!pool.distance.judged()) {
        report_.not_judged += outputs;
        continue;
      }
      const auto pooled = [&](CallDifference difference) {
        difference.pooled = pool.distance.relative();
        difference.pooled_steps = pool.steps;
        return difference;
      };
      if (pool.distance.in_band(pool.band)) {
        report_.in_band += pool.by_values;
        report_.not_refuted += pool.by_stats;
        const CallDifference worst = pooled(*pool.worst);
        if (!report_.worst_in_band || worst.pooled > report_.worst_in_band->pooled) {
          report_.worst_in_band = worst;
        }
        continue;
      }
      report_.out_of_band += pool.beyond_by_values + pool.beyond_by_stats;
      report_.in_band += pool.by_values - pool.beyond_by_values;
      report_.not_refuted += pool.by_stats - pool.beyond_by_stats;
      // Rounding alone can put a pool over the band with no output over it.
      const CallDifference& first = pool.first_beyond ? *pool.first_beyond : *pool.worst;
      if (!report_.first || first.oracle_call < report_.first->oracle_call) {
        report_.first = pooled(first);
      }
    }
  }

  // Second look, with `first` known: what was compared before it, and the calls that only one side
  // made in its module.
  void look_before_first(const StepCalls& oracle, const StepCalls& candidate) {
    const CallDifference& first = *report_.first;
    const Alignment alignment = align(oracle.calls, candidate.calls);
    step_ = oracle.step;
    for (const auto& [left, right] : alignment.matched) {
      const StepCall& want = oracle.calls[left];
      const StepCall& got = candidate.calls[right];
      if (want.number >= first.oracle_call) break;
      const std::size_t outputs = std::min(want.outputs.size(), got.outputs.size());
      for (std::size_t i = 0; i < outputs; ++i) {
        if ((want.outputs[i].flags & got.outputs[i].flags & kWriteHashed) == 0) continue;
        ++report_.compared_before_first;
        if (want.outputs[i].hash == got.outputs[i].hash) ++report_.identical_before_first;
        report_.last_good = describe(want, got, want.outputs[i]);
      }
    }
    if (oracle.step != first.step) return;
    note_near(oracle.calls, alignment.only_oracle, report_.missing_near);
    note_near(candidate.calls, alignment.only_candidate, report_.extra_near);
  }

  CallDifference describe(const StepCall& oracle, const StepCall& candidate,
                          const Output& output) const {
    CallDifference difference = describe(oracle, candidate);
    difference.tensor = names_.text(output.shape);
    return difference;
  }

  CallDifference describe(const StepCall& oracle, const StepCall& candidate) const {
    CallDifference difference;
    difference.oracle_call = oracle.number;
    difference.candidate_call = candidate.number;
    difference.step = step_;
    difference.scope = names_.text(oracle.scope);
    difference.op = names_.text(oracle.op);
    return difference;
  }

  Unmatched describe(const StepCall& call) const {
    return {call.number, step_, names_.text(call.scope), names_.text(call.op),
            call.outputs.empty() ? "view" : names_.text(call.outputs.front().shape)};
  }

  void note_unmatched(const std::vector<StepCall>& calls, const std::vector<std::uint32_t>& only,
                      std::uint64_t& count, std::vector<Unmatched>& listed) {
    count += only.size();
    for (const std::uint32_t i : only) {
      if (listed.size() >= kMaxListed) return;
      listed.push_back(describe(calls[i]));
    }
  }

  void note_near(const std::vector<StepCall>& calls, const std::vector<std::uint32_t>& only,
                 std::vector<Unmatched>& near) {
    for (const std::uint32_t i : only) {
      if (names_.text(calls[i].scope) == report_.first->scope) near.push_back(describe(calls[i]));
    }
  }

  const TraceReader& oracle_;
  const TraceReader& candidate_;
  const double run_band_;
  Names names_;
  OpsReport report_;
  std::uint32_t step_ = 0;
  // How many calls of (scope, op) the oracle made so far in this step.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ordinals_;
  std::map<PoolKey, Pool> pools_;
};

}  // namespace

double run_band(const Header& header) {
  return default_band(dtype_from_name(header.dtype).value_or(DType::kBFloat16));
}

Result<OpsReport> compare_ops(const TraceReader& oracle, const TraceReader& candidate,
                              std::uint32_t last_step) {
  return OpsComparison(oracle, candidate).run(last_step);
}

}  // namespace goldentrace
