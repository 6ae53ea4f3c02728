#include "replayer/report/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "replayer/report/format.h"
#include "replayer/report/lines.h"
#include "src/base/dtype.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMinPath = 24;  // columns
constexpr std::size_t kMaxFindings = 3;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

std::string token_name(const std::string& piece, std::int64_t id) {
  return piece.empty() ? "id " + std::to_string(id) : quoted_piece(piece);
}

std::string measured(const CallDifference& difference) {
  if (!difference.note.empty()) return difference.note;
  const char* prefix = difference.evidence == Evidence::kStats ? "at least " : "";
  std::string text =
      prefix + percent(difference.distance) + " away (band " + percent(difference.band);
  if (difference.pooled_steps > 1) {
    text += "; " + percent(difference.pooled) + " over " + std::to_string(difference.pooled_steps) +
            " steps";
  }
  return text + ")";
}

void add_tokens(Lines& lines, const TokensReport& tokens) {
  std::string text = tokens.rung.text;
  if (tokens.first_step) {
    text = "first at step " + std::to_string(*tokens.first_step) + " (position " +
           std::to_string(tokens.position) +
           "): " + token_name(tokens.candidate_piece, tokens.candidate_token) + " for " +
           token_name(tokens.oracle_piece, tokens.oracle_token);
  } else if (tokens.compared > 0) {
    text = std::to_string(tokens.compared) + " of " +
           std::to_string(std::max(tokens.oracle_steps, tokens.candidate_steps)) +
           (tokens.parted                                   ? ", then other tokens were given"
            : tokens.oracle_steps == tokens.candidate_steps ? ""
            : tokens.oracle_steps < tokens.candidate_steps  ? ", the oracle ran no more"
                                                            : ", the candidate ran no more");
    if (!std::isnan(tokens.smallest_gap_ulp)) {
      text += "; smallest gap " + number(tokens.smallest_gap_ulp) + " ulp (step " +
              std::to_string(tokens.smallest_gap_step) + ")";
    }
  }
  lines.row("tokens", std::string(status_word(tokens.rung.status)) + " " + text);
  if (tokens.first_step) {
    lines.detail("top-2 gap there: oracle " + number(tokens.oracle_gap_ulp) + " ulp, candidate " +
                 number(tokens.candidate_gap_ulp) + " ulp; " + std::to_string(tokens.compared) +
                 (tokens.went_on ? " equal, " + std::to_string(tokens.differing) +
                                       " differ along the same tokens"
                                 : " equal before"));
    lines.may_go();
  }
}

void add_ops(Lines& lines, const ReplayReport& report) {
  const OpsReport& ops = report.ops;
  lines.rung("ops", report.ops_rung);
  if (ops.differing_calls > 0) {
    std::string text = grouped(ops.differing_calls) + " calls not bit-identical";
    const char* separator = ": ";
    const auto count = [&](std::uint64_t number, const std::string& what) {
      if (number == 0) return;
      text += separator + grouped(number) + what;
      separator = ", ";
    };
    count(ops.in_band, ops.by_sketch > 0 ? " in band by sketches" : " in band by values");
    count(ops.not_refuted, ops.in_band > 0 ? " by stats" : " in band by stats");
    count(ops.drifted, " drifted");
    count(ops.absorbed, " no effect");
    count(ops.not_judged - ops.hash_only - ops.uncertain, " too small");
    count(ops.uncertain, " unsure");
    count(ops.hash_only, " by hash only");
    lines.row("  differ", text);
    if (report.local) lines.may_go();
  }
  if (ops.measured_bands > 0) {
    lines.row("  bands", grouped(ops.measured_bands) + " measured by the oracle's twins (" +
                             report.oracle.calibration + ")");
    lines.may_go();
  }
  if (ops.worst_in_band) {
    lines.row("  worst", measured(*ops.worst_in_band) + "    " +
                             scope_name(ops.worst_in_band->scope) + ", " + ops.worst_in_band->op);
    lines.may_go();
  }
  if (ops.decisions > 0) {
    std::string text =
        grouped(ops.decisions) + " compared, " + grouped(ops.decisions_differing) + " differ";
    if (ops.first_decision) {
      text +=
          ", the first in " + scope_name(ops.first_decision->scope) + ", " + ops.first_decision->op;
    }
    lines.row("  decision", text);
    lines.may_go();
  }
}

