// Compares the calls of two traces, step by step, under the default bands.
#pragma once

#include <cstdint>
#include <optional>

#include "replayer/replay.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Compares steps up to and including `last_step`; both traces' later steps have other inputs.
Result<OpsReport> compare_ops(const TraceReader& oracle, const TraceReader& candidate,
                              std::uint32_t last_step);

}  // namespace goldentrace
