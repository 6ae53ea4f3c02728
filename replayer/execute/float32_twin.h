// The program itself as a twin: executed in float32, with the recorded decisions. Needs no Torch.
#pragma once

#include <string>

#include "replayer/tools/calibrate.h"

namespace goldentrace {

// `weights` as find_weights takes it. Calls that can't run here have no distance, nor have those
// that read what these should have made.
Result<TwinDistances> float32_twin(const TraceReader& trace, const std::string& weights);

}  // namespace goldentrace
