#include "replayer/execute/verify.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "replayer/execute/interpreter.h"
#include "replayer/execute/outputs.h"
#include "replayer/execute/weights.h"
#include "replayer/verdict/doubts.h"
#include "src/base/machine.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

std::vector<std::string> compare_environment(const Header& header) {
  std::vector<std::pair<std::string, std::string>> here = {
      {"torch", TORCH_VERSION},
      {"cpu_capability", at::get_cpu_capability()},
      {"mkldnn", at::globalContext().userEnabledMkldnn() ? "on" : "off"},
  };
  for (auto& entry : machine_environment()) here.push_back(std::move(entry));
  std::vector<std::string> differences;
  for (const auto& [key, value] : here) {
    std::string recorded = header.environment_value(key);
    // The wheel's build tag ("+cu130") is not part of the version that LibTorch states.
    if (key == "torch") recorded = recorded.substr(0, recorded.find('+'));
    if (!recorded.empty() && recorded != value) {
      differences.push_back(key + " " + recorded + " when recorded, " + value + " here");
    }
  }
  return differences;
}

// Number of the last call that touches each storage, so that memory is given back after it.
class Lifetimes {
 public:
  static Result<Lifetimes> read(const TraceReader& trace) {
    Lifetimes lifetimes;
    std::vector<std::uint64_t> last;
    ProgramReader program(trace);
    while (true) {
      const auto more = program.next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      const Dictionary& dictionary = program.dictionary();
      last.resize(dictionary.storages(), 0);
      const ProgramChunk& chunk = program.chunk();
      for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
        const Call& call = chunk.calls[i];
        for (std::size_t n = call.first_node; n < call.end_node; ++n) {
          if (chunk.nodes[n].kind != NodeKind::kTensor) continue;
          const auto tensor = static_cast<std::uint32_t>(chunk.nodes[n].value);
          last[dictionary.tensor(tensor).storage] = chunk.base.calls + i;
        }
        for (std::size_t w = 0; w < call.writes; ++w) {
          const std::uint32_t tensor = chunk.writes[call.first_write + w].tensor;
          last[dictionary.tensor(tensor).storage] = chunk.base.calls + i;
        }
      }
    }
    for (std::uint32_t storage = 0; storage < last.size(); ++storage) {
      lifetimes.ends_.emplace_back(last[storage], storage);
    }
    std::sort(lifetimes.ends_.begin(), lifetimes.ends_.end());
    return lifetimes;
  }

  void release_after(std::uint64_t call, Memory& memory) {
    for (; next_ < ends_.size() && ends_[next_].first <= call; ++next_) {
      memory.release(ends_[next_].second);
    }
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> ends_;
  std::size_t next_ = 0;
};

// Drives one execution from the first call to the last: inputs of the program are put in place
// before the call that they were recorded at, memory is given back after its last use.
class Execution {
 public:
  Execution(const TraceReader& trace, const Checkpoint& checkpoint, VerifyReport& report)
      : trace_(trace),
        checkpoint_(checkpoint),
        report_(report),
        program_(trace),
        interpreter_(program_.dictionary(), report.promote),
        outputs_(trace, program_.dictionary(), interpreter_, report) {}

  Status run() {
    auto lifetimes = Lifetimes::read(trace_);
    if (!lifetimes.ok()) return lifetimes.status();
    auto parameters = trace_.parameters();
    if (!parameters.ok()) return parameters.status();
    parameters_ = std::move(*parameters);
    std::stable_sort(parameters_.begin(), parameters_.end(),
                     [](const Parameter& x, const Parameter& y) { return x.call < y.call; });
    report_.parameters = parameters_.size();

    while (report_.wrong_parameters.empty()) {
      const auto more = program_.next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      interpreter_.memory().learn(program_.chunk());
      GOLDENTRACE_RETURN_IF_ERROR(run_chunk(*lifetimes));
    }
    outputs_.finish();
    return {};
  }

