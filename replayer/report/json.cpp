#include "replayer/report/json.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// JSON has no infinity.
json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

const char* status_name(RungStatus status) {
  switch (status) {
    case RungStatus::kOk:
      return "ok";
    case RungStatus::kDiff:
      return "diff";
    case RungStatus::kTie:
      return "tie";
    case RungStatus::kNotCompared:
      break;
  }
  return "not_compared";
}

json rung(const Rung& rung) {
  return {{"status", status_name(rung.status)}, {"text", rung.text}, {"details", rung.details}};
}

json side(const Side& side) {
  return {{"path", side.path},
          {"description", side.description},
          {"calls", side.calls},
          {"losses", side.losses},
          {"incomplete", side.doubts.incomplete},
          {"trimmed", side.doubts.trimmed},
          {"not_pure", side.doubts.impure},
          {"warnings", side.doubts.warnings}};
}

json difference(const std::optional<CallDifference>& difference) {
  if (!difference) return nullptr;
  return {{"oracle_call", difference->oracle_call},
          {"candidate_call", difference->candidate_call},
          {"step", difference->step},
          {"scope", difference->scope},
          {"op", difference->op},
          {"tensor", difference->tensor},
          {"evidence", evidence_name(difference->evidence)},
          {"distance", finite(difference->distance)},
          {"pooled", finite(difference->pooled)},
          {"pooled_steps", difference->pooled_steps},
          {"band", difference->band},
          {"note", difference->note}};
}

json unmatched(const std::vector<Unmatched>& calls) {
  json list = json::array();
  for (const Unmatched& call : calls) {
    list.push_back({{"call", call.call},
                    {"step", call.step},
                    {"scope", call.scope},
                    {"op", call.op},
                    {"tensor", call.tensor}});
  }
  return list;
}

json constant(const std::optional<ConstantDifference>& difference) {
  if (!difference) return nullptr;
  return {{"oracle_call", difference->call.oracle_call},
          {"candidate_call", difference->call.candidate_call},
          {"step", difference->call.step},
          {"scope", difference->call.scope},
          {"op", difference->call.op},
          {"oracle", finite(difference->oracle)},
          {"candidate", finite(difference->candidate)}};
}

json ops(const OpsReport& ops) {
  return {{"oracle_calls", ops.oracle_calls},
          {"candidate_calls", ops.candidate_calls},
          {"matched", ops.matched},
          {"unmatched_oracle", ops.unmatched_oracle},
          {"unmatched_candidate", ops.unmatched_candidate},
          {"steps", ops.steps},
          {"steps_without_digests", ops.bare_steps},
          {"outputs", ops.outputs},
          {"identical", ops.identical},
          {"differing_calls", ops.differing_calls},
          {"in_band", ops.in_band},
          {"not_refuted", ops.not_refuted},
          {"by_sketch", ops.by_sketch},
          {"measured_bands", ops.measured_bands},
          {"out_of_band", ops.out_of_band},
          {"not_judged", ops.not_judged},
          {"not_judged_hash_only", ops.hash_only},
          {"not_judged_uncertain", ops.uncertain},
          {"absorbed", ops.absorbed},
          {"drifted", ops.drifted},
          {"decisions", ops.decisions},
          {"decisions_differing", ops.decisions_differing},
          {"first_decision", difference(ops.first_decision)},
          {"first_out_of_band", difference(ops.first)},
          {"worst_in_band", difference(ops.worst_in_band)},
          {"last_good", difference(ops.last_good)},
          {"compared_before_first", ops.compared_before_first},
          {"identical_before_first", ops.identical_before_first},
          {"constants_differing", ops.constants_differing},
          {"first_constant", constant(ops.first_constant)},
          {"unmatched_oracle_first", unmatched(ops.unmatched_oracle_first)},
          {"unmatched_candidate_first", unmatched(ops.unmatched_candidate_first)},
          {"missing_modules", ops.missing_modules},
          {"missing_in_module", unmatched(ops.missing_near)},
          {"added_in_module", unmatched(ops.extra_near)}};
}

