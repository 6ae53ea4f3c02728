// replay: holds a candidate's trace against the oracle's; proves a trace; shows what is in one.
// Parses the command line and nothing else.
// Exit status: 0 agree, 1 diverge, 2 no answer (usage, I/O, damaged file, not comparable).
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <string>

#include "replayer/replay.h"
#include "replayer/report/json.h"
#include "replayer/report/recovery.h"
#include "replayer/report/show.h"
#include "replayer/report/text.h"
#include "src/base/dtype.h"
#include "src/format/recover.h"
#include "src/format/trace_reader.h"

namespace {

using goldentrace::Code;
using goldentrace::Status;

int fail(const Status& status) {
  spdlog::error("{}", status.message());
  return 2;
}

// Prints `text`; writes `json` to `path` unless that is empty ("-" is standard output, alone).
Status deliver(const std::string& text, const std::string& json, const std::string& path) {
  std::cout << (path == "-" ? json : text) << std::flush;
  if (!std::cout) return {Code::kIo, "can't write the report to standard output"};
  if (path.empty() || path == "-") return {};
  std::ofstream file(path);
  file << json;
  file.close();
  if (!file) return {Code::kIo, path + ": can't write the JSON report"};
  return {};
}

int replay(const goldentrace::ReplayOptions& options, const std::string& json_path) {
  const auto report = goldentrace::run_replay(options);
  if (!report.ok()) return fail(report.status());
  const Status delivered =
      deliver(goldentrace::text_report(*report), goldentrace::json_report(*report), json_path);
  if (!delivered.ok()) return fail(delivered);
  return goldentrace::exit_status(report->verdict);
}

int verify([[maybe_unused]] const goldentrace::VerifyOptions& options,
           [[maybe_unused]] const std::string& json_path) {
#ifdef GOLDENTRACE_WITH_TORCH
  const auto report = goldentrace::verify(options);
  if (!report.ok()) return fail(report.status());
  const auto trace = goldentrace::TraceReader::open(options.trace);
  if (!trace.ok()) return fail(trace.status());
  const auto doubts = goldentrace::doubts_of((*trace)->header(), (*trace)->summary());
  const Status delivered = deliver(goldentrace::text_report(*report, doubts),
                                   goldentrace::json_report(*report, doubts), json_path);
  if (!delivered.ok()) return fail(delivered);
  return goldentrace::verify_exit_status(*report);
#else
  return fail({Code::kUnsupported, "verify: this replay was built without LibTorch"});
#endif
}

int recover(const std::string& in, const std::string& out) {
  const auto recovery = goldentrace::recover(in, out);
  if (!recovery.ok()) return fail(recovery.status());
  std::cout << goldentrace::recovery_report(*recovery, in, out) << std::flush;
  if (!std::cout) return fail({Code::kIo, "can't write to standard output"});
  return recovery->whole() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_st("replay"));
  spdlog::set_pattern("replay: %v");

  CLI::App app{
      "Hold another run's trace against the oracle's, op by op, inside bands:\n"
      "  replay CANDIDATE --against ORACLE [--json FILE]",
      "replay"};
  app.footer(
      "Distances are relative L2 where both traces keep values, else a lower bound from stats.\n"
      "Default band: 6 % in a bfloat16 run, 1 % in float16, 0.01 % in float32.\n"
      "Exit status: 0 agree, 1 diverge, 2 no answer.");
  goldentrace::ReplayOptions options;
  std::string json_path;
  app.add_option("CANDIDATE", options.candidate, "trace of the run under test");
  app.add_option("--against", options.oracle, "the oracle's trace");
  app.add_option("--json", json_path, "write the whole report as JSON to this file; - is stdout");
  const char* incomplete_help = "let a trace that is not whole agree as far as it goes";
  app.add_flag("--allow-incomplete", options.allow_incomplete, incomplete_help);

  goldentrace::VerifyOptions verify_options;
  CLI::App* verify_command =
      app.add_subcommand("verify", "execute a trace again and compare every output's hash");
  verify_command->add_option("TRACE", verify_options.trace, "trace to prove")->required();
  verify_command->add_option("--weights", verify_options.weights, "model folder")->required();
  verify_command->add_option("--json", json_path, "write the report as JSON to this file");
  verify_command->add_flag("--allow-incomplete", verify_options.allow_incomplete, incomplete_help);
  std::string promote;
  verify_command
      ->add_option("--promote", promote,
                   "run in this wider dtype instead: every call must run and give its shape")
      ->check(CLI::IsMember({"float32", "float64"}));
  verify_command
      ->add_option("--max-loss", verify_options.max_loss,
                   "in another environment: share of calls that may be lost before the answer is "
                   "none (exit 2); default 0.01")
      ->check(CLI::Range(0.0, 1.0));

  goldentrace::ShowOptions show_options;
  bool calls = false;
  bool params = false;
  bool tokens = false;
  CLI::App* show_command = app.add_subcommand("show", "print what is in a trace");
  show_command->add_option("TRACE", show_options.trace, "trace to read")->required();
  auto* calls_flag = show_command->add_flag("--calls", calls, "every call, one a line");
  auto* params_flag = show_command->add_flag("--params", params, "the parameter dictionary");
  auto* tokens_flag = show_command->add_flag("--tokens", tokens, "prompt, tokens and their gaps");
  calls_flag->excludes(params_flag)->excludes(tokens_flag);
  params_flag->excludes(tokens_flag);
  bool chunks = false;
  auto* chunks_flag = show_command->add_flag(
      "--chunks", chunks, "every chunk decoded, one JSON object a line (FORMAT.md, section 12)");
  chunks_flag->excludes(calls_flag)->excludes(params_flag)->excludes(tokens_flag);
  show_command->add_flag("--json", show_options.json, "as JSON");

  std::string damaged;
  std::string recovered;
  CLI::App* recover_command = app.add_subcommand(
      "recover",
      "make a readable trace of what a cut or damaged one still holds\n"
      "Exit status: 0 nothing of the recording is missing, 1 something is, 2 nothing is left");
  recover_command->add_option("IN", damaged, "trace to read")->required();
  recover_command->add_option("OUT", recovered, "trace to write")->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // --help is a success
  }
  if (verify_command->parsed()) {
    verify_options.promote = goldentrace::dtype_from_name(promote);
    return verify(verify_options, json_path);
  }
  if (recover_command->parsed()) return recover(damaged, recovered);
  if (show_command->parsed()) {
    using goldentrace::ShowWhat;
    if (calls) show_options.what = ShowWhat::kCalls;
    if (params) show_options.what = ShowWhat::kParameters;
    if (tokens) show_options.what = ShowWhat::kTokens;
    if (chunks) show_options.what = ShowWhat::kChunks;
    const Status status = goldentrace::show(show_options, std::cout);
    if (!status.ok()) return fail(status);
    return std::cout.flush() ? 0 : fail({Code::kIo, "can't write to standard output"});
  }
  if (options.candidate.empty() || options.oracle.empty()) {
    return fail({Code::kInvalidArgument,
                 "give a trace and --against another: replay CANDIDATE --against ORACLE"});
  }
  return replay(options, json_path);
}
