// replay: holds a candidate's trace against the oracle's; proves a trace, checks and trims it;
// shows and exports what is in one (show_main.cpp).
// Parses the command line and nothing else.
// Exit status: 0 agree, 1 diverge, 2 no answer (usage, I/O, damaged file, not comparable); of
// check: 0 sound, 1 damaged.
#include "replayer/replay_main.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "replayer/execute/float32_twin.h"
#include "replayer/replay.h"
#include "replayer/report/format.h"
#include "replayer/report/json.h"
#include "replayer/report/recovery.h"
#include "replayer/report/text.h"
#include "replayer/tools/calibrate.h"
#include "replayer/tools/check.h"
#include "replayer/tools/load_tensor.h"
#include "replayer/tools/trim.h"
#include "replayer/verdict/doubts.h"
#include "src/base/dtype.h"
#include "src/format/difference.h"
#include "src/format/recover.h"
#include "src/format/trace_reader.h"

namespace goldentrace::cli {

int fail(const Status& status) {
  spdlog::error("{}", status.message());
  return 2;
}

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

bool is_whole(const TraceReader& trace) {
  const std::string missing = incompleteness(trace.summary());
  if (!missing.empty()) spdlog::warn("{}: not whole: {}", trace.name(), missing);
  return missing.empty();
}

std::function<void(double)> Progress::on_terminal() {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return std::ref(*this);
}

void Progress::operator()(double share) {
  const auto now = std::chrono::steady_clock::now();
  const auto since = [&](auto then) { return std::chrono::duration<double>(now - then).count(); };
  if (share < share_) pass_began_ = now;
  share_ = share;
  if (since(began_) < kQuiet || since(shown_) < kEvery || share <= 0) return;
  shown_ = now;
  visible_ = true;
  const double left = since(pass_began_) * (1 / share - 1);
  std::cerr << "\r  " << static_cast<int>(100 * share) << " % of the program, "
            << static_cast<int>(left) + 1 << " s left  " << std::flush;
}

void Progress::clear() {
  if (std::exchange(visible_, false)) std::cerr << "\r\x1b[K" << std::flush;
}

void add_scopes(CLI::App& command, CallFilter& filter) {
  command
      .add_option("--scope", filter.scopes,
                  "module path: ? is one character, * any but dots, ** any; may be repeated")
      ->allow_extra_args(false)
      ->type_name("GLOB");
}

void add_steps(CLI::App& command, const std::string& name, CallFilter& filter) {
  command.add_option_function<std::string>(
      name,
      [&filter](const std::string& text) {
        const auto steps = goldentrace::parse_steps(text);
        if (!steps.ok()) throw CLI::ValidationError(steps.status().message());
        std::tie(filter.first_step, filter.last_step) = *steps;
      },
      "forward passes, as 3 or 0..4; 0 is the prefill");
}

}  // namespace goldentrace::cli

