// Rebuilds a program's parameters from a checkpoint by their recorded recipes, and proves each by
// hash.
#pragma once

#include <string>
#include <vector>

#include "replayer/execute/memory.h"
#include "src/base/status.h"
#include "src/event/run.h"
#include "src/format/safetensors.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Fills `memory` with every parameter. Names whose bytes are not those recorded go to `wrong`. Not
// ok when a source is missing from the checkpoint, or a stored value from the trace.
Status load_parameters(const TraceReader& trace, const std::vector<Parameter>& parameters,
                       const Checkpoint& checkpoint, const Dictionary& dictionary, Memory& memory,
                       std::vector<std::string>& wrong);

}  // namespace goldentrace
