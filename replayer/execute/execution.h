// Drives one program through several interpreters side by side, call by call: parameters and
// external inputs are put in place before the call that they were recorded at, and memory is given
// back after the last call that touches it.
//
//   GOLDENTRACE_RETURN_IF_ERROR(execution.open());
//   while (true) {
//     const auto more = execution.next();
//     if (!more.ok()) return more.status();
//     if (!*more) break;
//     ... execution.run(interpreter, control) for each ...
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replayer/execute/interpreter.h"
#include "replayer/execute/lifetimes.h"
#include "replayer/execute/program_inputs.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Of a decision: the bytes that stand for it, by its write and its place among the call's. Empty
// where none are known.
using Control = std::function<Result<Bytes>(const Write& write, std::size_t output)>;

// Values that a call picked by an index of its own (topk, sort) are picked by the index that
// stands. The answer is how far that is from what it would have picked: the greatest difference
// over the greatest value; 0 where both indices are the same.
Result<double> force_picked(const ProgramChunk& chunk, const Call& call,
                            const Dictionary& dictionary, const Control& control,
                            Interpreter& interpreter, std::vector<c10::IValue>& results);

class Execution {
 public:
  static constexpr std::size_t kAll = ~std::size_t{0};

  // One interpreter for each promotion. `trace` and `checkpoint` must outlive this.
  Execution(const TraceReader& trace, const Checkpoint& checkpoint,
            const std::vector<Promotion>& promotions, Alignment alignment,
            c10::Device device = c10::DeviceType::CPU);
  // Bytes of promoted parameters that stay in memory between calls; all, unless it is set.
  void set_weight_cache(std::uint64_t bytes);

  Status open();
  // Goes to the next call; false after the last one, or where parameters are not those recorded.
  Result<bool> next();

  [[nodiscard]] const ProgramChunk& chunk() const { return program_.chunk(); }
  [[nodiscard]] const Call& call() const { return chunk().calls[at_]; }
  [[nodiscard]] std::uint64_t number() const { return chunk().base.calls + at_; }
  [[nodiscard]] const Dictionary& dictionary() const { return program_.dictionary(); }
  [[nodiscard]] const ProgramInputs& inputs() const { return inputs_; }
  Interpreter& interpreter(std::size_t i) { return *interpreters_[i]; }
  Memory& memory(std::size_t i) { return interpreters_[i]->memory(); }

  // The trace's own.
  Result<Bytes> recorded_control(const Write& write) const;

  // Executes the call in the first `interpreters` of them and puts its results in place; decisions
  // are as computed. False where it can't be executed: its results are lost then, in all of these.
  Result<bool> run(const Control& control, std::size_t interpreters = kAll);
  // Why the last call that could not be executed can't.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  // force_picked's answer in the first interpreter, of the last call.
  [[nodiscard]] double margin() const { return margin_; }
  // The same with the trace's own decisions.
  Result<bool> run_as_recorded(std::size_t interpreters = kAll);
  // Puts the trace's own decision or random result in place, where the write is one and memory is
  // there for it.
  Status settle(const Write& write, std::size_t interpreters = kAll);
  // What the write left in one interpreter, rounded to `dtype`.
  void round(const Write& write, std::size_t interpreter, DType dtype);
  // Whether memory holds what a write is about, in all interpreters.
  bool has(const Write& write);

 private:
  Status execute(Interpreter& interpreter, const Control& control);
  void place(std::size_t& node, const c10::IValue& result, Interpreter& interpreter);

  const TraceReader& trace_;
  ProgramReader program_;
  Environment environment_;
  std::vector<std::unique_ptr<Interpreter>> interpreters_;
  ProgramInputs inputs_;
  std::optional<Lifetimes> lifetimes_;
  std::size_t at_ = 0;
  bool started_ = false;
  double margin_ = 0;
  std::string why_not_;
};

}  // namespace goldentrace