namespace {

using goldentrace::Code;
using goldentrace::grouped;
using goldentrace::Status;
using goldentrace::cli::add_scopes;
using goldentrace::cli::add_steps;
using goldentrace::cli::deliver;
using goldentrace::cli::fail;
using goldentrace::cli::is_whole;
using goldentrace::cli::Progress;
using goldentrace::cli::Run;

int replay(goldentrace::ReplayOptions options, const std::vector<std::string>& candidates,
           const std::string& json_path) {
  for (const std::string& candidate : candidates) {
    if (!goldentrace::is_tensor_file(candidate)) continue;
    return fail({Code::kInvalidArgument,
                 candidate + ": is one tensor: --at PLACE --weights MODEL_DIR say what it is"});
  }
  if (options.depth == goldentrace::Depth::kLocal && options.local.weights.empty()) {
    return fail({Code::kInvalidArgument, "--depth local needs --weights"});
  }
  if (!options.local.weights.empty() && !options.measure_local) {
    return fail({Code::kUnsupported, "--weights: this replay was built without LibTorch"});
  }
  Progress progress;
  options.local.progress = progress.on_terminal();
  std::vector<goldentrace::ReplayReport> reports;
  for (const std::string& candidate : candidates) {
    options.candidate = candidate;
    auto report = goldentrace::run_replay(options);
    progress.clear();
    if (!report.ok()) return fail(report.status());
    reports.push_back(std::move(*report));
  }
  const Status delivered =
      deliver(goldentrace::text_report(reports), goldentrace::json_report(reports), json_path);
  return delivered.ok() ? goldentrace::exit_status(reports) : fail(delivered);
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

int run_recover(const std::string& in, const std::string& out) {
  const auto recovery = goldentrace::recover(in, out);
  if (!recovery.ok()) return fail(recovery.status());
  const Status delivered = deliver(goldentrace::recovery_report(*recovery, in, out), "", "");
  if (!delivered.ok()) return fail(delivered);
  return recovery->whole() ? 0 : 1;
}

int run_diff(const std::string& left, const std::string& right) {
  const auto a = goldentrace::TraceReader::open(left);
  if (!a.ok()) return fail(a.status());
  const auto b = goldentrace::TraceReader::open(right);
  if (!b.ok()) return fail(b.status());
  const auto call = goldentrace::first_difference(**a, **b);
  if (!call.ok()) return fail(call.status());
  const bool differ = call->has_value();
  bool whole = true;
  for (const auto& trace : {std::cref(*a), std::cref(*b)}) whole &= is_whole(*trace.get());
  std::string text = whole ? "the programs are equal, bit for bit\n"
                           : "the programs are equal, bit for bit, as far as they go\n";
  if (differ) {
    const std::string number = std::to_string(**call);
    text = "the programs differ first at call " + number + "\n";
    for (const std::string& path : {left, right}) {
      text += "  replay show " + path + " --calls --call " + number + "\n";
    }
  }
  const Status delivered = deliver(text, "", "");
  if (!delivered.ok()) return fail(delivered);
  if (differ) return 1;
  return whole ? 0 : 2;
}

int run_check(const goldentrace::CheckOptions& options, const std::string& json_path) {
  const auto report = goldentrace::check(options);
  if (!report.ok()) return fail(report.status());
  const Status delivered =
      deliver(goldentrace::text_report(*report), goldentrace::json_report(*report), json_path);
  if (!delivered.ok()) return fail(delivered);
  return goldentrace::check_exit_status(*report);
}

int run_calibrate(goldentrace::CalibrateOptions options) {
#ifdef GOLDENTRACE_WITH_TORCH
  options.float32_twin = goldentrace::float32_twin;
#else
  if (!options.weights.empty()) {
    return fail({Code::kUnsupported, "--weights: this replay was built without LibTorch"});
  }
#endif
  const auto report = goldentrace::calibrate(options);
  if (!report.ok()) return fail(report.status());
  std::string text = options.output + ": bands of " + grouped(report->outputs) + " of " +
                     goldentrace::counted(report->writes, "output", "outputs") + "\n";
  for (const auto& twin : report->twins) {
    text += "  " + twin.name + "   " + goldentrace::counted(twin.outputs, "output", "outputs") +
            ", median " + goldentrace::percent(twin.median) + ", largest " +
            goldentrace::percent(twin.largest) + "\n";
  }
  const Status delivered = deliver(text, "", "");
  return delivered.ok() ? 0 : fail(delivered);
}

int run_trim(const goldentrace::TrimOptions& options) {
  const auto report = goldentrace::trim(options);
  if (!report.ok()) return fail(report.status());
  const Status delivered = deliver(
      options.output + ": " + grouped(report->kept_calls) + " of " + grouped(report->calls) +
          " calls, " + grouped(report->values_dropped) + " values dropped, " +
          grouped(report->bytes_after) + " of " + grouped(report->bytes_before) + " bytes\n",
      "", "");
  return delivered.ok() ? 0 : fail(delivered);
}

// ---- the command line ---------------------------------------------------------------------------

constexpr const char* kIncompleteHelp = "let a trace that is not whole agree as far as it goes";

void add_verify(CLI::App& app, goldentrace::VerifyOptions& options, std::string& json_path,
                Run& run) {
  CLI::App* command =
      app.add_subcommand("verify", "execute a trace again and compare every output's hash");
  command->add_option("TRACE", options.trace, "trace to prove")->required();
  command->add_option("--weights", options.weights, "model folder")->required();
  command->add_option("--json", json_path, "write the report as JSON to this file");
  command->add_flag("--allow-incomplete", options.allow_incomplete, kIncompleteHelp);
  command
      ->add_option_function<std::string>(
          "--promote",
          [&options](const std::string& name) {
            options.promote = goldentrace::dtype_from_name(name);
          },
          "run in this wider dtype instead: every call must run and give its shape")
      ->check(CLI::IsMember({"float32", "float64"}));
  command
      ->add_option("--max-loss", options.max_loss,
                   "in another environment: share of calls that may be lost before the answer is "
                   "none (exit 2); default 0.01")
      ->check(CLI::Range(0.0, 1.0));
  command->callback([&] { run = [&] { return verify(options, json_path); }; });
}

void add_check(CLI::App& app, goldentrace::CheckOptions& options, std::string& json_path,
               Run& run) {
  CLI::App* command = app.add_subcommand(
      "check", "read every byte of a trace: checksums, ids, references, values; no weights needed");
  command->footer("Exit status: 0 sound, 1 damaged or against the rules, 2 no answer.");
  command->add_option("TRACE", options.trace, "trace to check")->required();
  command->add_option("--json", json_path, "write the report as JSON to this file; - is stdout");
  command->callback([&] { run = [&] { return run_check(options, json_path); }; });
}

void add_calibrate(CLI::App& app, goldentrace::CalibrateOptions& options, Run& run) {
  CLI::App* command =
      app.add_subcommand("calibrate", "write the oracle's trace with bands that its twins give");
  command->footer(
      "A twin is a trace of the same tokens by the same model that may round otherwise: other\n"
      "threads, another attention, the prompt in a batch, all tokens in one prefill. record hf\n"
      "--calibrate makes them and does this.");
  command->add_option("TRACE", options.trace, "the oracle's trace")->required();
  command->add_option("-o,--output", options.output, "trace to write")->required();
  command
      ->add_option_function<std::vector<std::string>>(
          "--twin",
          [&options](const std::vector<std::string>& all) {
            for (const std::string& text : all) {
              const std::size_t equals = text.find('=');
              if (equals == text.npos)
                throw CLI::ValidationError("'" + text + "' is no NAME=TRACE");
              options.twins.push_back({text.substr(0, equals), text.substr(equals + 1)});
            }
          },
          "a twin and what it is called; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=TRACE");
  command->add_option("--weights", options.weights,
                      "also execute the program in float32 with these, as a twin");
  command->callback([&] { run = [&] { return run_calibrate(options); }; });
}

void add_trim(CLI::App& app, goldentrace::TrimOptions& options, Run& run) {
  CLI::App* command = app.add_subcommand("trim", "write a smaller trace");
  command->footer(
      "With --scope or --steps the calls inside are kept, numbered anew, with what was put into\n"
      "their memory from outside, all parameters and requests, and the text of those steps. The\n"
      "answer says that it was trimmed: it can be held against other traces, not executed.\n"
      "--drop-values keeps the values of decisions, random calls, external inputs and parameters:\n"
      "executing the program needs them. Without --scope and --steps the program stays whole.");
  command->add_option("IN", options.trace, "trace to read")->required();
  command->add_option("OUT", options.output, "trace to write")->required();
  add_scopes(*command, options.filter);
  add_steps(*command, "--steps", options.filter);
  command->add_flag("--drop-values", options.drop_values, "drop values that can be computed again");
  command->add_flag("--drop-timings", options.drop_timings, "drop when each call ran");
  command->callback([&] { run = [&] { return run_trim(options); }; });
}

void add_diff(CLI::App& app, std::string& left, std::string& right, Run& run) {
  CLI::App* command = app.add_subcommand(
      "diff", "whether two traces hold the same program with the same digests, by their indexes");
  command->footer(
      "Decodes only the chunk of the first call that differs. Times, threads and parameters are\n"
      "not compared. Exit status: 0 equal, 1 not, 2 no answer.");
  command->add_option("A", left, "trace")->required();
  command->add_option("B", right, "trace")->required();
  command->callback([&] { run = [&] { return run_diff(left, right); }; });
}

void add_recover(CLI::App& app, std::string& in, std::string& out, Run& run) {
  CLI::App* command = app.add_subcommand(
      "recover", "make a readable trace of what a cut or damaged one still holds");
  command->footer(
      "Exit status: 0 nothing of the recording is missing, 1 something is, 2 nothing is left.");
  command->add_option("IN", in, "trace to read")->required();
  command->add_option("OUT", out, "trace to write")->required();
  command->callback([&] { run = [&] { return run_recover(in, out); }; });
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_st("replay"));
  spdlog::set_pattern("replay: %v");

  CLI::App app{
      "Hold another run's trace against the oracle's, op by op, inside bands:\n"
      "  replay CANDIDATE.. --against ORACLE [--json FILE]",
      "replay"};
  app.footer(
      "Distances are relative L2 where both traces keep values, else a lower bound from stats.\n"
      "Default band: 6 % in a bfloat16 run, 1 % in float16, 0.01 % in float32.\n"
      "Exit status: 0 agree, 1 diverge, 2 no answer.");
  goldentrace::ReplayOptions options;
  std::string json_path;
  std::vector<std::string> candidates;
  app.add_option("CANDIDATE", candidates, "traces of the runs under test")->type_name("");
  app.add_option("--against", options.oracle, "the oracle's trace");
  app.add_option("--json", json_path, "write the whole report as JSON to this file; - is stdout");
  app.add_flag("--allow-incomplete", options.allow_incomplete, kIncompleteHelp);
  CLI::Option* const weights = app.add_option(
      "--weights", options.local.weights,
      "judge every call from the candidate's own inputs: the oracle's model folder, or "
      "several with ':' between, of which the right one is taken");
  app.add_option_function<std::string>(
         "--steps",
         [&options](const std::string& text) {
           const auto steps = goldentrace::parse_steps(text);
           if (!steps.ok()) throw CLI::ValidationError(steps.status().message());
           std::tie(options.local.first_step, options.local.last_step) = *steps;
         },
         "with --weights: forward passes to judge, as 3 or 0..4; 0 is the prefill")
      ->needs(weights);
  app.add_option("--weight-cache", options.local.weight_cache,
                 "with --weights: how much memory promoted weights may keep, as 8G; default half "
                 "of what is free")
      ->transform(CLI::AsSizeValue(false))
      ->needs(weights);
  app.add_option(
         "--device", options.local.device,
         "with --weights: where the program is executed, cpu or cuda; default cpu, wherever "
         "it was recorded")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->needs(weights);
  app.add_flag("--float64", options.local.float64,
               "with --weights: errors are measured against float64, not the next wider dtype")
      ->needs(weights);
  app.add_option("--depth", options.depth,
                 "how far to look: tokens (text, ids, configuration, logits), bands (every call "
                 "against its band) or local (every call from its own inputs); default is all that "
                 "the evidence allows")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, goldentrace::Depth>{{"tokens", goldentrace::Depth::kTokens},
                                                    {"bands", goldentrace::Depth::kBands},
                                                    {"local", goldentrace::Depth::kLocal}}));
  app.add_flag("--strict", options.strict,
               "with --weights: rounding at other points than eager is a difference")
      ->needs(weights);
  goldentrace::PlaceOptions at;
  CLI::Option* const place = app.add_option(
      "--at", at.place,
      "CANDIDATE is one tensor (.npy, .safetensors), which a kernel gave from the oracle's own "
      "inputs of this place: SCOPE or SCOPE/OP[#N]");
  place->needs(weights)->type_name("PLACE");
  for (const char* other : {"--steps", "--weight-cache", "--depth", "--device"}) {
    place->excludes(app.get_option(other));
  }
  app.add_option("--step", at.step, "with --at: forward pass of the place; default 0, the prefill")
      ->needs(place);
