// `replay CANDIDATE --against ORACLE`: what was compared and what came of it, as data. The text and
// the JSON report are made from this and from nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "replayer/execute/local.h"
#include "replayer/verdict/doubts.h"
#include "replayer/verdict/local_findings.h"
#include "src/base/status.h"

namespace goldentrace {

// How far a replay looks, from the cheap to the thorough.
enum class Depth : std::uint8_t {
  kTokens,  // what needs no call: inputs, weights, configuration, sampling, logits, tokens
  kBands,   // every call against its band
  kLocal,   // every call from its own inputs, where there are weights and values
};

struct ReplayOptions {
  std::string candidate;
  std::string oracle;
  // Traces that are not whole may agree as far as they go.
  bool allow_incomplete = false;
  // Another rounding than eager's, if a correct engine may round so, is a difference.
  bool strict = false;
  std::optional<Depth> depth = {};  // as far as the evidence allows
  // Where it names weights: measures the local error by `measure_local` (execute/local.h, which
  // needs Torch). The traces are those above.
  LocalOptions local = {};
  std::function<Result<LocalReport>(const LocalOptions&)> measure_local = {};
};

// Exit status of each: reports.md's table. Written to JSON by name: append only.
enum class Verdict : std::uint8_t {
  kIdentical,   // 0
  kInBand,      // 0
  kTie,         // 0: the tokens part where either is right
  kInputs,      // 1: prompt text or token ids
  kWeights,     // 1
  kConfig,      // 1
  kSampling,    // 1
  kTokens,      // 1: other greedy tokens, no call out of band
  kOps,         // 1: a call out of band
  kStructure,   // 1: another program: no call in common, or a call with another constant
  kLogits,      // 1: the logits moved out of band, no aligned call did
  kUndecided,   // 2: outputs differ, and nothing is kept that says how far
  kIncomplete,  // 2: what there is agrees, but a trace is not whole
  kRounding,    // 0, strictly 1: rounds at other points than eager does, as a correct engine may
  kRouting,     // 1: picks other experts than its own scores say
};
int exit_status(Verdict verdict, bool strict = false);
const char* verdict_name(Verdict verdict);

// One rung of the ladder, in the order of blame.
enum class RungStatus : std::uint8_t { kOk, kDiff, kTie, kNotCompared };
struct Rung {
  RungStatus status = RungStatus::kNotCompared;
  std::string text;                  // for people, one line
  std::vector<std::string> details;  // more lines; the JSON has them all
};

// How far a candidate's tensor is from the oracle's, and how that is known.
enum class Evidence : std::uint8_t {
  kHash,    // equal bytes
  kValues,  // relative L2 distance of all elements
  kStats,   // a lower bound of it, from norms, sums, extremes and counts
  kNone,    // neither side kept enough
  kSketch,  // an estimate of it, from sketches
};
const char* evidence_name(Evidence evidence);

// One aligned call whose output differs.
struct CallDifference {
  std::uint64_t oracle_call = 0;
  std::uint64_t candidate_call = 0;
  std::uint32_t step = 0;
  std::string scope;
  std::string op;
  std::string tensor;  // "bfloat16 [1, 96, 128]"
  Evidence evidence = Evidence::kNone;
  double distance = 0;  // relative L2, or its lower bound
  double pooled = 0;    // the same over all steps of this call; equal to `distance` for a prefill
  std::uint32_t pooled_steps = 1;
  double band = 0;
  std::string note;  // "NaN in 3 elements of the candidate only"
};

// A call that only one side made.
struct Unmatched {
  std::uint64_t call = 0;
  std::uint32_t step = 0;
  std::string scope;
  std::string op;
  std::string tensor;
};

// An aligned call whose numbers (eps, scale, factors) are not the oracle's.
struct ConstantDifference {
  CallDifference call;
  double oracle = 0;
  double candidate = 0;
};

struct OpsReport {
  std::uint64_t oracle_calls = 0;  // in the steps that were compared
  std::uint64_t candidate_calls = 0;
  std::uint64_t oracle_foreign = 0;  // of those: tensors that another engine gave
  std::uint64_t candidate_foreign = 0;
  std::uint64_t matched = 0;
  std::uint64_t unmatched_oracle = 0;
  std::uint64_t unmatched_candidate = 0;
  std::uint32_t steps = 0;
  std::uint32_t bare_steps = 0;  // of them; one side keeps no digest of theirs
  std::uint64_t outputs = 0;     // compared: written by matched calls, with a hash on both sides
  std::uint64_t identical = 0;
  std::uint64_t differing_calls = 0;  // matched calls with an output that is not identical
  std::uint64_t in_band = 0;          // by values or sketches
  std::uint64_t by_sketch = 0;        // differing outputs that sketches measure
  std::uint64_t measured_bands = 0;   // differing outputs whose band the oracle's trace has
  std::uint64_t not_refuted = 0;      // by stats: the lower bound is inside the band
  std::uint64_t out_of_band = 0;
  std::uint64_t not_judged = 0;  // differ, but too few elements or too little kept to judge
  std::uint64_t uncertain = 0;   // of not_judged: matched between unmatched calls
  // Out of band by themselves, but without effect: what reads them is bit-identical, or is a sum
  // that their difference is too small to move out of band.
  std::uint64_t absorbed = 0;
  // Over the band, but no call put them there: see Pools.
  std::uint64_t drifted = 0;
  std::uint64_t hash_only = 0;  // of those: neither values nor stats are kept on both sides
  std::uint64_t decisions = 0;
  std::uint64_t decisions_differing = 0;
  std::optional<CallDifference> first_decision;
  std::optional<CallDifference> first;  // out of band, in the oracle's order
  std::optional<CallDifference> worst_in_band;
  std::optional<CallDifference> last_good;  // the output compared before `first`
  std::uint64_t compared_before_first = 0;
  std::uint64_t identical_before_first = 0;
  std::uint64_t constants_differing = 0;  // calls
  std::optional<ConstantDifference> first_constant;
  std::vector<Unmatched> unmatched_oracle_first;  // the first ones of each side
  std::vector<Unmatched> unmatched_candidate_first;
  // The calls that only one side made in the module of `first`, at its step.
  std::vector<Unmatched> missing_near;
  // Modules all of whose calls before `first`, in its step, the candidate lacks; outermost ones
  // only.
  std::vector<std::string> missing_modules;
  std::vector<Unmatched> extra_near;
};

struct TokensReport {
  Rung rung;
  std::size_t compared = 0;   // steps with equal inputs and equal tokens
  std::size_t differing = 0;  // steps with equal inputs and other tokens
  std::size_t oracle_steps = 0;
  std::size_t candidate_steps = 0;
  // The last step with equal inputs, when later ones were given other tokens.
  std::optional<std::uint32_t> parted;
  bool went_on = false;  // past a difference, both fed the same token all the same
  // The first step whose tokens differ; of runs that went on, the first that is no tie.
  std::optional<std::uint32_t> first_step;
  std::int64_t position = 0;
  std::int64_t oracle_token = -1;
  std::int64_t candidate_token = -1;
  std::string oracle_piece;
  std::string candidate_piece;
  double oracle_gap_ulp = 0;  // top-2 gap of each side at that step
  double candidate_gap_ulp = 0;
  // Of the oracle, over the compared steps; NaN when none is known.
  double smallest_gap_ulp = std::numeric_limits<double>::quiet_NaN();
  std::uint32_t smallest_gap_step = 0;
};

struct Side {
  std::string path;
  std::string description;  // "transformers 5.24.0 eager bfloat16, torch 2.15.0, cpu"
  std::uint64_t calls = 0;
  std::uint64_t losses = 0;      // sum of what was counted as loss or error while recording
  std::string calibration = {};  // what its bands were measured from
  std::map<std::string, std::string> modules = {};  // path: class
  Doubts doubts = {};
};
class TraceReader;
Side describe_side(const TraceReader& trace);

struct ReplayReport {
  Verdict verdict = Verdict::kIdentical;
  std::string headline;
  Side oracle;
  Side candidate;
  Rung inputs;
  Rung weights;
  Rung config;
  Rung structure;
  Rung sampling;
  Rung logits;
  TokensReport tokens;
  Rung ops_rung;
  OpsReport ops;
  // By re-execution; judges in place of the default bands where it was measured.
  std::optional<LocalReport> local;
  std::vector<LocalFinding> findings;
  std::int64_t longest_position = 0;
  bool strict = false;

  [[nodiscard]] int exit() const { return exit_status(verdict, strict); }
};

// A call works with another constant, and no call before it is out of band: that is the finding
// then.
bool constant_comes_first(const OpsReport& ops);

// One side has nothing but tensors that another engine gave, or none at all, and no call is found
// in both: that says nothing about either.
bool calls_are_apart(const OpsReport& ops);

// Of several candidates: 1 when one diverges, else 2 when there is no answer for one.
int exit_status(std::span<const ReplayReport> candidates);

// Not ok (exit status 2) when a trace can't be read or the two are not comparable at all.
Result<ReplayReport> run_replay(const ReplayOptions& options);

}  // namespace goldentrace
