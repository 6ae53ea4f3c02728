// What a program reads and does not make: parameters from the checkpoint, external inputs from the
// trace, put into memory before the call that they were recorded at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replayer/execute/memory.h"
#include "replayer/execute/weights.h"
#include "src/base/status.h"
#include "src/event/run.h"
#include "src/format/safetensors.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

class ProgramInputs {
 public:
  // All must outlive this. Every memory gets the same.
  ProgramInputs(const TraceReader& trace, const Checkpoint& checkpoint,
                const Dictionary& dictionary, std::vector<Memory*> memories, Alignment alignment)
      : trace_(trace),
        checkpoint_(checkpoint),
        dictionary_(dictionary),
        memories_(std::move(memories)),
        alignment_(alignment) {}

  // Reads the parameter dictionary.
  Status open();
  // Calls one by one, in rising order; `chunk` holds call `number`.
  Status put_before(const ProgramChunk& chunk, std::uint64_t number);

  // Those whose bytes are not the recorded ones.
  [[nodiscard]] const std::vector<std::string>& wrong_parameters() const { return wrong_; }
  [[nodiscard]] std::uint64_t parameters() const { return parameters_.size(); }
  [[nodiscard]] std::uint64_t externals() const { return externals_; }
  [[nodiscard]] std::uint64_t holes() const { return holes_; }

 private:
  Status put_external(const External& external);

  const TraceReader& trace_;
  const Checkpoint& checkpoint_;
  const Dictionary& dictionary_;
  const std::vector<Memory*> memories_;
  const Alignment alignment_;
  std::vector<Parameter> parameters_;  // in order of the call before which they are put in place
  std::size_t next_parameter_ = 0;
  std::uint64_t chunk_ = 0;  // first call of the chunk that next_external_ is about
  std::size_t next_external_ = 0;
  std::vector<std::string> wrong_;
  std::uint64_t externals_ = 0;
  std::uint64_t holes_ = 0;
};

}  // namespace goldentrace
