// The writer's thread: turns what callers gave into chunks of a trace. One thread at a time, in the
// order of giving; ids of tensors and parameters were given out by the callers' side (Writer).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/capi/arguments.h"
#include "src/capi/host_copy.h"
#include "src/event/chunk_builder.h"
#include "src/event/run.h"
#include "src/format/trace_writer.h"

namespace goldentrace::capi {

struct TensorJob {
  std::uint32_t id = 0;  // dense, like that of parameters
  std::string name;
  std::string op;
  std::uint32_t step = 0;
  std::uint32_t flags = 0;  // GOLDENTRACE_TENSOR_*
  std::vector<std::uint32_t> inputs;
  std::string layout;
  Placement placement;
  std::vector<Row> rows;
  Timing timing;
  Shape shape;
  HostCopy data;
};

struct ParameterJob {
  Parameter parameter;  // without hash, when there is data
  Shape shape;
  std::optional<HostCopy> data;
};

struct LogitsJob {
  Step step;
  std::size_t top = 0;
  Shape shape;
  HostCopy data;
};

struct FlushJob {};

using Job = std::variant<TensorJob, ParameterJob, LogitsJob, Request, Step, FlushJob>;

class Assembler {
 public:
  Assembler(std::unique_ptr<TraceWriter> writer, std::string device)
      : writer_(std::move(writer)), device_(std::move(device)) {}

  // The first failure latches; later jobs then only wait for their device copies.
  Status handle(Job& job);
  // Everything that is left, then summary, index and footer. `summary` lacks calls and what is
  // counted here.
  Status close(Summary summary);

 private:
  Status take(TensorJob& job);
  Status take(ParameterJob& job);
  Status take(LogitsJob& job);
  Status take(Request& request);
  Status take(Step& step);
  Status take(FlushJob& job);

  void add_call(const TensorJob& job, const Write& write);
  void add_notes(const TensorJob& job);
  void define_tensor(std::uint32_t id, const Shape& shape);
  Status flush_program();
  Status flush_text();

  std::unique_ptr<TraceWriter> writer_;
  std::string device_;
  ChunkBuilder builder_;
  std::vector<bool> is_written_;  // by tensor id: a call's result, not a parameter
  std::vector<Parameter> parameters_;
  std::uint64_t parameters_size_ = 0;
  Text text_;
  std::uint64_t text_size_ = 0;
  Status status_;
  bool interrupted_ = false;  // a job was left half done; the queue has what was thrown
  std::uint64_t parameters_by_value_ = 0;
};

}  // namespace goldentrace::capi
