// The tensors of a trace that a filter selects: what `replay export` writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replayer/report/call_filter.h"
#include "src/base/dtype.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

struct SelectedTensor {
  std::string name;  // unique
  std::uint64_t call = 0;
  DType dtype = DType::kFloat32;
  std::uint8_t flags = 0;  // TensorFlag
  std::vector<std::int64_t> shape;
  Hash128 hash;
  std::uint64_t bytes = 0;
  [[nodiscard]] bool same_as(const SelectedTensor& other) const {
    return dtype == other.dtype && flags == other.flags && shape == other.shape &&
           hash == other.hash;
  }
};

struct Selection {
  std::vector<SelectedTensor> tensors;  // whose value is kept
  std::uint64_t not_kept = 0;
  std::vector<std::string> not_kept_first;  // names of the first ones
};

Result<Selection> select_tensors(const TraceReader& trace, const CallFilter& filter);

}  // namespace goldentrace
