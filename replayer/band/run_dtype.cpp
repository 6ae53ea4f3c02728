#include "replayer/band/run_dtype.h"

#include <optional>

#include "replayer/band/band.h"

namespace goldentrace {

DType run_dtype(const TraceReader& trace) {
  if (const auto named = dtype_from_name(trace.header().dtype)) return *named;
  std::optional<DType> coarsest;
  ProgramReader program(trace);
  while (true) {
    const auto more = program.next();
    if (!more.ok() || !*more) break;
    for (const Tensor& tensor : program.chunk().tensors) {
      if (!is_real_float(tensor.dtype)) continue;
      if (!coarsest || unit_roundoff(tensor.dtype) > unit_roundoff(*coarsest)) {
        coarsest = tensor.dtype;
      }
    }
  }
  return coarsest.value_or(DType::kBFloat16);
}

DType run_dtype(const TraceReader& oracle, const TraceReader& candidate) {
  const DType want = run_dtype(oracle);
  const DType got = run_dtype(candidate);
  return unit_roundoff(got) > unit_roundoff(want) ? got : want;
}

}  // namespace goldentrace
