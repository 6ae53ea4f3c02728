// Which dtype's rounding a whole run carries.
#pragma once

#include "src/base/dtype.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// The dtype that the header names; where it names none (a script), the coarsest real float among
// the program's tensors. bfloat16 where there is none, or the program can't be read.
// Reads the whole program in that case: ask once.
DType run_dtype(const TraceReader& trace);
// The coarser one of two runs'.
DType run_dtype(const TraceReader& oracle, const TraceReader& candidate);

}  // namespace goldentrace