std::string list_ops(const std::vector<Unmatched>& calls) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(calls.size(), 3); ++i) {
    text += (i > 0 ? "; " : "") + calls[i].op + " " + calls[i].tensor;
  }
  if (calls.size() > 3) text += "; and " + std::to_string(calls.size() - 3) + " more";
  return text;
}

std::string where(const CallDifference& call) {
  std::string text = "step " + std::to_string(call.step) +
                     (call.step == 0 ? " (prefill)" : " (decode)") + ", call " +
                     std::to_string(call.oracle_call);
  if (call.candidate_call != call.oracle_call) {
    text += ", the candidate's " + std::to_string(call.candidate_call);
  }
  return call.tensor.empty() ? text : text + ", " + call.tensor;
}

void add_constant_finding(Lines& lines, const OpsReport& ops) {
  const ConstantDifference& first = *ops.first_constant;
  lines.add("1  " + scope_name(first.call.scope) + ", " + first.call.op +
            "      first call with another constant");
  lines.finding("where", where(first.call));
  lines.finding("constant", "oracle " + number(first.oracle) + ", candidate " +
                                number(first.candidate) + "; in " +
                                grouped(ops.constants_differing) + " calls of all steps");
  if (ops.out_of_band > 0) {
    lines.finding("after", grouped(ops.out_of_band) + " later outputs out of band, the first in " +
                               scope_name(ops.first->scope));
  }
}

void add_finding(Lines& lines, const OpsReport& ops) {
  const CallDifference& first = *ops.first;
  lines.add("1  " + scope_name(first.scope) + ", " + first.op + "      first call out of band");
  lines.finding("where", where(first));
  const char* by = first.evidence == Evidence::kValues   ? ", by all elements"
                   : first.evidence == Evidence::kSketch ? ", by sketches"
                   : first.evidence == Evidence::kStats  ? ", by norm, sum and extremes"
                                                         : "";
  lines.finding("error", measured(first) + by);
  std::string before = grouped(ops.compared_before_first) + " outputs fine, " +
                       grouped(ops.identical_before_first) + " identical";
  if (ops.last_good) {
    before += "; the last: " + scope_name(ops.last_good->scope) + ", " + ops.last_good->op;
  }
  lines.finding("before", before);
  if (!ops.missing_modules.empty()) {
    std::string text = "every call of " + ops.missing_modules.front();
    if (ops.missing_modules.size() > 1) {
      text += " and " + std::to_string(ops.missing_modules.size() - 1) + " more modules";
    }
    lines.finding("lacks", text);
  } else if (!ops.missing_near.empty()) {
    lines.finding("lacks", list_ops(ops.missing_near) + ": the oracle calls it in this module");
  }
  if (!ops.extra_near.empty()) {
    lines.finding("adds", list_ops(ops.extra_near) + ": the oracle does not, in this module");
  }
  if (ops.out_of_band > 1) {
    lines.finding("after", grouped(ops.out_of_band - 1) +
                               " later outputs out of band: downstream, or faults of their own");
  }
}

std::string times(double ratio) {
  return std::isfinite(ratio) ? number(ratio) + " x" : "infinite times";
}

// Which positions a finding touches, over all of its cuts.
std::string dirty_tokens(const ReplayReport& report, const LocalFinding& finding) {
  std::set<std::int64_t> all;
  std::set<std::int64_t> dirty;
  for (const std::size_t i : finding.cuts) {
    const LocalCut& cut = report.local->cuts[i];
    all.insert(cut.tokens.begin(), cut.tokens.end());
    dirty.insert(cut.dirty_tokens.begin(), cut.dirty_tokens.end());
  }
  if (dirty.empty()) return "none of " + grouped(all.size()) + " by itself";
  const auto since = std::distance(all.find(*dirty.begin()), all.end());
  const std::string first = std::to_string(*dirty.begin());
  if (dirty.size() == all.size()) return "all of " + grouped(all.size());
  if (static_cast<std::size_t>(since) == dirty.size()) {
    return "clean up to position " + std::to_string(*dirty.begin() - 1) + ", all dirty from " +
           first + " on";
  }
  return grouped(dirty.size()) + " of " + grouped(all.size()) + ", the first at position " + first;
}

