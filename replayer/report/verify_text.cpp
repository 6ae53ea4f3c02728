// The text report of `replay verify`.
#include <algorithm>
#include <utility>

#include "replayer/report/format.h"
#include "replayer/report/lines.h"
#include "replayer/report/text.h"
#include "src/base/dtype.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxEnvironment = 5;
constexpr std::size_t kMaxFindings = 4;
constexpr std::size_t kMaxLost = 3;

std::string verify_headline(const VerifyReport& report) {
  const int exit = verify_exit_status(report);
  if (!report.wrong_parameters.empty()) {
    return "DIVERGE  weights: these are not the parameters that were recorded";
  }
  if (report.calls == 0) return "UNDECIDED  the trace holds no call to execute";
  if (report.mode == VerifyMode::kPromoted) {
    const std::string dtype(dtype_name(*report.promote));
    return exit == 0 ? "RUNS  promoted to " + dtype + ": every call ran, every shape as recorded"
                     : "DIVERGE  promoted to " + dtype + ", the program does not run as recorded";
  }
  if (report.reproduced()) return "VERIFIED  every output hash reproduced";
  if (report.mode == VerifyMode::kExact && exit == 2) {
    return "UNDECIDED  not all calls can be executed again; the others reproduce";
  }
  if (report.mode == VerifyMode::kExact) {
    return "DIVERGE  the program does not reproduce what was recorded";
  }
  if (exit == 0) return "VERIFIED  in band, in another environment than recorded";
  return exit == 1 ? "DIVERGE  out of band, in another environment than recorded"
                   : "UNDECIDED  too much was lost in this environment";
}

// What was judged because bits may move.
void add_moved(Lines& lines, const VerifyReport& report) {
  if (report.mode == VerifyMode::kExact) return;
  lines.row("decisions", grouped(report.decisions_equal) + " of " + grouped(report.decisions) +
                             " the same here; all taken from the trace");
  lines.row("moved", grouped(report.in_band) + " in band (" + percent(report.band) + "), " +
                         grouped(report.drifted) + " drifted, " + grouped(report.too_small) +
                         " too small, " + grouped(report.not_judged) + " not judged, " +
                         grouped(report.out_of_band) + " out of band");
  if (report.other_shapes > 0) {
    lines.row("shapes", grouped(report.other_shapes) + " outputs have another one here");
  }
  if (report.worst > 0) {
    lines.row("worst", percent(report.worst) + " away    " + report.worst_where);
  }
  if (report.mode == VerifyMode::kPromoted) {
    lines.row("kernels", grouped(report.in_recorded_dtype) +
                             " calls have none for promoted arguments; ran in the recorded dtype");
  }
}

void add_lost(Lines& lines, const VerifyReport& report) {
  std::size_t shown = 0;
  for (const auto& [op, lost] : report.lost) {
    if (shown++ == kMaxLost) break;
    lines.row("lost", op + "  " + grouped(lost.calls) + " calls: " + lost.why);
  }
  if (shown > kMaxLost) {
    lines.row("lost", "and " + grouped(report.lost.size() - kMaxLost) + " more operators");
  }
}

}  // namespace

std::string text_report(const VerifyReport& report, const Doubts& doubts) {
  Lines lines;
  lines.add(
      at_both_ends(verify_headline(report), "exit " + std::to_string(verify_exit_status(report))));
  lines.row("trace", report.trace + "   " + grouped(report.calls) + " calls");
  if (!doubts.incomplete.empty()) lines.row("not whole", doubts.incomplete);
  lines.add_doubts(doubts);
  if (!report.wrong_parameters.empty()) {
    Rung weights{RungStatus::kDiff,
                 grouped(report.wrong_parameters.size()) + " of " + grouped(report.parameters) +
                     " parameters have other bytes; nothing was executed",
                 report.wrong_parameters};
    lines.rung("weights", weights);
    return lines.take();
  }
  lines.row("weights", "ok   " + grouped(report.parameters) + " parameters and buffers by hash");
  lines.row("executed", grouped(report.executed) + " calls, " + grouped(report.not_executable) +
                            " not re-executable, " + grouped(report.threw_when_recorded) +
                            " that threw when recorded left out");
  lines.row("outputs", grouped(report.hashes_equal) + " of " + grouped(report.hashes) +
                           " hashes equal; " + grouped(report.views_equal) + " of " +
                           grouped(report.views) + " views; " + grouped(report.scalars_equal) +
                           " of " + grouped(report.scalars) + " numbers");
  lines.row("given", grouped(report.externals) + " external inputs (" + grouped(report.holes) +
                         " holes), " + grouped(report.random) +
                         " random outputs taken from the trace; " + grouped(report.undefined) +
                         " undefined");
  add_moved(lines, report);
  add_lost(lines, report);
  const std::size_t differences = std::min(report.environment.size(), kMaxEnvironment);
  for (std::size_t i = 0; i < differences; ++i) lines.row("elsewhere", report.environment[i]);
  if (differences < report.environment.size()) {
    lines.row("elsewhere", "and " + grouped(report.environment.size() - differences) +
                               " more (--json has them)");
  }
  const std::size_t shown = std::min(report.findings.size(), kMaxFindings);
  for (std::size_t i = 0; i < shown; ++i) {
    const VerifyFinding& finding = report.findings[i];
    lines.row(i == 0 ? "first" : "", "call " + std::to_string(finding.call) + "  " +
                                         scope_name(finding.scope) + ", " + finding.op + ": " +
                                         finding.what);
  }
  return lines.take();
}

}  // namespace goldentrace
