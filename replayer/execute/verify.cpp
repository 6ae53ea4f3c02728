#include "replayer/execute/verify.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "replayer/execute/execution.h"
#include "replayer/execute/outputs.h"
#include "replayer/execute/weights.h"
#include "replayer/verdict/doubts.h"
#include "src/base/machine.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

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

namespace {

Promotion promotion_to(std::optional<DType> dtype) {
  if (!dtype) return Promotion::kNone;
  return *dtype == DType::kFloat64 ? Promotion::kFloat64 : Promotion::kFloat32;
}

// Executes the whole program, and holds every call's results against what was recorded.
class Verification {
 public:
  Verification(const TraceReader& trace, const Checkpoint& checkpoint, VerifyReport& report)
      : report_(report),
        execution_(trace, checkpoint, {promotion_to(report.promote)}, Alignment::kFull),
        outputs_(trace, execution_.dictionary(), execution_.interpreter(0), report) {}

  Status run() {
    GOLDENTRACE_RETURN_IF_ERROR(execution_.open());
    const ProgramInputs& inputs = execution_.inputs();
    report_.parameters = inputs.parameters();
    while (true) {
      const auto more = execution_.next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      GOLDENTRACE_RETURN_IF_ERROR(run_call(execution_.chunk(), execution_.call()));
    }
    report_.wrong_parameters = inputs.wrong_parameters();
    report_.externals = inputs.externals();
    report_.holes = inputs.holes();
    outputs_.finish();
    return {};
  }

 private:
  Status run_call(const ProgramChunk& chunk, const Call& call) {
    ++report_.calls;
    outputs_.begin(call, execution_.number());
    if ((call.flags & kCallFailed) != 0) {
      ++report_.threw_when_recorded;
      return {};
    }
    std::vector<c10::IValue> results;
    try {
      results = execution_.interpreter(0).run(chunk, call);
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

  VerifyReport& report_;
  Execution execution_;
  Outputs outputs_;
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
  const auto checkpoint = find_weights(options.weights, **trace);
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
    status = Verification(**trace, *checkpoint, report).run();
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
