// The report for people; reports.md's layout: at most 25 lines of at most 100 columns.
#pragma once

#include <span>
#include <string>

#include "replayer/execute/verify.h"
#include "replayer/replay.h"

namespace goldentrace {

std::string text_report(const ReplayReport& report);
// Of several candidates against one oracle: who left it, a line each, and the worst one's report.
// Of one, its report.
std::string text_report(std::span<const ReplayReport> candidates);
// `doubts` are those of the trace that was executed.
std::string text_report(const VerifyReport& report, const Doubts& doubts = {});

}  // namespace goldentrace
