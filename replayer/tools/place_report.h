// The reports of `replay X --against T --at PLACE`.
#pragma once

#include <string>

#include "replayer/verdict/place_verdict.h"

namespace goldentrace {

std::string text_report(const PlaceReport& report);
// {"report": "place", "version": 1, "verdict": "in_band", "exit": 0, ...}
std::string json_report(const PlaceReport& report);

}  // namespace goldentrace