json tokens(const TokensReport& tokens) {
  json object = {{"status", status_name(tokens.rung.status)},
                 {"compared_equal", tokens.compared},
                 {"differing", tokens.differing},
                 {"oracle_steps", tokens.oracle_steps},
                 {"candidate_steps", tokens.candidate_steps},
                 {"smallest_gap_ulp", finite(tokens.smallest_gap_ulp)},
                 {"smallest_gap_step", tokens.smallest_gap_step},
                 {"first", nullptr}};
  if (tokens.first_step) {
    object["first"] = {{"step", *tokens.first_step},
                       {"position", tokens.position},
                       {"oracle",
                        {{"id", tokens.oracle_token},
                         {"piece", tokens.oracle_piece},
                         {"gap_ulp", tokens.oracle_gap_ulp}}},
                       {"candidate",
                        {{"id", tokens.candidate_token},
                         {"piece", tokens.candidate_piece},
                         {"gap_ulp", tokens.candidate_gap_ulp}}}};
  }
  return object;
}

json cut(const LocalCut& cut) {
  const ZoneReport& zone = cut.zone;
  const Bias bias = cut.sums.bias(cut.sums.candidate);
  return {{"scope", cut.scope},
          {"op", cut.op},
          {"output", cut.output},
          {"tensor", cut.tensor},
          {"oracle_call", cut.oracle_call},
          {"candidate_call", cut.candidate_call},
          {"step", cut.step},
          {"steps", cut.steps},
          {"zone", zone_name(zone.zone)},
          {"relative", finite(std::sqrt(cut.sums.candidate.squares / cut.sums.wide))},
          {"ratio", finite(zone.ratio)},
          {"band", finite(zone.band)},
          {"rounded_ratio", finite(zone.rounded_ratio)},
          {"rounded_band", finite(zone.rounded_band)},
          {"scale", finite(bias.scale)},
          {"bias_sigmas", finite(zone.bias_sigmas)},
          {"bias_band", finite(zone.bias_band)},
          {"biased", zone.biased},
          {"one_sided", cut.sums.one_sided},
          {"max_ulps", finite(cut.magnitude.max_ulps)},
          {"over_ulp", cut.magnitude.over_ulp},
          {"sign_sigmas", finite(cut.magnitude.sign_sigmas())},
          {"slice",
           {{"dimension", cut.sums.slice.dimension},
            {"index", cut.sums.slice.index},
            {"ratio", finite(cut.sums.slice.ratio)},
            {"excess", finite(cut.sums.slice.excess)},
            {"rounded_excess", finite(cut.sums.rounded_slice.excess)}}},
          {"inputs", cut.inputs.size()},
          {"inputs_in_band", cut.inputs_in_band},
          {"tokens", cut.tokens.size()},
          {"dirty_tokens", cut.dirty_tokens}};
}

json local(const ReplayReport& report) {
  if (!report.local) return nullptr;
  const LocalReport& local = *report.local;
  json findings = json::array();
  for (const LocalFinding& finding : report.findings) {
    json cuts = json::array();
    for (const std::size_t i : finding.cuts) cuts.push_back(cut(local.cuts[i]));
    findings.push_back({{"zone", zone_name(finding.zone)},
                        {"module", finding.module},
                        {"class", finding.module_class},
                        {"later_cuts", finding.later},
                        {"later_in_band", finding.later_in_band},
                        {"scopes", finding.scopes},
                        {"cuts", std::move(cuts)}});
  }
  std::map<std::string, std::uint64_t> zones;
  for (const LocalCut& cut : local.cuts) ++zones[zone_name(cut.zone.zone)];
  return {{"calls", local.calls},
          {"outputs", local.outputs},
          {"compared", local.compared},
          {"cuts", local.cuts.size()},
          {"zones", zones},
          {"alarm_rate", local.alarm_rate},
          {"decisions", local.decisions},
          {"decisions_differing", local.decisions_differing},
          {"rerouted", local.rerouted},
          {"misrouted", local.misrouted},
          {"rerouted_outputs", local.rerouted_outputs},
          {"lost", local.lost},
          {"wrong_parameters", local.wrong_parameters},
          {"seconds", local.seconds},
          {"findings", findings}};
}

