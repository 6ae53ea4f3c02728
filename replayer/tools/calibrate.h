// `replay calibrate`: writes the oracle's trace once more with bands, which say how far rounding
// alone moves each of its outputs. They are measured from *twins*: traces of the same run that may
// round otherwise (other threads, another attention, inputs off by an ulp, the prompt in a batch,
// the whole sequence as one prefill), and from the program itself, executed in float32.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Relative L2 distances between recorded outputs and a twin's, one for each write of the program;
// NaN where there is none.
using TwinDistances = std::vector<float>;

struct Twin {
  std::string name;  // "attn sdpa"
  std::string trace;
};

struct CalibrateOptions {
  std::string trace;
  std::string output;
  std::vector<Twin> twins;
  // Where it is set: distances to the program executed in float32 with these weights
  // (execute/float32_twin.h, which needs Torch).
  std::string weights = {};
  std::function<Result<TwinDistances>(const TraceReader&, const std::string& weights)>
      float32_twin = {};
};

struct CalibrateReport {
  struct Measured {
    std::string name;
    std::uint64_t outputs = 0;
    double median = 0;
    double largest = 0;
  };
  std::vector<Measured> twins;
  std::uint64_t outputs = 0;  // that have a band now
  std::uint64_t writes = 0;
};

// kInvalidArgument when a twin is no run of the same tokens.
Result<CalibrateReport> calibrate(const CalibrateOptions& options);

}  // namespace goldentrace
