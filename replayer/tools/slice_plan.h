// What a slice of a program reads and gives, by the recorded program alone: nothing is executed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replayer/align/place.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// A tensor that goes into the slice or comes out of it.
struct SliceTensor {
  std::uint32_t tensor = 0;  // id
  // In: before this call. Out: after it.
  std::uint64_t call = 0;
  // A parameter's own name (with "/view" of another view of it), else that of the call which wrote
  // it as `replay export` has it, else "external". Unique among those that go in, and those that
  // come out.
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
};

struct SlicePlan {
  // Read by calls of the slice, and made by none of them.
  std::vector<SliceTensor> inputs;
  // The place's own tensor, then what calls after the slice read of what it wrote.
  std::vector<SliceTensor> outputs;
  std::vector<std::string> calls;  // as `replay show --calls --json` has them
};

// Reads the whole program once.
Result<SlicePlan> plan_slice(const TraceReader& trace, const Place& place);

}  // namespace goldentrace
