// The reports for programs: versioned JSON, everything that the text shows and more.
#pragma once

#include <span>
#include <string>

#include "replayer/execute/verify.h"
#include "replayer/replay.h"

namespace goldentrace {

// {"report": "replay", "version": 1, "verdict": "in_band", "exit": 0, ...}
std::string json_report(const ReplayReport& report);
// Of several: {"report": "replay_candidates", "version": 1, "exit": 1, "left": [paths of those that
// diverge], "candidates": [..]}. Of one, its report.
std::string json_report(std::span<const ReplayReport> candidates);
// {"report": "verify", "version": 1, ...}
std::string json_report(const VerifyReport& report, const Doubts& doubts = {});

}  // namespace goldentrace
