// run_replay: reads both traces, climbs the ladder, and decides.
#include "replayer/replay.h"

#include <algorithm>

#include "replayer/report/format.h"
#include "replayer/verdict/compare.h"
#include "replayer/verdict/ladder.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

Side describe_side(const TraceReader& trace) {
  const Header& header = trace.header();
  Side side;
  side.path = trace.name();
  side.description = header.engine + " " + header.engine_version;
  for (const std::string& part : {header.environment_value("attention"), header.dtype}) {
    if (!part.empty()) side.description += " " + part;
  }
  for (const std::string& part : {"torch " + header.environment_value("torch"), header.device}) {
    if (!part.empty()) side.description += ", " + part;
  }
  side.calls = trace.summary().calls;
  for (const Counter& counter : trace.summary().counters) {
    if (counter.severity != CounterSeverity::kInfo) side.losses += counter.value;
  }
  return side;
}

void decide_ops(ReplayReport& report) {
  const OpsReport& ops = report.ops;
  report.ops_rung.text = grouped(ops.outputs) + " outputs compared (" + std::to_string(ops.steps) +
                         (ops.steps == 1 ? " step), " : " steps), ") + grouped(ops.identical) +
                         " identical, " + grouped(ops.out_of_band) + " out of band";
  const bool constants = ops.constants_differing > 0;
  if (constants) {
    report.ops_rung.text += ", " + grouped(ops.constants_differing) + " with other constants";
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
  } else if (differs(report.sampling)) {
    report.verdict = Verdict::kSampling;
    report.headline = "sampling: the tokens were chosen by other rules";
  } else if (constant_comes_first(ops)) {
    report.verdict = Verdict::kStructure;
    report.headline = "structure: " + module_name(ops.first_constant->call.scope) +
                      " works with another constant";
  } else if (ops.first) {
    report.verdict = Verdict::kOps;
    report.headline = "kernel: " + module_name(ops.first->scope) + " computes something else";
  } else if (ops.matched == 0 && ops.oracle_calls > 0) {
    report.verdict = Verdict::kStructure;
    report.headline = "structure: no call of one program is found in the other";
  } else if (differs(report.tokens.rung)) {
    report.verdict = Verdict::kTokens;
    report.headline = "tokens: greedy decoding took another token";
  } else if (report.tokens.rung.status == RungStatus::kTie) {
    report.verdict = Verdict::kTie;
    report.headline = "up to step " + std::to_string(*report.tokens.first_step) +
                      ", where the texts part at a tie: either token is right";
  } else {
    const bool identical = ops.outputs > 0 && ops.identical == ops.outputs &&
                           ops.unmatched_oracle == 0 && ops.unmatched_candidate == 0;
    const bool undecided = ops.hash_only > 0 && ops.in_band + ops.not_refuted == 0;
    report.verdict = identical   ? Verdict::kIdentical
                     : undecided ? Verdict::kUndecided
                                 : Verdict::kInBand;
    // Nothing is claimed of what was not compared.
    const std::string how = identical          ? "bit-identical"
                            : ops.outputs == 0 ? "no call compared"
                            : undecided
                                ? "outputs differ, and hashes alone can't say how far"
                                : "in band";
    report.headline =
        how + (report.tokens.compared > 0 ? ", greedy tokens identical" : ", tokens not compared");
  }
}

}  // namespace

int exit_status(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical:
    case Verdict::kInBand:
    case Verdict::kTie:
      return 0;
    case Verdict::kUndecided:
      return 2;
    default:
      return 1;
  }
}

bool constant_comes_first(const OpsReport& ops) {
  return ops.first_constant &&
         (!ops.first || ops.first_constant->call.oracle_call <= ops.first->oracle_call);
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
    case Verdict::kUndecided:
      return "cannot_distinguish";
  }
  return "unknown";
}

const char* evidence_name(Evidence evidence) {
  switch (evidence) {
    case Evidence::kHash:
      return "hash";
    case Evidence::kValues:
      return "values";
    case Evidence::kStats:
      return "stats";
    case Evidence::kNone:
      break;
  }
  return "none";
}

Result<ReplayReport> run_replay(const ReplayOptions& options) {
  const auto oracle = TraceReader::open(options.oracle);
  if (!oracle.ok()) return oracle.status();
  const auto candidate = TraceReader::open(options.candidate);
  if (!candidate.ok()) return candidate.status();
  GOLDENTRACE_RETURN_IF_ERROR((*oracle)->check_bytes());
  GOLDENTRACE_RETURN_IF_ERROR((*candidate)->check_bytes());

  const Header& want = (*oracle)->header();
  const Header& got = (*candidate)->header();
  const std::string want_type = model_type(want.model_config);
  const std::string got_type = model_type(got.model_config);
  // A trace that does not say is compared by what it holds.
  if (!want_type.empty() && !got_type.empty() && want_type != got_type) {
    return Status(Code::kInvalidArgument, options.candidate + ": not comparable: a '" + got_type +
                                              "' model against the oracle's '" + want_type + "'");
  }
  const auto oracle_text = (*oracle)->text();
  if (!oracle_text.ok()) return oracle_text.status();
  const auto candidate_text = (*candidate)->text();
  if (!candidate_text.ok()) return candidate_text.status();
  const auto oracle_parameters = (*oracle)->parameters();
  if (!oracle_parameters.ok()) return oracle_parameters.status();
  const auto candidate_parameters = (*candidate)->parameters();
  if (!candidate_parameters.ok()) return candidate_parameters.status();

  ReplayReport report;
  report.oracle = describe_side(**oracle);
  report.candidate = describe_side(**candidate);
  report.inputs = compare_inputs(*oracle_text, *candidate_text);
  report.weights = compare_weights(*oracle_parameters, *candidate_parameters);
  report.config = compare_config(want.model_config, got.model_config);
  report.sampling = compare_sampling(*oracle_text, *candidate_text);
  for (const Step& step : oracle_text->steps) {
    for (const Row& row : step.rows) {
      report.longest_position = std::max(report.longest_position,
                                         row.position + static_cast<std::int64_t>(row.count) - 1);
    }
  }
  // Other inputs make every later number another: nothing below is compared then.
  if (report.inputs.status != RungStatus::kDiff) {
    report.tokens =
        compare_tokens(*oracle_text, *candidate_text, std::max(run_band(want), run_band(got)));
    auto ops = compare_ops(**oracle, **candidate, report.tokens.first_step.value_or(0xffffffff));
    if (!ops.ok()) return ops.status();
    report.ops = std::move(*ops);
    decide_ops(report);
    // A tie is a tie only between two sound runs.
    if ((report.ops.first || report.ops.first_constant) &&
        report.tokens.rung.status == RungStatus::kTie) {
      report.tokens.rung.status = RungStatus::kDiff;
    }
  }
  decide(report);
  if (exit_status(report.verdict) == 0 && report.ops.outputs == 0 && report.tokens.compared == 0 &&
      !report.tokens.first_step) {
    return Status(Code::kInvalidArgument,
                  options.candidate +
                      ": nothing to compare: no output hash and no step on both "
                      "sides");
  }
  return report;
}

}  // namespace goldentrace
