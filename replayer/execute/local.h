// Local error of a candidate: the oracle's program is executed call by call, from the candidate's
// own tensors wherever the candidate's trace holds them, and each of those is compared before it
// takes the place of what was computed. This header needs no Torch.
//
// Memory: the parameters in the recorded dtype and promoted, and tensors that later calls read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "replayer/band/local_error.h"
#include "src/base/dtype.h"
#include "src/base/status.h"

namespace goldentrace {

struct LocalOptions {
  std::string oracle;
  std::string candidate;
  std::string weights;           // as find_weights takes it
  std::uint32_t first_step = 0;  // of those that are judged; the ones before run too
  std::uint32_t last_step = 0xffffffff;
  std::string device = "cpu";  // as open_device takes it
  bool float64 = false;  // the wide run is in float64, not in the next wider dtype of each tensor
  // Bytes of promoted parameters that stay in memory between calls; none: half of what is free.
  std::optional<std::uint64_t> weight_cache = {};
  // Told now and then which share of the work is done, 0 to 1. Grows, but a second pass may follow.
  std::function<void(double)> progress = {};
};

// One output of one call of the model's code; all decode steps are one, a prefill is one.
struct LocalCut {
  bool prefill = false;
  std::string scope;
  std::string op;
  std::uint32_t ordinal = 0;  // among the scope's calls of this operator
  std::uint32_t output = 0;   // among the call's
  std::string tensor;         // "bfloat16 [1, 96, 128]", of the first
  std::uint64_t oracle_call = 0;
  std::uint64_t candidate_call = 0;
  std::uint32_t step = 0;
  std::uint32_t steps = 0;
  bool exact = false;  // a copy, view, gather or cast that loses nothing
  CutSums sums;
  double noise_floor = 0;
  // Of a cut that is not in band: positions of the tokens whose rows are over the fully rounded
  // run's error, and of those that were looked at. Empty where no dimension is the tokens'.
  std::vector<std::int64_t> dirty_tokens;
  std::vector<std::int64_t> tokens;
  Magnitude magnitude;  // of a cut that is not in band
  // What it was computed from, as far as that was compared: places in LocalReport::cuts.
  std::vector<std::size_t> inputs;
  std::size_t inputs_in_band = 0;
  ZoneReport zone;
};

struct LocalReport {
  DType working_dtype = DType::kBFloat16;
  std::uint64_t calls = 0;
  std::uint64_t outputs = 0;              // real float outputs of these calls
  std::uint64_t compared = 0;             // of them, with a value of the candidate's
  std::uint64_t decisions = 0;            // integer and bool outputs that steer the program
  std::uint64_t decisions_differing = 0;  // the candidate's is not what its own inputs give
  // Modules in which the candidate decided otherwise than the oracle, and the first step of each.
  // What follows there in such a step is not judged.
  std::map<std::string, std::uint32_t> rerouted;
  // Modules in which the candidate picked other values than the best of its own, by more than
  // rounding does: how much worse, as a share of the greatest.
  std::map<std::string, double> misrouted;
  std::uint64_t rerouted_outputs = 0;
  std::map<std::string, std::uint64_t> lost;  // calls that could not run here, by operator
  std::vector<std::string> wrong_parameters;
  double alarm_rate = 0;       // of one cut
  std::vector<LocalCut> cuts;  // in the order of their first calls
  double seconds = 0;
};

Result<LocalReport> measure_local(const LocalOptions& options);

}  // namespace goldentrace
