// `replay show`: what is in one trace, as text or JSON, streamed to `out`.
#pragma once

#include <ostream>
#include <string>

#include "src/base/status.h"

namespace goldentrace {

enum class ShowWhat : std::uint8_t { kSummary, kCalls, kParameters, kTokens, kChunks };

struct ShowOptions {
  std::string trace;
  ShowWhat what = ShowWhat::kSummary;
  bool json = false;  // one object; calls and parameters one object a line
};

Status show(const ShowOptions& options, std::ostream& out);

}  // namespace goldentrace
