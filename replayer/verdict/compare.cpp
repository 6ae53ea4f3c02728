#include "replayer/verdict/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "replayer/align/align.h"
#include "replayer/align/step_reader.h"
#include "replayer/band/band.h"
#include "replayer/verdict/pool.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxListed = 20;
constexpr double kSameNumber = 1e-6;
constexpr std::uint32_t kNoStep = 0xffffffff;

bool is_data(double number) { return std::bit_cast<std::int64_t>(number) == kFromDataBits; }

// Calls whose output is a sum of their inputs, so that a small enough input has no effect.
bool is_sum(const std::string& op) {
  return op.starts_with("aten::add.") || op.starts_with("aten::add_.") ||
         op.starts_with("aten::sub.") || op.starts_with("aten::sub_.");
}

std::uint64_t count_foreign(const std::vector<StepCall>& calls) {
  return static_cast<std::uint64_t>(std::ranges::count_if(calls, &StepCall::foreign));
}

class OpsComparison {
 public:
  OpsComparison(const TraceReader& oracle, const TraceReader& candidate, bool given_tokens,
                DType run_dtype, const BatchRow& row)
      : oracle_(oracle),
        candidate_(candidate),
        row_(row),
        given_tokens_(given_tokens),
        run_band_(default_band(run_dtype)),
        pools_(unit_roundoff(run_dtype)) {}

