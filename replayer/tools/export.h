// `replay export`: tensors of a trace into files of other tools, calls into JSON lines. Reads the
// program twice at most; memory grows with what is selected and one part of a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replayer/report/call_filter.h"
#include "src/base/status.h"

namespace goldentrace {

struct ExportOptions {
  std::string trace;
  // Its ending says what is written:
  //   .npy          one tensor, the only one that the filter selects; equal ones count as one
  //   .safetensors  every selected tensor whose value is kept, under export_name
  //   .jsonl        the selected calls, one object a line, as `replay show --calls --json`
  std::string output;
  CallFilter filter;
  // .npy: what NumPy lacks (bfloat16, 8-bit floats, complex32) as unsigned integers; else the first
  // two become float32, exactly.
  bool bits = false;
};

struct ExportReport {
  std::uint64_t selected = 0;  // tensors or calls
  std::uint64_t written = 0;
  std::uint64_t bytes = 0;         // of their elements
  std::uint64_t not_kept = 0;      // tensors without value
  std::vector<std::string> notes;  // what somebody who uses the file should know
};

// kNotFound when nothing is selected or no value of it is kept; then, and after every other
// failure, `output` is as it was before.
Result<ExportReport> export_trace(const ExportOptions& options);

// Names of written tensors in a .safetensors file: "scope/op", then "/step N" after the prefill,
// then "#2", "#3" ... for what the same step wrote under the same name before, selected or not.
// Outside every module: "op".
std::string export_name(const std::string& scope, const std::string& op, std::uint32_t step);

}  // namespace goldentrace
