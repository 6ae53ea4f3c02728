#include <nlohmann/json.hpp>

#include "replayer/report/format.h"
#include "replayer/tools/check.h"

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMaxLines = 17;  // of findings, of all sorts

std::string headline(const CheckReport& report) {
  const std::string status = "exit " + std::to_string(check_exit_status(report));
  if (!report.faults.empty()) {
    const std::size_t kinds = report.faults.size();
    return at_both_ends("DAMAGED  " +
                            (kinds > 1 ? grouped(kinds) + " kinds of fault; first: " : "") +
                            report.faults[0].what,
                        status);
  }
  if (!report.unsupported.empty()) {
    return at_both_ends("NO ANSWER  parts of a later version: use a newer goldentrace", status);
  }
  return at_both_ends("SOUND  " + counted(report.chunks, "chunk", "chunks") + ", " +
                          counted(report.calls, "call", "calls") + ", " +
                          counted(report.writes, "write", "writes") + ", " +
                          counted(report.values, "value", "values") + " hashed again",
                      status);
}

// `room` is the number of lines left; what does not fit is counted in one.
void add_findings(const char* label, const std::vector<CheckFinding>& findings, std::size_t& room,
                  std::string& text) {
  const std::string margin = "  " + padded(label, 11);
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (room < 3) {
      const std::size_t left = findings.size() - i;
      text += margin + "and " + counted(left, "other kind", "other kinds") + " (--json has all)\n";
      return;
    }
    const CheckFinding& finding = findings[i];
    text += clipped(margin + grouped(finding.count) + " x " + printable(finding.what)) + "\n";
    --room;
    if (finding.first.empty()) continue;
    text += clipped("  " + padded("", 11) + "first " + printable(finding.first)) + "\n";
    --room;
  }
}

json findings_json(const std::vector<CheckFinding>& findings) {
  json all = json::array();
  for (const CheckFinding& finding : findings) {
    all.push_back({{"what", finding.what}, {"count", finding.count}, {"first", finding.first}});
  }
  return all;
}

}  // namespace

std::string text_report(const CheckReport& report) {
  std::string text = headline(report) + "\n";
  const auto row = [&](const char* label, const std::string& what) {
    text += clipped("  " + padded(label, 11) + what) + "\n";
  };
  row("trace", clipped_left(printable(report.trace), 40) + "  " +
                   counted(report.bytes, "byte", "bytes") + ", " +
                   counted(report.chunks, "chunk", "chunks"));
  row("program", counted(report.calls, "call", "calls") + ", " +
                     counted(report.writes, "write", "writes") + ", " +
                     counted(report.externals, "external input", "external inputs"));
  row("values", counted(report.values, "value", "values") + " of " +
                    counted(report.value_bytes, "byte", "bytes"));
  row("run", counted(report.parameters, "parameter", "parameters") + ", " +
                 counted(report.requests, "request", "requests") + ", " +
                 counted(report.steps, "step", "steps"));
  std::size_t room = kMaxLines;
  add_findings("fault", report.faults, room, text);
  add_findings("newer", report.unsupported, room, text);
  add_findings("note", report.notes, room, text);
  return text;
}

std::string json_report(const CheckReport& report) {
  const int status = check_exit_status(report);
  const char* verdicts[] = {"sound", "damaged", "no_answer"};
  const json object = {{"report", "check"},
                       {"version", 1},
                       {"verdict", verdicts[status]},
                       {"exit_status", status},
                       {"trace", report.trace},
                       {"bytes", report.bytes},
                       {"chunks", report.chunks},
                       {"calls", report.calls},
                       {"writes", report.writes},
                       {"external_inputs", report.externals},
                       {"values", report.values},
                       {"value_bytes", report.value_bytes},
                       {"parameters", report.parameters},
                       {"requests", report.requests},
                       {"steps", report.steps},
                       {"faults", findings_json(report.faults)},
                       {"unsupported", findings_json(report.unsupported)},
                       {"notes", findings_json(report.notes)}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace goldentrace
