// `replay show --time`: where a recorded run's time went, as its timings tell.
#pragma once

#include <ostream>

#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Per step, the time inside calls against that between them (Python, dispatch, and what recording
// itself cost), and by operator. kNotFound when the trace keeps no timings.
Status show_times(const TraceReader& trace, bool as_json, std::ostream& out);

}  // namespace goldentrace
