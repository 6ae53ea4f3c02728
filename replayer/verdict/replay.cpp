// run_replay: reads both traces, climbs the ladder, and decides.
#include "replayer/replay.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "replayer/band/band.h"
#include "replayer/band/run_dtype.h"
#include "replayer/report/format.h"
#include "replayer/verdict/compare.h"
#include "replayer/verdict/ladder.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

Side describe_side(const TraceReader& trace) {
  const Header& header = trace.header();
  Side side;
  side.path = trace.name();
  side.description = header.engine;
  for (const std::string& part :
       {header.engine_version, header.environment_value("attention"), header.dtype}) {
    if (!part.empty()) side.description += " " + part;
  }
  const std::string& torch = header.environment_value("torch");
  for (const std::string& part : {torch.empty() ? torch : "torch " + torch, header.device}) {
    if (!part.empty()) side.description += ", " + part;
  }
  side.calls = trace.summary().calls;
  for (const auto& [path, implementation] : header.modules) {
    side.modules[path] = implementation.substr(0, implementation.find(' '));
  }
  side.calibration = header.environment_value("calibration");
  side.doubts = doubts_of(header, trace.summary());
  for (const Counter& counter : trace.summary().counters) {
    if (counter.origin != CounterOrigin::kRecording) continue;
    if (counter.severity != CounterSeverity::kInfo) side.losses += counter.value;
  }
  return side;
}

