#include "replayer/execute/slice.h"

#include <algorithm>
#include <utility>

#include "replayer/band/run_dtype.h"
#include "replayer/execute/execution.h"
#include "replayer/execute/weights.h"
#include "src/digest/digest.h"

namespace goldentrace {
namespace {

constexpr std::uint64_t kProgressEvery = 64;  // calls

// As it lies in memory, in the dtype that it is kept in there.
DenseTensor dense(const Memory& memory, std::uint32_t id) {
  const at::Tensor tensor = memory.tensor(id);
  DenseTensor copy{static_cast<DType>(tensor.scalar_type()), tensor.sizes().vec(), {}};
  copy.bytes = dense_bytes({static_cast<const std::byte*>(tensor.const_data_ptr()), copy.dtype,
                            tensor.sizes(), tensor.strides()});
  return copy;
}

class SliceExecution {
 public:
  // The first of the promotions is the whole program's, the others are the slice's; the third
  // rounds.
  SliceExecution(const TraceReader& trace, const Checkpoint& checkpoint,
                 const ExecuteOptions& options, const SliceRequest& request,
                 const std::vector<Promotion>& promotions)
      : trace_(trace),
        options_(options),
        request_(request),
        interpreters_(promotions.size()),
        execution_(trace, checkpoint, promotions, Alignment::kFull) {
    execution_.set_weight_cache(0);
    for (const TensorAt& output : request.outputs) last_ = std::max(last_, output.call);
  }

  // Values in the order of the request; of an output, one of each interpreter.
  Status run(DType working, std::vector<std::optional<DenseTensor>>& inputs,
             std::vector<std::vector<DenseTensor>>& outputs) {
    working_ = working;
    inputs.resize(request_.inputs.size());
    outputs.resize(request_.outputs.size());
    GOLDENTRACE_RETURN_IF_ERROR(execution_.open());
    auto next_of_slice = request_.calls.begin();
    while (true) {
      const auto more = execution_.next();
      if (!more.ok()) return more.status();
      const std::vector<std::string>& wrong = execution_.inputs().wrong_parameters();
      if (!wrong.empty()) {
        return {Code::kInvalidArgument,
                options_.weights + ": not the oracle's weights: " + wrong.front() + " differs"};
      }
      if (!*more)
        return {Code::kCorrupt, trace_.name() + ": ends before the call that is asked for"};
      const std::uint64_t number = execution_.number();
      if (options_.progress && number % kProgressEvery == 0) {
        options_.progress(static_cast<double>(number) / static_cast<double>(last_ + 1));
      }
      const bool in_slice = next_of_slice != request_.calls.end() && *next_of_slice == number;
      if (in_slice) ++next_of_slice;
      take_inputs(number, inputs);
      if ((execution_.call().flags & kCallFailed) == 0) {
        GOLDENTRACE_RETURN_IF_ERROR(in_slice ? run_in_slice() : run_outside());
      }
      GOLDENTRACE_RETURN_IF_ERROR(take_outputs(number, outputs));
      if (number == last_) return {};
    }
  }

 private:
  static constexpr std::size_t kEager = 0;
  static constexpr std::size_t kRounded = 2;

  [[nodiscard]] const Dictionary& dictionary() const { return execution_.dictionary(); }
  Memory& eager() { return execution_.memory(kEager); }

  template <typename Visit>
  Status visit_writes(Visit visit) {
    for (std::size_t w = 0; w < execution_.call().writes; ++w) {
      GOLDENTRACE_RETURN_IF_ERROR(
          visit(execution_.chunk().writes[execution_.call().first_write + w]));
    }
    return {};
  }

  // What later calls lack because one could not run stops only those that need it.
  Status run_outside() {
    const auto ran = execution_.run_as_recorded(1);
    if (!ran.ok()) return ran.status();
    return visit_writes([&](const Write& write) {
      mark(dictionary().tensor(write.tensor).storage, true);
      return *ran ? execution_.settle(write, 1) : Status();
    });
  }

  Status run_in_slice() {
    give_inputs();
    const auto ran = execution_.run_as_recorded();
    if (!ran.ok()) return ran.status();
    if (!*ran) {
      const std::string& why = execution_.why_not();
      return {Code::kUnsupported, trace_.name() + ": call " + std::to_string(execution_.number()) +
                                      ", " + dictionary().describe_op(execution_.call().op) +
                                      ", can't run here: " + why.substr(0, why.find('\n'))};
    }
    return visit_writes([&](const Write& write) {
      mark(dictionary().tensor(write.tensor).storage, false);
      GOLDENTRACE_RETURN_IF_ERROR(execution_.settle(write));
      round(write);
      return Status();
    });
  }

  // The recorded run has written into the storage since the slice's own did.
  void mark(std::uint32_t storage, bool stale) {
    if (storage >= stale_.size()) stale_.resize(dictionary().storages(), false);
    stale_[storage] = stale;
  }

