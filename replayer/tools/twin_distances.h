// How far a twin's outputs are from the oracle's, write by write.
#pragma once

#include "replayer/align/step_reader.h"
#include "replayer/tools/calibrate.h"

namespace goldentrace {

// A twin ran the same tokens: as the oracle did, in a batch with others, or all in one prefill;
// its requests and steps say which. Of the latter two it needs values. kInvalidArgument when it ran
// others.
Result<TwinDistances> twin_distances(const TraceReader& oracle, const TraceReader& twin);

// Of one output from what is kept of both; NaN where that is too little.
float digest_distance(const Output& want, const Output& got);

}  // namespace goldentrace
