// The report for people; reports.md's layout: at most 25 lines of at most 100 columns.
#pragma once

#include <string>

#include "replayer/execute/verify.h"
#include "replayer/replay.h"

namespace goldentrace {

std::string text_report(const ReplayReport& report);
// `doubts` are those of the trace that was executed.
std::string text_report(const VerifyReport& report, const Doubts& doubts = {});

}  // namespace goldentrace
