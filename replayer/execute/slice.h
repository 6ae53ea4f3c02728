// Computes tensors of a trace again: any one of them, or what goes into a slice of the program and
// comes out of it, in three ways. This header needs no Torch.
//
// The program runs as recorded up to the slice. The slice's calls run beside it in wider dtypes,
// and so with every float result rounded to the run's working dtype; both read what the recorded
// run holds wherever the slice reads what it has not made. Decisions and random results are the
// trace's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "replayer/band/dense_tensor.h"
#include "replayer/execute/promotion.h"
#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

struct ExecuteOptions {
  std::string weights;  // as find_weights takes it
  // Told now and then which share of the work is done, 0 to 1.
  std::function<void(double)> progress = {};
};

// A tensor, by its id, at a moment of the program.
struct TensorAt {
  std::uint64_t call = 0;
  std::uint32_t tensor = 0;
};

struct SliceRequest {
  std::vector<std::uint64_t> calls;  // rising
  std::vector<TensorAt> inputs;      // before a call of the slice
  std::vector<TensorAt> outputs;     // after one
  bool float64 = false;              // wider is float64, not the next wider dtype
};

struct SliceOutput {
  DenseTensor eager;    // in the recorded dtypes
  DenseTensor wide;     // from the same inputs
  DenseTensor rounded;  // the same, every float result rounded
};

struct SliceValues {
  DType working_dtype = DType::kBFloat16;
  std::vector<std::optional<DenseTensor>> inputs;  // none: memory that nothing has filled
  std::vector<SliceOutput> outputs;
};

// kInvalidArgument when the weights are others or the trace was trimmed; kUnsupported when a call
// of the slice can't run here.
Result<SliceValues> execute_slice(const TraceReader& trace, const ExecuteOptions& options,
                                  const SliceRequest& request);

// The tensor after that call, of the whole program run in these dtypes.
Result<DenseTensor> recompute(const TraceReader& trace, const ExecuteOptions& options,
                              const TensorAt& at, Promotion promotion);

}  // namespace goldentrace
