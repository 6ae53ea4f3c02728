// The hashes of a golden trace, walked beside a run: `--only-where-differs GOLD.fb`. No Torch here.
// Memory grows with one step's calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/status.h"
#include "src/event/program.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

class GoldenHashes {
 public:
  // What opening a trace can give, and kInvalidArgument for one without a program.
  static Result<std::unique_ptr<GoldenHashes>> open(const std::string& path);

  // From now on the run's calls are of `step`, which may be said again. A golden trace that ends
  // before it knows none of them.
  Status begin_step(std::uint32_t step);

  enum class Answer : std::uint8_t {
    kEqual,    // or nothing to compare: no hash on one side
    kDiffers,  // another hash, or a call that the golden trace does not have
  };
  // The next call of this operator ("aten::mul.Tensor") in this module in this step.
  Answer compare(const std::string& scope, const std::string& op, std::span<const Write> writes);

 private:
  explicit GoldenHashes(std::unique_ptr<TraceReader> trace)
      : trace_(std::move(trace)), program_(*trace_) {}

  struct Calls {
    std::vector<std::vector<Write>> writes;  // of each call, in order
    std::size_t next = 0;
  };
  void add(const Call& call);

  std::unique_ptr<TraceReader> trace_;
  ProgramReader program_;
  std::optional<std::uint32_t> step_;
  std::size_t next_call_ = 0;  // of the program's chunk
  bool at_end_ = false;
  std::unordered_map<std::string, Calls> calls_;  // by scope and operator
};

}  // namespace goldentrace