// Of a finding's worst cut. Those below the first give way where a report would be too long.
void add_local_finding(Lines& lines, const ReplayReport& report, std::size_t place) {
  const LocalFinding& finding = report.findings[place];
  const LocalCut& worst = report.local->cuts[finding.cuts.front()];
  const ZoneReport& zone = worst.zone;
  const std::size_t modules = finding.scopes.size();
  const auto add = [&](const std::string& label, const std::string& text) {
    label.empty() ? lines.add(text) : lines.finding(label, text);
    if (place > 0) lines.may_go();
  };
  add("", padded(std::to_string(place + 1), 3) + scope_name(finding.module) + "      " +
              (finding.zone == Zone::kFault ? "" : "rounds at other points than eager, ") +
              (modules > 1 ? counted(modules, "module", "modules") + ", " : "") +
              counted(finding.cuts.size(), "cut", "cuts"));
  add("worst", worst.op + " in " + scope_name(worst.scope) + ", step " +
                   std::to_string(worst.step) + ", call " + std::to_string(worst.oracle_call) +
                   ", " + worst.tensor);
  std::string local = times(zone.ratio) + " eager's own error (band " + number(zone.band) + ")";
  if (worst.sums.has_rounded) {
    local += ", " + times(zone.rounded_ratio) + " full rounding's (band " +
             number(zone.rounded_band) + ")";
  }
  if (worst.exact && std::isinf(zone.ratio)) local = "not exact, and moves numbers only";
  if (worst.sums.one_sided > 0) {
    local =
        "NaN, infinite or mask on one side only in " + grouped(worst.sums.one_sided) + " elements";
  }
  add("local", local);
  if (!worst.inputs.empty()) {
    add("inputs", grouped(worst.inputs_in_band) + " of " + grouped(worst.inputs.size()) +
                      " in band" +
                      (finding.module_class.empty() ? "" : "; code of " + finding.module_class));
    lines.may_go();
  }
  if (!worst.tokens.empty()) add("tokens", dirty_tokens(report, finding));
  if (zone.biased) {
    const Bias bias = worst.sums.bias(worst.sums.candidate);
    add("bias", "x " + number(1 + bias.scale) + " (" + number(bias.scale) + " +- " +
                    number(bias.standard_error) + "; band " + number(zone.bias_band) + " sigma)");
  }
  if (zone.sliced && zone.ratio <= zone.band) {
    add("slice", times(worst.sums.slice.ratio) + " its noise at " +
                     std::to_string(worst.sums.slice.index) + " of dimension " +
                     std::to_string(worst.sums.slice.dimension) + " alone");
  }
  if (worst.magnitude.elements > 0) {
    add("elements", "off by up to " + number(worst.magnitude.max_ulps) + " ulp, " +
                        percent(static_cast<double>(worst.magnitude.over_ulp) /
                                static_cast<double>(worst.magnitude.elements)) +
                        " of them by more than one; signs " +
                        number(worst.magnitude.sign_sigmas()) + " sigma from even");
    lines.may_go();
  }
  if (finding.zone == Zone::kFault && finding.later > 0) {
    add("downstream", grouped(finding.later_in_band) + " of " + grouped(finding.later) +
                          " later cuts in band, from the candidate's own inputs");
    lines.may_go();
  }
}

void add_local_findings(Lines& lines, const ReplayReport& report) {
  const std::size_t shown = std::min(report.findings.size(), kMaxFindings);
  for (std::size_t i = 0; i < shown; ++i) add_local_finding(lines, report, i);
  if (report.findings.size() > 1) {
    lines.detail(grouped(report.findings.size()) + " findings in all; --json has every cut");
  }
}

