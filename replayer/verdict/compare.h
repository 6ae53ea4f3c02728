// Compares the calls of two traces, step by step, under the default bands.
#pragma once

#include <cstdint>
#include <optional>

#include "replayer/align/batch.h"
#include "replayer/replay.h"
#include "src/base/dtype.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Compares steps up to and including `last_step`; both traces' later steps have other inputs. With
// `given_tokens` nothing follows from which token was chosen: decisions outside every module are
// then left to the rung of the tokens.
Result<OpsReport> compare_ops(const TraceReader& oracle, const TraceReader& candidate,
                              std::uint32_t last_step, bool given_tokens, DType run_dtype,
                              const BatchRow& row = {});

}  // namespace goldentrace