namespace {

constexpr std::uint32_t kLastStep = 0xffffffff;

void decide_ops(ReplayReport& report) {
  const OpsReport& ops = report.ops;
  std::string steps = std::to_string(ops.steps) + (ops.steps == 1 ? " step" : " steps");
  if (ops.bare_steps > 0) steps = std::to_string(ops.steps - ops.bare_steps) + " of " + steps;
  report.ops_rung.text = grouped(ops.outputs) + " outputs compared (" + steps + "), " +
                         grouped(ops.identical) + " identical, " + grouped(ops.out_of_band) +
                         " out of band";
  const bool constants = ops.constants_differing > 0;
  if (constants) {
    report.ops_rung.text += ", " + grouped(ops.constants_differing) + " with other constants";
  }
  if (calls_are_apart(ops)) {
    report.ops_rung.text = "another engine's tensors are not aligned by call (" +
                           grouped(ops.oracle_calls) + " against " + grouped(ops.candidate_calls) +
                           ")";
  }
  if (ops.outputs == 0) {
    report.ops_rung.status = RungStatus::kNotCompared;
  } else {
    report.ops_rung.status = ops.out_of_band > 0 || constants ? RungStatus::kDiff : RungStatus::kOk;
  }
}

std::string module_name(const std::string& scope) {
  return scope.empty() ? "the code outside every module" : scope;
}

bool decision_comes_first(const OpsReport& ops) {
  return ops.first_decision && ops.first_decision->oracle_call < ops.first->oracle_call;
}

// Every call is in band from its own inputs, and the candidate took its own best token in every
// step: where that is another than the oracle's, rounding has piled up to it.
bool rounding_decides(const ReplayReport& report, const Text& candidate) {
  if (!report.local || report.local->compared == 0 || !report.local->misrouted.empty())
    return false;
  return std::ranges::all_of(candidate.steps, [](const Step& step) {
    return !step.top_ids.empty() && step.top_ids.front() == step.chosen;
  });
}

// No rung differs: how much agreement may be claimed. Nothing is claimed of what was not compared.
void decide_agreement(ReplayReport& report) {
  const OpsReport& ops = report.ops;
  const std::uint64_t unmatched = ops.unmatched_oracle + ops.unmatched_candidate;
  std::string how = "in band";
  report.verdict = Verdict::kInBand;
  if (ops.outputs == 0) {
    how = "no call compared";
  } else if (ops.identical == ops.outputs && unmatched == 0) {
    report.verdict = Verdict::kIdentical;
    how = "bit-identical";
  } else if (ops.identical == ops.outputs) {
    how = "bit-identical where compared";
  } else if (ops.hash_only > 0 && ops.in_band + ops.not_refuted == 0) {
    report.verdict = Verdict::kUndecided;
    how = "outputs differ, and hashes alone can't say how far";
  } else if (ops.not_refuted > 0 && !(report.local && report.local->compared > 0)) {
    how = "in band as far as stats tell";
  }
  const TokensReport& tokens = report.tokens;
  how += tokens.compared > 0 ? ", greedy tokens identical" : ", tokens not compared";
  const std::size_t steps = std::max(tokens.oracle_steps, tokens.candidate_steps);
  if (tokens.compared > 0 && tokens.compared < steps) {
    how += " in " + std::to_string(tokens.compared) + " of " + std::to_string(steps) + " steps";
  }
  report.headline = how;
  if (!report.findings.empty()) {  // none is a fault, or there would be no agreement
    report.verdict = Verdict::kRounding;
    report.headline = "rounding policy: " + module_name(report.findings.front().module) +
                      " rounds at other points than eager, as it may; " + how;
  }
}

bool has_local_fault(const ReplayReport& report) {
  return !report.findings.empty() && report.findings.front().zone == Zone::kFault;
}

std::string other_faults(const ReplayReport& report) {
  const auto faults = std::ranges::count(report.findings, Zone::kFault, &LocalFinding::zone);
  if (faults < 2) return {};
  return ", and " + std::to_string(faults - 1) + " more " + (faults == 2 ? "finding" : "findings");
}

// The first rung that differs names the verdict; nobody is blamed below it.
void decide(ReplayReport& report) {
  const OpsReport& ops = report.ops;
  const auto differs = [](const Rung& rung) { return rung.status == RungStatus::kDiff; };
  if (differs(report.inputs)) {
    report.verdict = Verdict::kInputs;
    report.headline = "inputs: the two runs were given other prompts";
  } else if (differs(report.weights)) {
    report.verdict = Verdict::kWeights;
    report.headline = "weights: parameters are not the oracle's";
  } else if (differs(report.config)) {
    report.verdict = Verdict::kConfig;
    report.headline = "configuration: the models are set up differently";
  } else if (differs(report.structure)) {
    report.verdict = Verdict::kStructure;
    report.headline = "structure: other modules, first " + report.structure.details.front();
  } else if (differs(report.sampling)) {
    report.verdict = Verdict::kSampling;
    report.headline = "sampling: the tokens were chosen by other rules";
  } else if (constant_comes_first(ops)) {
    report.verdict = Verdict::kStructure;
    report.headline = "structure: " + module_name(ops.first_constant->call.scope) +
                      " works with another constant";
  } else if (has_local_fault(report)) {
    report.verdict = Verdict::kOps;
    report.headline = "kernel: " + module_name(report.findings.front().module) +
                      " computes something else" + other_faults(report);
  } else if (report.local && !report.local->misrouted.empty()) {
    report.verdict = Verdict::kRouting;
    report.headline = "routing: " + module_name(report.local->misrouted.begin()->first) +
                      " picks others than its own scores say";
  } else if (!report.local && ops.first && decision_comes_first(ops)) {
    report.verdict = Verdict::kUndecided;
    report.headline = "a decision in " + module_name(ops.first_decision->scope) +
                      " differs before any call is out of band";
  } else if (!report.local && ops.first) {
    report.verdict = Verdict::kOps;
    // A lower bound may pass by the call that is wrong; then a later one is the first to show.
    report.headline = "kernel: " + module_name(ops.first->scope) +
                      (ops.first->evidence == Evidence::kStats ? " differs first, by stats"
                                                               : " computes something else");
  } else if (ops.matched == 0 && ops.oracle_calls > 0 && !calls_are_apart(ops)) {
    report.verdict = Verdict::kStructure;
    report.headline = "structure: no call of one program is found in the other";
  } else if (differs(report.logits)) {
    report.verdict = Verdict::kLogits;
    report.headline = "logits: out of band, though every aligned call is in band";
  } else if (differs(report.tokens.rung)) {
    report.verdict = Verdict::kTokens;
    report.headline = report.tokens.went_on ? "tokens: greedy decoding would take another token"
                                            : "tokens: greedy decoding took another token";
  } else if (report.tokens.rung.status == RungStatus::kTie) {
    report.verdict = Verdict::kTie;
    const std::string step = std::to_string(*report.tokens.first_step);
    report.headline =
        report.tokens.went_on
            ? "along the same tokens the choices differ only at ties, first in step " + step
            : "up to step " + step + ", where the texts part at a tie: either token is right";
  } else {
    decide_agreement(report);
  }
}

// Part of a run agrees with part of another: that is no agreement of the runs.
void refuse_incomplete(ReplayReport& report) {
  const bool oracle = !report.oracle.doubts.incomplete.empty();
  const bool candidate = !report.candidate.doubts.incomplete.empty();
  if (exit_status(report.verdict) != 0 || !(oracle || candidate)) return;
  report.verdict = Verdict::kIncomplete;
  report.headline = std::string(oracle && candidate ? "neither trace is whole"
                                : oracle            ? "the oracle's trace is not whole"
                                                    : "the candidate's trace is not whole") +
                    "; what there is: " + report.headline;
}

}  // namespace

