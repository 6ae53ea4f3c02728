// replay: show, export, and one tensor against a place of a trace. Parses the command line and
// nothing else.
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "replayer/execute/verify.h"
#include "replayer/replay_main.h"
#include "replayer/report/format.h"
#include "replayer/report/show.h"
#include "replayer/tools/export.h"
#include "replayer/tools/export_slice.h"
#include "replayer/tools/place_report.h"
#include "replayer/tools/show_tensor.h"

namespace goldentrace::cli {
namespace {

// What executes a program, in a build that can.
template <typename Options>
void add_execution([[maybe_unused]] Options& options) {
#ifdef GOLDENTRACE_WITH_TORCH
  options.compare_environment = compare_environment;
  if constexpr (requires { options.execute_slice; }) options.execute_slice = execute_slice;
  if constexpr (requires { options.recompute; }) options.recompute = recompute;
#endif
}

struct ShowCommand {
  bool one_tensor = false;
  std::string path;
  ShowOptions options;
  ShowTensorOptions tensor;
};

struct ExportCommand {
  bool a_slice = false;
  ExportOptions options;
  SliceExportOptions slice;
};

// One forward pass; the prefill where none is named.
Result<std::uint32_t> one_step(const CallFilter& filter) {
  if (filter.last_step == std::numeric_limits<std::uint32_t>::max()) return filter.first_step;
  if (filter.first_step == filter.last_step) return filter.first_step;
  return Status(Code::kInvalidArgument, "--step: a place is in one forward pass, not in several");
}

int run_show_tensor(ShowCommand& command) {
  const auto step = one_step(command.options.filter);
  if (!step.ok()) return fail(step.status());
  ShowTensorOptions& options = command.tensor;
  options.trace = command.path;
  options.step = *step;
  add_execution(options);
  Progress progress;
  options.execute.progress = progress.on_terminal();
  const auto shown = show_tensor(options);
  progress.clear();
  if (!shown.ok()) return fail(shown.status());
  const Status delivered =
      deliver(text_report(*shown), json_report(*shown), command.options.json ? "-" : "");
  return delivered.ok() ? 0 : fail(delivered);
}

int run_show(ShowCommand& command) {
  if (command.one_tensor) return run_show_tensor(command);
  const auto trace = TraceReader::open(command.path);
  if (!trace.ok()) return fail(trace.status());
  (void)is_whole(**trace);
  const Status status = show(**trace, command.options, std::cout);
  if (!status.ok()) return fail(status);
  return std::cout.flush() ? 0 : fail({Code::kIo, "can't write to standard output"});
}

int run_export_slice(ExportCommand& command) {
  const auto step = one_step(command.options.filter);
  if (!step.ok()) return fail(step.status());
  SliceExportOptions& options = command.slice;
  options.trace = command.options.trace;
  options.folder = command.options.output;
  options.step = *step;
  add_execution(options);
  Progress progress;
  options.execute.progress = progress.on_terminal();
  const auto report = export_slice(options);
  progress.clear();
  if (!report.ok()) return fail(report.status());
  for (const std::string& note : report->notes) spdlog::warn("{}", note);
  const Status delivered =
      deliver(options.folder + ": " + printable(report->place) + ", " +
                  counted(report->calls, "call", "calls") + "; " +
                  counted(report->inputs, "input", "inputs") + ", " +
                  counted(report->outputs, "output", "outputs") + " as recorded and in float32, " +
                  counted(report->bytes, "byte", "bytes") + "; slice.json has their bands\n",
              "", "");
  return delivered.ok() ? 0 : fail(delivered);
}

int run_export(ExportCommand& command) {
  if (command.a_slice) return run_export_slice(command);
  const ExportOptions& options = command.options;
  const auto report = export_trace(options);
  if (!report.ok()) return fail(report.status());
  for (const std::string& note : report->notes) spdlog::warn("{}", note);
  const bool calls = options.output.ends_with(".jsonl");
  const std::string line = options.output + ": " +
                           (calls ? counted(report->written, "call", "calls")
                                  : counted(report->written, "tensor", "tensors") + ", " +
                                        counted(report->bytes, "byte", "bytes"));
  const Status delivered = deliver(line + "\n", "", "");
  return delivered.ok() ? 0 : fail(delivered);
}

void add_filter(CLI::App& command, CallFilter& filter) {
  add_scopes(command, filter);
  command
      .add_option("--op", filter.ops,
                  "operator, as aten::mul or aten::mul.Tensor, with * and ?; may be repeated")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  add_steps(command, "--step", filter);
  command.add_option("--call", filter.call, "number of the call");
  command.add_option("--hash", filter.hash, "first digits of a written tensor's hash")
      ->check([](const std::string& text) {
        return text.find_first_not_of("0123456789abcdef") == text.npos
                   ? ""
                   : "'" + text + "' is no lower-case hexadecimal number";
      });
}

}  // namespace

void add_show(CLI::App& app, Run& run) {
  const auto made = std::make_shared<ShowCommand>();
  ShowOptions& options = made->options;
  CLI::App* command = app.add_subcommand("show", "print what is in a trace");
  command->footer(
      "The filter is for --calls and --tensors. A place is SCOPE, the output of that module (a "
      "path,\n"
      "its end or a glob), or SCOPE/OP[#N], what the N-th call of the operator wrote there.");
  command->add_option("TRACE", made->path, "trace to read")->required();
  CLI::Option_group* what = command->add_option_group("What is printed");
  const auto add = [&](const char* flag, ShowWhat shown, const char* text) {
    what->add_flag_callback(
        flag, [&options, shown] { options.what = shown; }, text);
  };
  add("--calls", ShowWhat::kCalls, "every call, one a line");
  add("--tensors", ShowWhat::kTensors, "every tensor that a call wrote, one a line");
  add("--params", ShowWhat::kParameters, "the parameter dictionary");
  add("--tokens", ShowWhat::kTokens, "prompt, tokens and their gaps");
  add("--losses", ShowWhat::kLosses, "every counter: what was lost, and what is good to know");
  add("--time", ShowWhat::kTimes, "time inside calls and between them, by step and by operator");
  add("--chunks", ShowWhat::kChunks,
      "every chunk decoded, one JSON object a line (FORMAT.md, section 12)");
  what->add_option("--tensor", made->tensor.place,
                   "one tensor, in the forward pass --step (default 0, the prefill)")
      ->type_name("PLACE");
  what->require_option(0, 1);
  command->add_flag("--json", options.json, "as JSON");
  add_filter(*command, options.filter);
  CLI::Option* const tensor = what->get_option("--tensor");
  for (const char* other : {"--scope", "--op", "--call", "--hash"}) {
    tensor->excludes(command->get_option(other));
  }
  command
      ->add_option("--weights", made->tensor.execute.weights,
                   "with --tensor: model folder; a value that was not kept is computed again")
      ->needs(tensor);
  command
      ->add_option_function<std::string>(
          "--promote",
          [made](const std::string& name) { made->tensor.promote = dtype_from_name(name); },
          "with --tensor: run the program in this wider dtype instead")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->needs(tensor);
  command->callback([made, tensor, &run] {
    made->one_tensor = tensor->count() > 0;
    run = [made] { return run_show(*made); };
  });
}

void add_export(CLI::App& app, Run& run) {
  const auto made = std::make_shared<ExportCommand>();
  ExportOptions& options = made->options;
  CLI::App* command =
      app.add_subcommand("export", "write tensors or calls of a trace for other tools");
  command->footer(
      "OUT.npy holds one tensor. OUT.safetensors holds all that are selected, as \"scope/op\",\n"
      "then \"/step N\" after the prefill, then \"#2\", \"#3\" .. for what the same step wrote\n"
      "under that name before. OUT.jsonl holds calls, as show --calls --json prints them.\n"
      "Only tensors whose value was kept can be written: record with --rule 'scope=...:values'.\n"
      "--slice computes its tensors again: DIR/ gets inputs.safetensors, outputs.safetensors (as\n"
      "recorded), float32.safetensors and slice.json (calls, names, bands).");
  command->add_option("TRACE", options.trace, "trace to read")->required();
  command->add_option("-o,--output", options.output, "file to write; with --slice a folder")
      ->required();
  command->add_flag(
      "--bits", options.bits,
      "OUT.npy: bfloat16, 8-bit floats and complex32 as unsigned integers, not float32");
  add_filter(*command, options.filter);
  CLI::Option* const slice =
      command
          ->add_option("--slice", made->slice.place,
                       "calls of this module, or this call, SCOPE/OP[#N], in the forward pass "
                       "--step (default 0, the prefill)")
          ->type_name("PLACE");
  for (const char* other : {"--scope", "--op", "--call", "--hash", "--bits"}) {
    slice->excludes(command->get_option(other));
  }
  command->add_option("--weights", made->slice.execute.weights, "with --slice: model folder")
      ->needs(slice);
  command->callback([made, slice, &run] {
    made->a_slice = slice->count() > 0;
    run = [made] { return run_export(*made); };
  });
}

int judge_at(PlaceOptions options, const std::string& json_path) {
  add_execution(options);
  Progress progress;
  options.execute.progress = progress.on_terminal();
  const auto report = judge_place(options);
  progress.clear();
  if (!report.ok()) return fail(report.status());
  const Status delivered = deliver(text_report(*report), json_report(*report), json_path);
  return delivered.ok() ? report->exit() : fail(delivered);
}

}  // namespace goldentrace::cli
