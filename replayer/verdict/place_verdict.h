// `replay X --against T --at PLACE`: one tensor, which somebody's kernel made from the oracle's own
// inputs, against what the oracle's calls make of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replayer/align/place.h"
#include "replayer/execute/slice.h"
#include "replayer/replay.h"

namespace goldentrace {

struct TensorVerdict {
  CutSums sums;
  double noise_floor = 0;
  ZoneReport zone;
  bool identical = false;  // eager's own bits

  // Relative L2 distance to the wide result.
  [[nodiscard]] double relative(const ErrorSums& errors) const;
};

// The candidate has a real float dtype and as many elements as the oracle's. `moves`: the calls
// move numbers and compute none.
TensorVerdict judge_tensor(const DenseTensor& candidate, const SliceOutput& oracle, bool moves,
                           DType working_dtype);

struct PlaceOptions {
  std::string oracle;
  std::string candidate;  // as load_tensor takes it
  std::string place;      // as parse_place takes it
  std::uint32_t step = 0;
  bool strict = false;
  bool float64 = false;
  ExecuteOptions execute = {};
  // execute/slice.h and verify.h, which need Torch.
  std::function<Result<SliceValues>(const TraceReader&, const ExecuteOptions&, const SliceRequest&)>
      execute_slice = {};
  std::function<std::vector<std::string>(const Header&)> compare_environment = {};
};

struct PlaceReport {
  Side oracle;
  std::string candidate;
  std::string candidate_type;  // "float32 [1, 96, 128]"
  std::string weights;
  Place place;
  TensorVerdict verdict;
  std::vector<std::int64_t> positions;   // of the step's tokens, of one request
  std::optional<bool> as_recorded;       // the oracle's own value here; none: no hash was recorded
  std::vector<std::string> environment;  // how this machine differs, where the value does
  bool strict = false;

  [[nodiscard]] int exit() const;
};

// kInvalidArgument where the candidate can't be held against the place.
Result<PlaceReport> judge_place(const PlaceOptions& options);

}  // namespace goldentrace
