// `replay show T --tensor PLACE`: one tensor of a trace, kept or computed again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "replayer/align/place.h"
#include "replayer/execute/slice.h"

namespace goldentrace {

struct ShowTensorOptions {
  std::string trace;
  std::string place;  // as parse_place takes it
  std::uint32_t step = 0;
  std::optional<DType> promote = {};  // kFloat32 or kFloat64: the whole program runs in it
  ExecuteOptions execute = {};
  // execute/slice.h and verify.h, which need Torch.
  std::function<Result<DenseTensor>(const TraceReader&, const ExecuteOptions&, const TensorAt&,
                                    Promotion)>
      recompute = {};
  std::function<std::vector<std::string>(const Header&)> compare_environment = {};
};

struct ShownTensor {
  std::string trace;
  std::string weights;
  Place place;
  DenseTensor tensor;
  bool kept = false;  // taken from the trace, not computed
  std::optional<DType> promote;
  std::optional<bool> as_recorded;       // none: promoted, or no hash was recorded
  double moved = 0;                      // at least so far from it, relative L2, where stats tell
  std::vector<std::string> environment;  // how this machine differs, where the value does
};

Result<ShownTensor> show_tensor(const ShowTensorOptions& options);

std::string text_report(const ShownTensor& shown);
// {"report": "tensor", "version": 1, ...}, with the first thousand elements.
std::string json_report(const ShownTensor& shown);

}  // namespace goldentrace