int exit_status(Verdict verdict, bool strict) {
  switch (verdict) {
    case Verdict::kRounding:
      return strict ? 1 : 0;
    case Verdict::kIdentical:
    case Verdict::kInBand:
    case Verdict::kTie:
      return 0;
    case Verdict::kUndecided:
    case Verdict::kIncomplete:
      return 2;
    default:
      return 1;
  }
}

int exit_status(std::span<const ReplayReport> candidates) {
  int worst = 0;
  for (const ReplayReport& report : candidates) {
    const int status = report.exit();
    if (status == 1 || (status == 2 && worst == 0)) worst = status;
  }
  return worst;
}

bool constant_comes_first(const OpsReport& ops) {
  return ops.first_constant &&
         (!ops.first || ops.first_constant->call.oracle_call <= ops.first->oracle_call);
}

bool calls_are_apart(const OpsReport& ops) {
  return ops.matched == 0 && ops.oracle_calls + ops.candidate_calls > 0 &&
         (ops.oracle_foreign == ops.oracle_calls || ops.candidate_foreign == ops.candidate_calls);
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical:
      return "identical";
    case Verdict::kInBand:
      return "in_band";
    case Verdict::kTie:
      return "tie";
    case Verdict::kInputs:
      return "inputs_differ";
    case Verdict::kWeights:
      return "weights_differ";
    case Verdict::kConfig:
      return "config_differs";
    case Verdict::kSampling:
      return "sampling_differs";
    case Verdict::kTokens:
      return "tokens_differ";
    case Verdict::kOps:
      return "ops_out_of_band";
    case Verdict::kStructure:
      return "structure_differs";
    case Verdict::kLogits:
      return "logits_differ";
    case Verdict::kUndecided:
      return "cannot_distinguish";
    case Verdict::kIncomplete:
      return "incomplete";
    case Verdict::kRounding:
      return "rounding_policy";
    case Verdict::kRouting:
      return "routing_differs";
  }
  return "unknown";
}

const char* evidence_name(Evidence evidence) {
  switch (evidence) {
    case Evidence::kHash:
      return "hash";
    case Evidence::kValues:
      return "values";
    case Evidence::kSketch:
      return "sketch";
    case Evidence::kStats:
      return "stats";
    case Evidence::kNone:
      break;
  }
  return "none";
}

namespace {

// What the ladder needs of one side.
struct Loaded {
  std::unique_ptr<TraceReader> trace;
  Text text;
  std::vector<Parameter> parameters;
};

Result<Loaded> load(const std::string& path) {
  Loaded side;
  auto trace = TraceReader::open(path);
  if (!trace.ok()) return trace.status();
  side.trace = std::move(*trace);
  // A program that lacks calls in its midst would be blamed for what the recorder did.
  if (side.trace->summary().counter("recorder_errors") > 0) {
    return Status(Code::kCorrupt,
                  path + ": the program is not whole: " + incompleteness(side.trace->summary()));
  }
  auto text = side.trace->text();
  if (!text.ok()) return text.status();
  side.text = std::move(*text);
  auto parameters = side.trace->parameters();
  if (!parameters.ok()) return parameters.status();
  side.parameters = std::move(*parameters);
  return side;
}

Status check_comparable(const Loaded& oracle, const Loaded& candidate) {
  const std::string want = model_type(oracle.trace->header().model_config);
  const std::string got = model_type(candidate.trace->header().model_config);
  // A trace that does not say is compared by what it holds.
  if (want.empty() || got.empty() || want == got) return {};
  return {Code::kInvalidArgument, candidate.trace->name() + ": not comparable: a '" + got +
                                      "' model against the oracle's '" + want + "'"};
}

std::int64_t longest_position(const Text& text) {
  std::int64_t longest = 0;
  for (const Step& step : text.steps) {
    for (const Row& row : step.rows) {
      if (row.count == 0) continue;
      longest = std::max(longest, row.position + static_cast<std::int64_t>(row.count) - 1);
    }
  }
  return longest;
}

// Leaves out of `other` what a trace that was trimmed, or is not whole, has no longer.
void keep_known(const Loaded& side, Loaded& other) {
  const Summary& summary = side.trace->summary();
  if (summary.counter("calls_trimmed") > 0) keep_steps_of(side.text, other.text);
  if (!incompleteness(summary).empty() && !side.parameters.empty()) {
    std::set<std::string_view> known;
    for (const Parameter& parameter : side.parameters) known.insert(parameter.name);
    std::erase_if(other.parameters,
                  [&](const Parameter& parameter) { return !known.contains(parameter.name); });
  }
}

Status measure_local(const ReplayOptions& options, ReplayReport& report) {
  if (options.local.weights.empty() || options.depth.value_or(Depth::kLocal) != Depth::kLocal) {
    return {};
  }
  LocalOptions local = options.local;
  local.oracle = options.oracle;
  local.candidate = options.candidate;
  local.last_step = std::min(local.last_step, report.tokens.parted.value_or(kLastStep));
  auto measured = options.measure_local(local);
  if (!measured.ok()) return measured.status();
  if (!measured->wrong_parameters.empty()) {
    return {Code::kInvalidArgument, local.weights + ": not the oracle's weights: " +
                                        measured->wrong_parameters.front() + " differs"};
  }
  report.findings = findings_of(*measured);
  for (LocalFinding& finding : report.findings) {
    const auto known = report.oracle.modules.find(measured->cuts[finding.cuts.front()].scope);
    if (known != report.oracle.modules.end()) finding.module_class = known->second;
  }
  report.local = std::move(*measured);
  return {};
}

}  // namespace

