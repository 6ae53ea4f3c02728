// Holds what a call gave against what was recorded of it, and counts.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "replayer/band/band.h"
#include "replayer/band/run_dtype.h"
#include "replayer/execute/interpreter.h"
#include "replayer/execute/verify.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

class Outputs {
 public:
  static constexpr std::size_t kMaxFindings = 20;

  Outputs(const TraceReader& trace, const Dictionary& dictionary, Interpreter& interpreter,
          VerifyReport& report);

  // The call that the following are about.
  void begin(const Call& call, std::uint64_t number);
  void find(std::string what);
  void lose(const ProgramChunk& chunk, const Call& call, const std::string& why);
  // Compares, and leaves in memory what later calls shall read. Not ok when the trace lacks a
  // value.
  Status compare(const ProgramChunk& chunk, const Call& call, std::vector<c10::IValue> results);
  // After the last call: decides about what was over the band.
  void finish();

 private:
  // Outputs of one operator in one scope, over all steps: small tensors of single steps are too
  // noisy to be judged alone (see PooledDistance).
  struct Pool {
    PooledDistance distance;
    double band = 0;
    std::uint64_t over = 0;  // outputs over the band that this operator moved there
    VerifyFinding first;     // of these
  };
  void compare_result(const ProgramChunk& chunk, const Call& call, std::size_t& node,
                      const c10::IValue& result);
  void compare_scalar(const Node& want, const c10::IValue& result);
  void compare_tensor(const ProgramChunk& chunk, const Call& call, std::uint32_t id,
                      const c10::IValue& result);
  Status compare_write(const ProgramChunk& chunk, const Call& call, const Write& write);
  Status take_value(const Write& write, const at::Tensor& target);
  Status judge(const ProgramChunk& chunk, const Write& write, const at::Tensor& got,
               const Stats& stats);
  Result<Distance> distance(const ProgramChunk& chunk, const Write& write, const at::Tensor& got,
                            const Stats& stats) const;

  [[nodiscard]] bool exact() const { return report_.mode == VerifyMode::kExact; }

  const TraceReader& trace_;
  const Dictionary& dictionary_;
  Interpreter& interpreter_;
  VerifyReport& report_;
  VerifyFinding current_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Pool> pools_;  // by scope and operator
  Pool* pool_ = nullptr;                                           // of the current call
  double distance_read_ = 0;                             // of the worst tensor that the call read
  std::unordered_map<std::uint32_t, double> distances_;  // by storage; absent is 0
};

}  // namespace goldentrace
