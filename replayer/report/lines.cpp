#include "replayer/report/lines.h"

#include <algorithm>

namespace goldentrace {

const char* status_word(RungStatus status) {
  switch (status) {
    case RungStatus::kOk:
      return "ok  ";
    case RungStatus::kDiff:
      return "DIFF";
    case RungStatus::kTie:
      return "tie ";
    case RungStatus::kNotCompared:
      break;
  }
  return "--  ";
}

void Lines::rung(const char* label, const Rung& rung, bool with_details) {
  constexpr std::size_t kMaxDetails = 5;
  row(label, std::string(status_word(rung.status)) + " " + rung.text);
  if (!with_details || rung.status != RungStatus::kDiff) return;
  const std::size_t shown = std::min(rung.details.size(), kMaxDetails);
  for (std::size_t i = 0; i < shown; ++i) {
    detail(rung.details[i]);
    if (i > 0) may_go();
  }
  if (shown < rung.details.size()) {
    detail("and " + grouped(rung.details.size() - shown) + " more (--json has them)");
  }
}

}  // namespace goldentrace