// What re-execution was asked, and the cut that came closest to its band.
void add_local_row(Lines& lines, const ReplayReport& report) {
  const LocalReport& local = *report.local;
  std::uint64_t faults = 0;
  std::uint64_t policies = 0;
  const LocalCut* worst = nullptr;
  const auto closeness = [](const LocalCut& cut) { return cut.zone.ratio / cut.zone.band; };
  for (const LocalCut& cut : local.cuts) {
    if (cut.zone.zone == Zone::kFault) ++faults;
    if (cut.zone.zone == Zone::kRoundingPolicy) ++policies;
    if (cut.zone.zone != Zone::kInBand) continue;
    if (worst == nullptr || closeness(cut) > closeness(*worst)) worst = &cut;
  }
  std::string text = std::string(status_word(faults > 0 ? RungStatus::kDiff : RungStatus::kOk)) +
                     " " + counted(local.cuts.size(), "cut", "cuts") +
                     " judged from the candidate's "
                     "own inputs, " +
                     grouped(faults) + " out of band";
  if (local.compared == 0) {
    text = std::string(status_word(RungStatus::kNotCompared)) +
           " no value of the candidate's: record it with --rule 'scope=**:values'";
  }
  if (policies > 0) text += ", " + grouped(policies) + " rounding policy";
  lines.row("local", text);
  if (!local.rerouted.empty()) {
    const auto& [module, step] = *local.rerouted.begin();
    lines.row("  routing", grouped(local.rerouted_outputs) +
                               " outputs not judged after other decisions, as in step " +
                               std::to_string(step) + " of " + module);
  }
  if (!local.misrouted.empty()) {
    const auto& [module, margin] = *local.misrouted.begin();
    lines.row("  routing", std::string(status_word(RungStatus::kDiff)) + " " + module +
                               " picks values " + percent(margin) + " below the best of its own");
  }
  if (local.decisions_differing > 0) {
    lines.row("  decision",
              counted(local.decisions_differing, "decision", "decisions") +
                  " not what eager makes of the same inputs: ties, or whoever decides");
    lines.may_go();
  }
  if (worst == nullptr) return;
  lines.row("  worst", number(worst->zone.ratio) + " x eager's own error (band " +
                           number(worst->zone.band) + ")    " + scope_name(worst->scope) + ", " +
                           worst->op);
  lines.may_go();
}

// One row for what is out of band below a rung that differs: it may be that rung's doing.
void add_consequence(Lines& lines, const OpsReport& ops) {
  if (!ops.first) return;
  lines.row("  first", "out of band: " + scope_name(ops.first->scope) + ", " + ops.first->op +
                           ", " + where(*ops.first));
}

void add_sides(Lines& lines, const ReplayReport& report) {
  const std::pair<const char*, const Side*> sides[] = {{"oracle", &report.oracle},
                                                       {"candidate", &report.candidate}};
  // Long paths lose their beginning, so that both descriptions can be read, one below the other.
  std::size_t description = 0;
  std::size_t path = 0;
  for (const auto& [label, side] : sides) {
    description = std::max(description, columns(printable(side->description)));
    path = std::max(path, columns(printable(side->path)));
  }
  const std::size_t room = kReportWidth - std::min(kReportWidth - kMinPath - 15, description) - 15;
  const std::size_t width = std::min(path, room);
  for (const auto& [label, side] : sides) {
    lines.row(label,
              padded(clipped_left(printable(side->path), width), width) + "  " + side->description);
  }
  for (const auto& [label, side] : sides) {
    const std::string& why = side->doubts.incomplete;
    if (!why.empty()) lines.row("not whole", label + (": " + why));
    const std::string& left = side->doubts.trimmed;
    if (!left.empty()) lines.row("trimmed", label + (": " + left));
  }
  lines.add_doubts(report.oracle.doubts);
  if (report.oracle.losses + report.candidate.losses > 0) {
    lines.row("loss", "while recording: oracle " + grouped(report.oracle.losses) + ", candidate " +
                          grouped(report.candidate.losses) + " (replay show tells what)");
  }
}

void add_coverage(Lines& lines, const OpsReport& ops) {
  if (ops.oracle_calls == 0 || calls_are_apart(ops)) return;
  std::string text =
      share(ops.matched, ops.oracle_calls) + " of " + grouped(ops.oracle_calls) + " calls aligned";
  if (ops.unmatched_oracle + ops.unmatched_candidate > 0) {
    text += "; only the oracle: " + grouped(ops.unmatched_oracle) +
            ", only the candidate: " + grouped(ops.unmatched_candidate);
  }
  lines.row("coverage", text);
}

bool judged_locally(const ReplayReport& report) {
  return report.local && report.local->compared > 0;
}

std::string not_seen(const ReplayReport& report) {
  std::string text;
  if (report.ops.outputs > 0) {
    text = "positions > " + std::to_string(report.longest_position) +
           ", batch > 1, prefix cache, "
           "image tokens";
    if (report.ops.not_refuted > 0 && !judged_locally(report)) {
      text += ", faults that keep norms and sums";
    }
  } else if (exit_status(report.verdict) == 0) {
    text = "every call: no tensor of one trace was compared with one of the other";
  } else {
    text = "anything below the first rung that differs";
  }
  return text;
}