#ifdef GOLDENTRACE_WITH_TORCH
  options.measure_local = goldentrace::measure_local;
#endif

  Run run;
  goldentrace::VerifyOptions verify_options;
  goldentrace::CheckOptions check_options;
  goldentrace::TrimOptions trim_options;
  goldentrace::CalibrateOptions calibrate_options;
  add_verify(app, verify_options, json_path, run);
  goldentrace::cli::add_show(app, run);
  add_check(app, check_options, json_path, run);
  goldentrace::cli::add_export(app, run);
  add_trim(app, trim_options, run);
  add_calibrate(app, calibrate_options, run);

  std::string damaged;
  std::string recovered;
  add_recover(app, damaged, recovered, run);
  std::string left;
  std::string right;
  add_diff(app, left, right, run);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // --help is a success
  }
  if (run) return run();
  if (candidates.empty() || options.oracle.empty()) {
    return fail({Code::kInvalidArgument,
                 "give a trace and --against another: replay CANDIDATE --against ORACLE"});
  }
  if (place->count() > 0) {
    if (candidates.size() > 1) {
      return fail({Code::kInvalidArgument, "with --at one tensor is judged: give one candidate"});
    }
    at.oracle = options.oracle;
    at.candidate = candidates.front();
    at.strict = options.strict;
    at.float64 = options.local.float64;
    at.execute.weights = options.local.weights;
    return goldentrace::cli::judge_at(std::move(at), json_path);
  }
  return replay(std::move(options), candidates, json_path);
}