 private:
  Status run_chunk(Lifetimes& lifetimes) {
    const ProgramChunk& chunk = program_.chunk();
    std::size_t next_external = 0;
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const std::uint64_t number = chunk.base.calls + i;
      GOLDENTRACE_RETURN_IF_ERROR(put_parameters(number));
      if (!report_.wrong_parameters.empty()) return {};
      for (;
           next_external < chunk.externals.size() && chunk.externals[next_external].call <= number;
           ++next_external) {
        GOLDENTRACE_RETURN_IF_ERROR(put_external(chunk.externals[next_external]));
      }
      GOLDENTRACE_RETURN_IF_ERROR(run_call(chunk, chunk.calls[i], number));
      lifetimes.release_after(number, interpreter_.memory());
    }
    return {};
  }

  Status put_parameters(std::uint64_t call) {
    for (; next_parameter_ < parameters_.size() && parameters_[next_parameter_].call <= call;
         ++next_parameter_) {
      const Parameter& parameter = parameters_[next_parameter_];
      const auto right = load_parameter(trace_, parameter, checkpoint_, program_.dictionary(),
                                        interpreter_.memory());
      if (!right.ok()) return right.status();
      if (!*right) report_.wrong_parameters.push_back(parameter.name);
    }
    return {};
  }

  Status put_external(const External& external) {
    // Computed by the program, and so here too.
    if (external.kind == ExternalKind::kRepeated) return {};
    const auto bytes = trace_.value(external.hash);
    if (!bytes.ok()) return bytes.status();
    if (bytes->size() != program_.dictionary().storage(external.storage).bytes) {
      return {Code::kCorrupt, "an external input has another size than its storage"};
    }
    interpreter_.memory().fill(external.storage, *bytes);
    ++report_.externals;
    if (external.kind == ExternalKind::kHole) ++report_.holes;
    return {};
  }

  Status run_call(const ProgramChunk& chunk, const Call& call, std::uint64_t number) {
    ++report_.calls;
    outputs_.begin(call, number);
    if ((call.flags & kCallFailed) != 0) {
      ++report_.threw_when_recorded;
      return {};
    }
    std::vector<c10::IValue> results;
    try {
      results = interpreter_.run(chunk, call);
    } catch (const CannotRun& cannot) {
      outputs_.lose(chunk, call, cannot.why);
      return {};
    } catch (const std::exception& error) {
      outputs_.lose(chunk, call, std::string("throws: ") + error.what());
      return {};
    }
    ++report_.executed;
    return outputs_.compare(chunk, call, std::move(results));
  }

  const TraceReader& trace_;
  const Checkpoint& checkpoint_;
  VerifyReport& report_;
  ProgramReader program_;
  Interpreter interpreter_;
  Outputs outputs_;
  std::vector<Parameter> parameters_;  // in order of the call before which they are put in place
  std::size_t next_parameter_ = 0;
};

}  // namespace

Result<VerifyReport> verify(const VerifyOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  auto trace = TraceReader::open(options.trace);
  if (!trace.ok()) return trace.status();
  if (const auto trimmed = (*trace)->summary().counter("calls_trimmed"); trimmed > 0) {
    return Status(Code::kInvalidArgument,
                  options.trace + ": " + std::to_string(trimmed) +
                      " calls were trimmed away; what is left is no program that can be executed: "
                      "verify the trace that it was made from");
  }
  GOLDENTRACE_RETURN_IF_ERROR((*trace)->check_bytes());
  const Summary& summary = (*trace)->summary();
  if (!options.allow_incomplete &&
      (summary.counter("trace_cut") + summary.counter("chunks_lost")) > 0) {
    return Status(Code::kCorrupt, options.trace + ": not whole: " + incompleteness(summary) +
                                      "; --allow-incomplete proves what is there");
  }
  const auto checkpoint = Checkpoint::open(options.weights);
  if (!checkpoint.ok()) return checkpoint.status();

  VerifyReport report;
  report.trace = options.trace;
  report.promote = options.promote;
  report.max_loss = options.max_loss;
  report.environment = compare_environment((*trace)->header());
  report.mode = options.promote              ? VerifyMode::kPromoted
                : report.environment.empty() ? VerifyMode::kExact
                                             : VerifyMode::kElsewhere;
  Status status;
  try {
    status = Execution(**trace, *checkpoint, report).run();
  } catch (const std::exception& error) {  // sizes in the file that no memory can hold
    const std::string what = error.what();
    status = Status(Code::kCorrupt, options.trace + ": " + what.substr(0, what.find('\n')));
  }
  if (!status.ok()) {
    const bool named = status.message().starts_with(options.trace);
    return Status(status.code(),
                  named ? status.message() : options.weights + ": " + status.message());
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return report;
}

}  // namespace goldentrace