Result<ReplayReport> run_replay(const ReplayOptions& options) {
  auto oracle = load(options.oracle);
  if (!oracle.ok()) return oracle.status();
  auto candidate = load(options.candidate);
  if (!candidate.ok()) return candidate.status();
  GOLDENTRACE_RETURN_IF_ERROR(check_comparable(*oracle, *candidate));
  const BatchRow row = keep_row_of(oracle->text, candidate->text);
  keep_known(*oracle, *candidate);
  keep_known(*candidate, *oracle);

  const Header& want = oracle->trace->header();
  const Header& got = candidate->trace->header();
  ReplayReport report;
  report.strict = options.strict;
  report.oracle = describe_side(*oracle->trace);
  report.candidate = describe_side(*candidate->trace);
  report.longest_position = longest_position(oracle->text);
  report.inputs = compare_inputs(oracle->text, candidate->text);
  report.weights =
      compare_weights(oracle->parameters, candidate->parameters, want.dtype == got.dtype);
  report.config = compare_config(want.model_config, got.model_config);
  report.structure = compare_modules(want.modules, got.modules);
  report.sampling = compare_sampling(oracle->text, candidate->text);
  // Other inputs make every later number another: nothing below is compared then.
  if (report.inputs.status != RungStatus::kDiff) {
    const DType dtype = run_dtype(*oracle->trace, *candidate->trace);
    const double band = default_band(dtype);
    report.logits = compare_logits(oracle->text, candidate->text, band);
    report.tokens = compare_tokens(oracle->text, candidate->text, band);
    if (options.depth != Depth::kTokens) {
      auto ops =
          compare_ops(*oracle->trace, *candidate->trace, report.tokens.parted.value_or(kLastStep),
                      report.tokens.went_on, dtype, row);
      if (!ops.ok()) return ops.status();
      report.ops = std::move(*ops);
    }
  }
  // What no comparison has read: a damaged file gives no answer, wherever the damage is.
  GOLDENTRACE_RETURN_IF_ERROR(oracle->trace->check_bytes());
  GOLDENTRACE_RETURN_IF_ERROR(candidate->trace->check_bytes());
  if (report.inputs.status != RungStatus::kDiff) {
    GOLDENTRACE_RETURN_IF_ERROR(measure_local(options, report));
    if (options.depth == Depth::kTokens) {
      report.ops_rung.text = "not looked at";
    } else {
      decide_ops(report);
    }
    // A tie is a tie only between two sound runs.
    const bool moved = report.local ? has_local_fault(report) : report.ops.first.has_value();
    const bool sound =
        !moved && !report.ops.first_constant && report.logits.status != RungStatus::kDiff;
    if (!sound && report.tokens.rung.status == RungStatus::kTie) {
      report.tokens.rung.status = RungStatus::kDiff;
    } else if (sound && rounding_decides(report, candidate->text) &&
               report.tokens.rung.status == RungStatus::kDiff) {
      report.tokens.rung.status = RungStatus::kTie;
    }
  }
  decide(report);
  if (!options.allow_incomplete) refuse_incomplete(report);
  if (exit_status(report.verdict) == 0 && report.ops.outputs == 0 && report.tokens.compared == 0 &&
      !report.tokens.first_step) {
    return Status(
        Code::kInvalidArgument,
        options.candidate + ": nothing to compare: no output hash and no step on both sides");
  }
  return report;
}

}  // namespace goldentrace