std::string next_command(const ReplayReport& report) {
  const OpsReport& ops = report.ops;
  if (report.verdict == Verdict::kOps && report.local) {
    const LocalCut& worst = report.local->cuts[report.findings.front().cuts.front()];
    return "replay show " + report.candidate.path + " --tensors --call " +
           std::to_string(worst.candidate_call);
  }
  if (report.verdict == Verdict::kOps) {
    if (ops.first->evidence == Evidence::kValues) {
      return "replay show " + report.candidate.path + " --calls   (call " +
             std::to_string(ops.first->candidate_call) + ")";
    }
    return "record both with --rule 'scope=" + ops.first->scope + ":values'";
  }
  if (report.verdict == Verdict::kIncomplete) {
    return "record again; or --allow-incomplete takes agreement of what is there";
  }
  if (report.verdict == Verdict::kUndecided ||
      (report.verdict == Verdict::kInBand && ops.not_refuted > 0 && !judged_locally(report))) {
    return "record both with --rule 'scope=**:values'; replay again judges every element";
  }
  if (exit_status(report.verdict) == 0) {
    return "replay verify " + report.oracle.path + " --weights MODEL_DIR";
  }
  return "mend that first, then record and replay again";
}

constexpr const char* kVerdictWords[] = {"AGREE  ", "DIVERGE  ", "UNDECIDED  "};

// All but the headline.
void add_body(Lines& lines, const ReplayReport& report) {
  add_sides(lines, report);
  // Nobody is blamed below the first rung that differs: only that one is shown with its details.
  Rung config = report.config;
  if (report.structure.status == RungStatus::kOk) config.text += "; " + report.structure.text;
  const std::pair<const char*, const Rung*> rungs[] = {{"inputs", &report.inputs},
                                                       {"weights", &report.weights},
                                                       {"config", &config},
                                                       {"structure", &report.structure},
                                                       {"sampling", &report.sampling}};
  bool blamed = false;
  for (const auto& [label, rung] : rungs) {
    if (rung == &report.structure && rung->status != RungStatus::kDiff) continue;
    lines.rung(label, *rung, !blamed);
    blamed |= rung->status == RungStatus::kDiff;
  }
  lines.rung("logits", report.logits);
  add_tokens(lines, report.tokens);
  add_ops(lines, report);
  if (report.local) add_local_row(lines, report);
  if (blamed && !report.local) {
    add_consequence(lines, report.ops);
  } else if (!blamed && constant_comes_first(report.ops)) {
    add_constant_finding(lines, report.ops);
  }
  if (report.local) {
    add_local_findings(lines, report);
  } else if (!blamed && !constant_comes_first(report.ops) && report.ops.first) {
    add_finding(lines, report.ops);
  }
  add_coverage(lines, report.ops);
  lines.row("not seen", not_seen(report));
  lines.row("next", next_command(report));
}

// The end of a long path.
std::string short_name(const ReplayReport& report) {
  constexpr std::size_t kColumns = 24;
  return clipped_left(printable(report.candidate.path), kColumns);
}

// "b.fb left the oracle, a.fb did not".
std::string who_left(std::span<const ReplayReport> candidates) {
  std::string left;
  std::string stayed;
  for (const ReplayReport& report : candidates) {
    std::string& names = report.exit() == 1 ? left : stayed;
    names += (names.empty() ? "" : ", ") + short_name(report);
  }
  if (left.empty())
    return exit_status(candidates) == 0 ? "no candidate left the oracle"
                                        : "no candidate is seen to leave the oracle";
  return left + " left the oracle" + (stayed.empty() ? "" : ", " + stayed + " did not");
}

}  // namespace

std::string text_report(const ReplayReport& report) {
  Lines lines;
  const int status = report.exit();
  lines.add(
      at_both_ends(kVerdictWords[status] + report.headline, "exit " + std::to_string(status)));
  add_body(lines, report);
  return lines.take();
}

std::string text_report(std::span<const ReplayReport> candidates) {
  if (candidates.size() == 1) return text_report(candidates.front());
  const int status = exit_status(candidates);
  Lines lines;
  lines.add(
      at_both_ends(kVerdictWords[status] + who_left(candidates), "exit " + std::to_string(status)));
  const ReplayReport* shown = nullptr;
  for (const ReplayReport& report : candidates) {
    lines.add("  " + short_name(report) + ": " + kVerdictWords[report.exit()] + report.headline);
    if (shown == nullptr && report.exit() == status) shown = &report;
  }
  add_body(lines, *shown);
  return lines.take(kMaxLines + candidates.size());
}

}  // namespace goldentrace
