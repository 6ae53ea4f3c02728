// `replay show`: what is in one trace, as text or JSON, streamed to `out`.
#pragma once

#include <ostream>

#include "replayer/report/call_filter.h"
#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

enum class ShowWhat : std::uint8_t {
  kSummary,
  kCalls,
  kTensors,
  kParameters,
  kTokens,
  kLosses,
  kChunks,
  kTimes
};

struct ShowOptions {
  ShowWhat what = ShowWhat::kSummary;
  bool json = false;       // one object; calls, tensors, parameters and losses one object a line
  CallFilter filter = {};  // of calls and tensors
};

Status show(const TraceReader& trace, const ShowOptions& options, std::ostream& out);

}  // namespace goldentrace