std::string dump(const json& object) {
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

json replay_object(const ReplayReport& report) {
  return {{"report", "replay"},
          {"version", kVersion},
          {"verdict", verdict_name(report.verdict)},
          {"exit", report.exit()},
          {"headline", report.headline},
          {"oracle", side(report.oracle)},
          {"candidate", side(report.candidate)},
          {"inputs", rung(report.inputs)},
          {"weights", rung(report.weights)},
          {"config", rung(report.config)},
          {"structure", rung(report.structure)},
          {"sampling", rung(report.sampling)},
          {"logits", rung(report.logits)},
          {"tokens", tokens(report.tokens)},
          {"ops", ops(report.ops)},
          {"local", local(report)},
          {"longest_position", report.longest_position}};
}

}  // namespace

std::string json_report(const ReplayReport& report) { return dump(replay_object(report)); }

std::string json_report(std::span<const ReplayReport> candidates) {
  if (candidates.size() == 1) return json_report(candidates.front());
  json left = json::array();
  json reports = json::array();
  for (const ReplayReport& report : candidates) {
    if (report.exit() == 1) left.push_back(report.candidate.path);
    reports.push_back(replay_object(report));
  }
  return dump({{"report", "replay_candidates"},
               {"version", kVersion},
               {"exit", exit_status(candidates)},
               {"left", std::move(left)},
               {"candidates", std::move(reports)}});
}

namespace {

constexpr const char* kVerifyModes[] = {"exact", "elsewhere", "promoted"};

const char* verify_verdict(const VerifyReport& report) {
  const int exit = verify_exit_status(report);
  if (report.reproduced()) return "reproduced";
  if (report.mode == VerifyMode::kPromoted && exit == 0) return "runs_promoted";
  if (exit == 0) return "in_band";
  return exit == 2 ? "too_much_lost" : "not_reproduced";
}

}  // namespace

std::string json_report(const VerifyReport& report, const Doubts& doubts) {
  json findings = json::array();
  for (const VerifyFinding& finding : report.findings) {
    findings.push_back({{"call", finding.call},
                        {"step", finding.step},
                        {"scope", finding.scope},
                        {"op", finding.op},
                        {"what", finding.what}});
  }
  json lost = json::object();
  for (const auto& [op, calls] : report.lost) {
    lost[op] = {{"calls", calls.calls}, {"why", calls.why}};
  }
  return dump({{"report", "verify"},
               {"version", kVersion},
               {"verdict", verify_verdict(report)},
               {"mode", kVerifyModes[static_cast<std::size_t>(report.mode)]},
               {"promote", report.promote ? json(dtype_name(*report.promote)) : json(nullptr)},
               {"exit", verify_exit_status(report)},
               {"trace", report.trace},
               {"calls", report.calls},
               {"executed", report.executed},
               {"not_executable", report.not_executable},
               {"threw_when_recorded", report.threw_when_recorded},
               {"hashes", report.hashes},
               {"hashes_equal", report.hashes_equal},
               {"views", report.views},
               {"views_equal", report.views_equal},
               {"scalars", report.scalars},
               {"scalars_equal", report.scalars_equal},
               {"undefined", report.undefined},
               {"in_recorded_dtype", report.in_recorded_dtype},
               {"decisions", report.decisions},
               {"decisions_equal", report.decisions_equal},
               {"other_shapes", report.other_shapes},
               {"in_band", report.in_band},
               {"drifted", report.drifted},
               {"out_of_band", report.out_of_band},
               {"too_small", report.too_small},
               {"not_judged", report.not_judged},
               {"band", report.band},
               {"worst", finite(report.worst)},
               {"worst_where", report.worst_where},
               {"lost", lost},
               {"random", report.random},
               {"parameters", report.parameters},
               {"wrong_parameters", report.wrong_parameters},
               {"externals", report.externals},
               {"holes", report.holes},
               {"environment", report.environment},
               {"incomplete", doubts.incomplete},
               {"not_pure", doubts.impure},
               {"warnings", doubts.warnings},
               {"findings", findings},
               {"seconds", report.seconds}});
}

}  // namespace goldentrace
