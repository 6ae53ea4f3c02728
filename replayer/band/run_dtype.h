// Which dtype's rounding a whole run carries.
#pragma once

#include "src/base/dtype.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// The dtype that the header names; where it names none (a script), the coarsest real float among
// the program's tensors. bfloat16 where there is none, or the program can't be read.
DType run_dtype(const TraceReader& trace);
// The default band of that dtype: a run's float32 tensors carry the rounding of its weights.
double run_band(const TraceReader& trace);

}  // namespace goldentrace
