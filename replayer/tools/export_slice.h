// `replay export T --slice PLACE -o DIR/`: what a kernel is to be run on, and what it is judged by.
//
//   DIR/inputs.safetensors   what the slice reads and does not make, as eager had it
//   DIR/outputs.safetensors  what it gives, as eager made it: the recorded dtypes
//   DIR/float32.safetensors  what the same calls give from these inputs in wider dtypes: as float32
//   DIR/slice.json           the calls, the names in those files, and each output's band
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replayer/execute/slice.h"
#include "src/base/status.h"
#include "src/event/run.h"

namespace goldentrace {

struct SliceExportOptions {
  std::string trace;
  std::string place;  // as parse_place takes it
  std::uint32_t step = 0;
  std::string folder;
  ExecuteOptions execute = {};
  // execute/slice.h and verify.h, which need Torch.
  std::function<Result<SliceValues>(const TraceReader&, const ExecuteOptions&, const SliceRequest&)>
      execute_slice = {};
  std::function<std::vector<std::string>(const Header&)> compare_environment = {};
};

struct SliceExportReport {
  std::string place;
  std::uint64_t calls = 0;
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
  std::uint64_t bytes = 0;         // of all tensors
  std::vector<std::string> notes;  // what somebody who uses the files should know
};

// kInvalidArgument when the folder holds something else; nothing is written then. What an earlier
// export of this kind left there is replaced.
Result<SliceExportReport> export_slice(const SliceExportOptions& options);

}  // namespace goldentrace