  // Puts what the recorded run holds where the slice's own runs are to read it.
  void give_inputs() {
    const Call& call = execution_.call();
    for (std::size_t node = call.first_node; node < call.first_result; ++node) {
      const Node& argument = execution_.chunk().nodes[node];
      if (argument.kind != NodeKind::kTensor && argument.kind != NodeKind::kStorage) continue;
      const auto id = static_cast<std::uint32_t>(argument.value);
      give(argument.kind == NodeKind::kTensor ? dictionary().tensor(id).storage : id);
    }
  }

  void give(std::uint32_t storage) {
    if (!eager().has(storage)) return;
    const bool stale = storage < stale_.size() && stale_[storage];
    const c10::Storage& from = eager().storage(storage);
    for (std::size_t i = 1; i < interpreters_; ++i) {
      Memory& memory = execution_.memory(i);
      if (!stale && memory.has(storage)) continue;
      memory.fill(storage, {static_cast<const std::byte*>(from.data()), from.nbytes()});
    }
    mark(storage, false);
  }

  // As an engine that keeps everything in the working dtype would have it.
  void round(const Write& write) {
    const bool random = (execution_.call().flags & kCallRandom) != 0;
    const Tensor& tensor = dictionary().tensor(write.tensor);
    if (kRounded >= interpreters_ || random || (write.flags & kWriteUndefined) != 0 ||
        !is_real_float(tensor.dtype) || !execution_.memory(kRounded).has(tensor.storage)) {
      return;
    }
    execution_.round(write, kRounded, working_);
  }

  void take_inputs(std::uint64_t number, std::vector<std::optional<DenseTensor>>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const TensorAt& input = request_.inputs[i];
      if (input.call != number || !eager().has(dictionary().tensor(input.tensor).storage)) continue;
      inputs[i] = dense(eager(), input.tensor);
    }
  }

  Status take_outputs(std::uint64_t number, std::vector<std::vector<DenseTensor>>& outputs) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const TensorAt& output = request_.outputs[o];
      if (output.call != number) continue;
      for (std::size_t i = 0; i < interpreters_; ++i) {
        // Outside the slice there is one run alone.
        const Memory& memory = execution_.memory(i);
        if (!memory.has(dictionary().tensor(output.tensor).storage)) {
          const std::string& why = execution_.why_not();
          return {Code::kUnsupported,
                  trace_.name() + ": call " + std::to_string(number) + ", " +
                      dictionary().describe_op(execution_.call().op) +
                      ", can't be computed here: " + why.substr(0, why.find('\n'))};
        }
        outputs[o].push_back(dense(memory, output.tensor));
      }
    }
    return {};
  }

  const TraceReader& trace_;
  const ExecuteOptions& options_;
  const SliceRequest& request_;
  const std::size_t interpreters_;
  Execution execution_;
  std::uint64_t last_ = 0;
  DType working_ = DType::kBFloat16;
  std::vector<bool> stale_;  // by storage
};

Status execute(const TraceReader& trace, const ExecuteOptions& options, const SliceRequest& request,
               const std::vector<Promotion>& promotions, SliceValues& values,
               std::vector<std::vector<DenseTensor>>& outputs) {
  if (trace.summary().counter("calls_trimmed") > 0) {
    return {Code::kInvalidArgument,
            trace.name() +
                ": calls were trimmed away; what is left is no program that can be "
                "executed: take the trace that it was made from"};
  }
  const auto checkpoint = find_weights(options.weights, trace);
  if (!checkpoint.ok()) return checkpoint.status();
  values.working_dtype = run_dtype(trace);
  Status status;
  try {
    status = SliceExecution(trace, *checkpoint, options, request, promotions)
                 .run(values.working_dtype, values.inputs, outputs);
  } catch (const std::exception& error) {  // sizes in a file that no memory can hold
    const std::string what = error.what();
    status = Status(Code::kCorrupt, trace.name() + ": " + what.substr(0, what.find('\n')));
  }
  // Else it is the checkpoint that lacks something.
  const std::string& said = status.message();
  const bool named = said.starts_with(trace.name()) || said.starts_with(options.weights);
  return status.ok() || named ? status : Status(status.code(), options.weights + ": " + said);
}

}  // namespace

Result<SliceValues> execute_slice(const TraceReader& trace, const ExecuteOptions& options,
                                  const SliceRequest& request) {
  const Promotion wide = request.float64 ? Promotion::kFloat64 : Promotion::kNextWider;
  SliceValues values;
  std::vector<std::vector<DenseTensor>> outputs;
  GOLDENTRACE_RETURN_IF_ERROR(
      execute(trace, options, request, {Promotion::kNone, wide, wide}, values, outputs));
  for (std::vector<DenseTensor>& output : outputs) {
    values.outputs.push_back({std::move(output[0]), std::move(output[1]), std::move(output[2])});
  }
  return values;
}

Result<DenseTensor> recompute(const TraceReader& trace, const ExecuteOptions& options,
                              const TensorAt& at, Promotion promotion) {
  SliceRequest request;
  request.outputs = {at};
  SliceValues values;
  std::vector<std::vector<DenseTensor>> outputs;
  GOLDENTRACE_RETURN_IF_ERROR(execute(trace, options, request, {promotion}, values, outputs));
  return std::move(outputs.front().front());
}

}  // namespace goldentrace