  Result<OpsReport> run(std::uint32_t last_step) {
    GOLDENTRACE_RETURN_IF_ERROR(walk(last_step, [&](const StepCalls& want, const StepCalls& got) {
      return compare_step(want, got);
    }));
    pools_.judge(report_);
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
  // Visits every step of either side, in order; a side that did not run it has no calls there.
  template <typename Visit>
  Status walk(std::uint32_t last_step, Visit visit) {
    const KeysAlike alike = {.leading = row_.count > 1};
    StepReader oracle_reader(oracle_, names_, alike);
    StepReader candidate_reader(candidate_, names_, alike);
    StepCalls want;
    StepCalls got;
    const auto advance = [](StepReader& reader, StepCalls& step) -> Status {
      const auto more = reader.next(step);
      if (!more.ok()) return more.status();
      if (!*more) step.step = kNoStep;
      return {};
    };
    GOLDENTRACE_RETURN_IF_ERROR(advance(oracle_reader, want));
    GOLDENTRACE_RETURN_IF_ERROR(advance(candidate_reader, got));
    while (true) {
      const std::uint32_t step = std::min(want.step, got.step);
      if (step == kNoStep || step > last_step) return {};
      const StepCalls no_calls{step, {}};
      const bool of_oracle = want.step == step;
      const bool of_candidate = got.step == step;
      GOLDENTRACE_RETURN_IF_ERROR(
          visit(of_oracle ? want : no_calls, of_candidate ? got : no_calls));
      if (of_oracle) GOLDENTRACE_RETURN_IF_ERROR(advance(oracle_reader, want));
      if (of_candidate) GOLDENTRACE_RETURN_IF_ERROR(advance(candidate_reader, got));
    }
  }

  Status compare_step(const StepCalls& oracle, const StepCalls& candidate) {
    const Alignment alignment = align(oracle.calls, candidate.calls);
    const std::uint64_t outputs_before = report_.outputs;
    undigested_ = 0;
    if (!oracle.calls.empty() && !candidate.calls.empty()) ++report_.steps;
    report_.oracle_calls += oracle.calls.size();
    report_.candidate_calls += candidate.calls.size();
    report_.oracle_foreign += count_foreign(oracle.calls);
    report_.candidate_foreign += count_foreign(candidate.calls);
    report_.matched += alignment.matched.size();
    step_ = oracle.step;
    ordinals_.clear();
    std::size_t next = 0;  // of the oracle's calls
    for (const auto& [left, right] : alignment.matched) {
      for (; next < left; ++next) see_unmatched(oracle.calls[next]);
      const bool certain =
          !std::binary_search(alignment.uncertain.begin(), alignment.uncertain.end(), left);
      GOLDENTRACE_RETURN_IF_ERROR(
          compare_call(oracle.calls[left], candidate.calls[right], certain));
      ++next;
    }
    for (; next < oracle.calls.size(); ++next) see_unmatched(oracle.calls[next]);
    if (undigested_ > report_.outputs - outputs_before) ++report_.bare_steps;
    note_unmatched(oracle.calls, alignment.only_oracle, report_.unmatched_oracle,
                   report_.unmatched_oracle_first);
    note_unmatched(candidate.calls, alignment.only_candidate, report_.unmatched_candidate,
                   report_.unmatched_candidate_first);
    return {};
  }

  void see_unmatched(const StepCall& call) {
    ++ordinals_[{call.scope, call.op}];
    pools_.see_unmatched(call);
  }

  Status compare_call(const StepCall& oracle, const StepCall& candidate, bool certain) {
    const std::uint32_t ordinal = ordinals_[{oracle.scope, oracle.op}]++;
    if (certain) compare_constants(oracle, candidate);
    bool differs = false;
    bool without_effect = true;
    // Equal keys: equally many, of equal shapes; but keys are hashes, and a file may be made to
    // fool.
    const std::size_t outputs = std::min(oracle.outputs.size(), candidate.outputs.size());
    for (std::size_t i = 0; i < outputs; ++i) {
      const Output& want = oracle.outputs[i];
      const auto of_row = output_of_row(candidate_, want, candidate.outputs[i], row_);
      if (!of_row.ok()) return of_row.status();
      const Output& got = *of_row;
      if (!is_real_float(want.dtype)) without_effect = false;  // it may decide by what it reads
      if (want.shape != got.shape) continue;
      if ((want.flags & got.flags & kWriteHashed) == 0) {
        if (((want.flags | got.flags) & kWriteUndefined) == 0) ++undigested_;
        continue;
      }
      const PoolKey key{step_ == 0, oracle.scope, oracle.op, ordinal, i};
      if ((want.flags & kWriteDecision) != 0) ++report_.decisions;
      ++report_.outputs;
      if (want.hash == got.hash) {
        ++report_.identical;
        pools_.add_identical(key, want, step_ > 0 && (want.flags & kWriteStats) != 0);
        continue;
      }
      differs = true;
      without_effect = false;
      CallDifference difference = describe(oracle, candidate, want);
      if (is_control(want)) {
        ++report_.decisions_differing;
        // Which token was chosen, when nothing follows from it, is for the rung of the tokens.
        const bool choice = given_tokens_ && names_.text(oracle.scope).empty();
        if (!report_.first_decision && !choice) report_.first_decision = std::move(difference);
      } else if (!certain) {
        ++report_.not_judged;
        ++report_.uncertain;
      } else {
        GOLDENTRACE_RETURN_IF_ERROR(measure(oracle, want, got, key, difference));
      }
    }
    if (differs) ++report_.differing_calls;
    pools_.finish_call(oracle, without_effect, is_sum(names_.text(oracle.op)));
    return {};
  }

  // A decision, or integers in the wake of one that differs: not arithmetic gone wrong.
  bool is_control(const Output& output) const {
    return (output.flags & kWriteDecision) != 0 ||
           (is_integral(output.dtype) && report_.first_decision.has_value());
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
      if ((std::isnan(want) && std::isnan(got)) || is_data(want) || is_data(got)) continue;
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
  Status measure(const StepCall& call, const Output& want, const Output& got, const PoolKey& key,
                 CallDifference& difference) {
    // What a run in bf16 computes in fp32 carries bf16's drift: the run's coarser dtype rules.
    difference.band = std::max(default_band(want.dtype), run_band_);
    // Where no run moved it, nothing says how far another may.
    const bool measured = want.noise.largest > 0;
    if (measured) difference.band = measured_band(double{want.noise.largest}, want.dtype);
    Distance distance;
    if (is_integral(want.dtype)) {
      difference.evidence = Evidence::kHash;
      difference.band = 0;
      distance.non_finite = true;
      distance.note = "integers that no rounding may move";
    } else if (is_real_float(want.dtype) && oracle_.has_value(want.hash) &&
               candidate_.has_value(got.hash)) {
      const auto want_bytes = oracle_.view_value(want.hash);
      if (!want_bytes.ok()) return want_bytes.status();
      const auto got_bytes = candidate_.view_value(got.hash);
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
      // What is not finite is told by stats alone.
      if (!distance.non_finite && (want.flags & got.flags & kWriteSketch) != 0) {
        difference.evidence = Evidence::kSketch;
        distance = distance_from_sketches(want.sketch, got.sketch, distance.norm);
        ++report_.by_sketch;
      }
    } else {
      ++report_.not_judged;
      ++report_.hash_only;
      return {};
    }
    if (measured) ++report_.measured_bands;
    difference.distance = distance.relative();
    difference.note = distance.note;
    pools_.add(key, difference, distance, call, want);
    return {};
  }

  // Second look, with `first` known: what was compared before it, and the calls that only one side
  // made in its module.
  void look_before_first(const StepCalls& oracle, const StepCalls& candidate) {
    const CallDifference& first = *report_.first;
    const Alignment alignment = align(oracle.calls, candidate.calls);
    step_ = oracle.step;
    const StepCall* last_want = nullptr;
    const StepCall* last_got = nullptr;
    std::size_t last_output = 0;
    for (const auto& [left, right] : alignment.matched) {
      const StepCall& want = oracle.calls[left];
      const StepCall& got = candidate.calls[right];
      if (want.number >= first.oracle_call) break;
      const std::size_t outputs = std::min(want.outputs.size(), got.outputs.size());
      for (std::size_t i = 0; i < outputs; ++i) {
        if ((want.outputs[i].flags & got.outputs[i].flags & kWriteHashed) == 0) continue;
        ++report_.compared_before_first;
        if (want.outputs[i].hash == got.outputs[i].hash) ++report_.identical_before_first;
        last_want = &want;
        last_got = &got;
        last_output = i;
      }
    }
    if (last_want != nullptr) {
      report_.last_good = describe(*last_want, *last_got, last_want->outputs[last_output]);
    }
    if (oracle.step != first.step) return;
    note_missing_modules(oracle.calls, alignment);
    note_near(oracle.calls, alignment.only_oracle, report_.missing_near);
    note_near(candidate.calls, alignment.only_candidate, report_.extra_near);
  }

  void note_missing_modules(const std::vector<StepCall>& calls, const Alignment& alignment) {
    std::set<std::string> missing;
    for (const std::uint32_t i : alignment.only_oracle) {
      if (calls[i].number < report_.first->oracle_call) missing.insert(names_.text(calls[i].scope));
    }
    for (const auto& [left, right] : alignment.matched) {
      missing.erase(names_.text(calls[left].scope));
    }
    for (const std::string& scope : missing) {  // sorted: a module comes before those inside it
      std::vector<std::string>& outermost = report_.missing_modules;
      if (outermost.empty() || !scope.starts_with(outermost.back() + ".")) {
        outermost.push_back(scope);
      }
    }
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
  const BatchRow row_;
  const bool given_tokens_;
  const double run_band_;
  Names names_;
  OpsReport report_;
  std::uint32_t step_ = 0;
  std::uint64_t undigested_ = 0;  // of this step: outputs without a digest on one side
  // How many calls of (scope, op) the oracle made so far in this step.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ordinals_;
  Pools pools_;
};

}  // namespace

Result<OpsReport> compare_ops(const TraceReader& oracle, const TraceReader& candidate,
                              std::uint32_t last_step, bool given_tokens, DType run_dtype,
                              const BatchRow& row) {
  return OpsComparison(oracle, candidate, given_tokens, run_dtype, row).run(last_step);
}

}  // namespace goldentrace
