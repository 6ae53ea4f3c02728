// record: runs an oracle under the recorder. Parses the command line, then becomes the Python that
// runs the model (goldentrace.hf), or runs a command whose Python processes record themselves:
// this program itself needs no Torch.
// Exit status: 0 done and the trace is whole, 2 not; of a command that fails, the command's own.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "recorder/golden_hashes.h"
#include "recorder/inputs.h"
#include "recorder/keep_rules.h"
#include "recorder/run_script.h"

namespace {

using goldentrace::Code;
using goldentrace::Result;
using goldentrace::RunInput;
using goldentrace::Status;

constexpr const char* kRuleHelp =
    "for experts: key=glob,...:digest with keys scope, op, step (0 is the prefill) and digests "
    "none, "
    "hash, stats, sketch, values; the last match decides, else --keep does";

constexpr const char* kKeepHelp =
    "tokens: no calls; golden: the program, and hash, stats and sketch of prefill, first four and "
    "last step; cuts: also the values that modules hand back; all: all values";

constexpr const char* kCompressHelp =
    "values=none, values=fast (faster and smaller than zstd -1) or values=small";
const CLI::IsMember kCompressModes({"values=none", "values=fast", "values=small"});

struct HfOptions {
  std::string model;
  std::string output;
  std::string token_ids;
  std::string prompt;
  std::string prompts;
  std::string follow;
  std::int64_t max_new_tokens = 16;
  bool max_new_tokens_given = false;
  std::string dtype = "bfloat16";
  std::string attn = "eager";
  std::string experts = "eager";
  std::string device = "cpu";
  bool ignore_eos = false;
  bool strict = false;
  bool selfcheck = false;
  std::vector<std::string> calibrate;
  bool dry_run = false;
  goldentrace::KeepOptions keep;
  std::string python;
};

std::filesystem::path program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

// Where the Python package was put, from where this program is: ../python beside bin/.
std::filesystem::path package_folder() { return program_folder().parent_path() / "python"; }

// Replaces this process; returns only when that fails.
Status run_python(const std::string& python, const std::string& module,
                  const nlohmann::json& options) {
  const std::string packages = package_folder().string();
  const char* before = std::getenv("PYTHONPATH");
  const std::string path =
      before != nullptr && *before != '\0' ? packages + ":" + before : packages;
  ::setenv("PYTHONPATH", path.c_str(), 1);

  // The options travel through a pipe: a prompt may be longer than an argument is allowed to be.
  const std::string text = options.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::FILE* file = std::tmpfile();
  if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file) != text.size() ||
      std::fflush(file) != 0) {
    return {Code::kIo, std::string("can't write a temporary file: ") + std::strerror(errno)};
  }
  std::rewind(file);
  if (::dup2(::fileno(file), STDIN_FILENO) < 0) {
    return {Code::kIo, std::string("can't pass options: ") + std::strerror(errno)};
  }
  const char* arguments[] = {python.c_str(), "-m", module.c_str(), "-", nullptr};
  ::execvp(python.c_str(), const_cast<char* const*>(arguments));
  return {Code::kNotFound, "can't run " + python + ": " + std::strerror(errno) +
                               " (choose another with --python or GOLDENTRACE_PYTHON)"};
}

// Before anything is loaded or run.
Status check_options(const goldentrace::KeepOptions& options) {
  GOLDENTRACE_RETURN_IF_ERROR(check_keep(options));
  if (options.only_where_differs.empty()) return {};
  return goldentrace::GoldenHashes::open(options.only_where_differs).status();
}

void add_keep_options(CLI::App& app, goldentrace::KeepOptions& options) {
  app.add_option("--keep", options.keep, kKeepHelp)
      ->check(CLI::IsMember({"tokens", "golden", "cuts", "all"}));
  app.add_option("--rule", options.rules, kRuleHelp)->always_capture_default(false);
  app.add_option("--compress", options.compress, kCompressHelp)->check(kCompressModes);
  app.add_option("--only-where-differs", options.only_where_differs,
                 "a golden trace: keep the values, of arguments too, of the first calls whose "
                 "results have other hashes than there")
      ->always_capture_default(false);
  app.add_option("--differing-calls", options.differing_calls, "so many of them");
}

// The runs that were asked for: one, or one a line of --prompts.
Result<std::vector<RunInput>> read_runs(const HfOptions& options) {
  const auto given = {!options.token_ids.empty(), !options.prompt.empty(), !options.prompts.empty(),
                      !options.follow.empty()};
  if (std::ranges::count(given, true) != 1) {
    return Status(Code::kInvalidArgument,
                  "give exactly one of --token-ids, --prompt, --prompts and --follow");
  }
  if (!options.prompts.empty()) return goldentrace::read_prompts(options.prompts);
  RunInput run;
  if (!options.follow.empty()) {
    auto followed = goldentrace::read_follow(options.follow);
    if (!followed.ok()) return followed.status();
    run = std::move(*followed);
  } else if (!options.token_ids.empty()) {
    auto ids = goldentrace::parse_token_ids_argument(options.token_ids);
    if (!ids.ok()) return ids.status();
    run.origin = "--token-ids";
    run.prompt_ids = std::move(*ids);
  } else {
    if (!goldentrace::is_utf8(options.prompt)) {
      return Status(Code::kInvalidArgument, "--prompt: is not UTF-8");
    }
    run.origin = "--prompt";
    run.prompt = options.prompt;
  }
  return std::vector<RunInput>{std::move(run)};
}

// -o is the trace of a single run, and the folder of the traces of --prompts.
Result<nlohmann::json> runs_json(const HfOptions& options, const std::vector<RunInput>& runs) {
  const bool folder = !options.prompts.empty();
  if (folder) {
    std::error_code error;
    std::filesystem::create_directories(options.output, error);
    if (error) return Status(Code::kIo, options.output + ": " + error.message());
  }
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  auto list = nlohmann::json::array();
  for (const RunInput& run : runs) {
    const std::filesystem::path output(options.output);
    const bool forced = run.output_ids || run.output_text;
    nlohmann::json entry = {
        {"origin", run.origin},
        {"output", (folder ? output / (run.id + ".fb") : output).string()},
        {"prompt", or_null(run.prompt)},
        {"prompt_ids", or_null(run.prompt_ids)},
        {"output_text", or_null(run.output_text)},
        {"output_ids", or_null(run.output_ids)},
        {"max_new_tokens", or_null(run.max_new_tokens)},  // null: as long as what is forced
    };
    if (!run.max_new_tokens && (!forced || options.max_new_tokens_given)) {
      entry["max_new_tokens"] = options.max_new_tokens;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Status record_hf(const HfOptions& options, const std::vector<std::string>& command) {
  GOLDENTRACE_RETURN_IF_ERROR(check_options(options.keep));
  const auto inputs = read_runs(options);
  if (!inputs.ok()) return inputs.status();
  const auto runs = runs_json(options, *inputs);
  if (!runs.ok()) return runs.status();
  const nlohmann::json json = {
      {"model", options.model},
      {"runs", *runs},
      {"dtype", options.dtype},
      {"attn", options.attn},
      {"experts", options.experts},
      {"device", options.device},
      {"keep", to_json(options.keep)},
      {"dry_run", options.dry_run},
      {"ignore_eos", options.ignore_eos},
      {"command", command},
      {"strict", options.strict},
      {"selfcheck", options.selfcheck},
      {"calibrate", options.calibrate},
      {"replay", (program_folder() / "replay").string()},
  };
  std::string python = options.python;
  if (python.empty()) {
    const char* named = std::getenv("GOLDENTRACE_PYTHON");
    python = named != nullptr && *named != '\0' ? named : GOLDENTRACE_PYTHON;
  }
  // No compiled regions and no scripted functions: both are read when torch is imported.
  ::setenv("TORCHDYNAMO_DISABLE", "1", 1);
  ::setenv("PYTORCH_JIT", "0", 1);
  return run_python(python, "goldentrace.hf", json);
}

int record_script(goldentrace::ScriptOptions& options) {
  Status status;
  if (options.command.empty()) {
    status = {Code::kInvalidArgument,
              "give a command, record -o TRACE -- python SCRIPT, or a subcommand: record hf"};
  } else if (options.output.empty()) {
    status = {Code::kInvalidArgument, "give the trace to write: -o TRACE"};
  } else {
    status = check_options(options.keep);
  }
  if (!status.ok()) {
    spdlog::error("{}", status.message());
    return 2;
  }
  options.packages = package_folder();
  return goldentrace::run_script(options);
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_st("record"));
  spdlog::set_pattern("record: %v");

  goldentrace::ScriptOptions script;
  CLI::App app{
      "Record a model's run, op by op, into a trace:\n"
      "  record -o TRACE [--rule RULE]... -- python SCRIPT ARGUMENTS...",
      "record"};
  app.require_subcommand(0, 1);
  app.footer(
      "The command runs unchanged, from its import of torch to its end; a second process that\n"
      "imports torch gets a trace of its own, TRACE with the process id before the suffix.\n"
      "Exit status: the command's own; 2 when that is 0 and a trace is missing or not whole.");
  app.add_option("-o,--output", script.output, "trace to write");
  add_keep_options(app, script.keep);

  HfOptions options;
  CLI::App* hf = app.add_subcommand(
      "hf", "run a transformers model, eager and greedy, by its own modelling code");
  hf->option_defaults()->always_capture_default();
  hf->add_option("MODEL_DIR", options.model, "folder with config.json and *.safetensors")
      ->required();
  hf->add_option("-o,--output", options.output, "trace to write; with --prompts the traces' folder")
      ->required();
  hf->add_option("--token-ids", options.token_ids, "prompt as ids: 1,2,3 or @FILE")
      ->always_capture_default(false);
  hf->add_option("--prompt", options.prompt, "prompt as text, by the model's tokenizer")
      ->always_capture_default(false);
  hf->add_option("--prompts", options.prompts,
                 "JSON lines, a trace each: prompt or prompt_ids, and maybe id, max_new_tokens, "
                 "output_ids or output_text to force")
      ->always_capture_default(false);
  hf->add_option("--follow", options.follow,
                 "take prompt and continuation from a trace, a JSON object, ids or text; the "
                 "continuation is forced")
      ->always_capture_default(false);
  CLI::Option* max_new_tokens =
      hf->add_option("--max-new-tokens", options.max_new_tokens,
                     "tokens to generate; of a forced continuation all, unless given")
          ->check(CLI::Range(std::int64_t{1}, goldentrace::kMaxNewTokens));
  hf->add_option("--dtype", options.dtype, "dtype to run in")
      ->check(CLI::IsMember({"bfloat16", "float16", "float32"}));
  hf->add_option("--attn", options.attn, "attention implementation")
      ->check(CLI::IsMember({"eager", "sdpa"}));
  hf->add_option("--experts", options.experts, "experts implementation")
      ->check(CLI::IsMember({"eager", "grouped_mm", "batched_mm"}));
  hf->add_option("--device", options.device, "where to run")->check(CLI::IsMember({"cpu", "cuda"}));
  hf->add_flag("--ignore-eos", options.ignore_eos, "go on after a stop id");
  hf->add_flag("--strict", options.strict,
               "refuse a model that is not wholly the reference code, whose weights the checkpoint "
               "lacks, or that drops out");
  hf->add_flag("--selfcheck", options.selfcheck,
               "prove the recording: same logits without it, causal, no hidden writes, verified");
  hf->add_option("--calibrate", options.calibrate,
                 "run the model again in these ways, and write how far rounding moves each output "
                 "into the trace: fp32,threads,attn,perturb,batch,prefill")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"fp32", "threads", "attn", "perturb", "batch", "prefill"}))
      ->always_capture_default(false);
  add_keep_options(*hf, options.keep);
  hf->add_flag("--dry-run", options.dry_run,
               "run the prefill and one step, write nothing, and say what recording would cost");
  hf->add_option("--python", options.python,
                 "interpreter to run (default: GOLDENTRACE_PYTHON, else the one configured)")
      ->always_capture_default(false);

  // What is after -- is a command line of its own, unless a subcommand was named before it.
  char** const separator = std::find_if(
      argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  const bool hf_named = argc > 1 && std::strcmp(argv[1], "hf") == 0;
  if (!hf_named && separator != argv + argc) script.command.assign(separator + 1, argv + argc);
  const auto own = hf_named ? argc : static_cast<int>(separator - argv);
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // --help is a success
  }
  if (!hf->parsed()) return record_script(script);
  options.max_new_tokens_given = max_new_tokens->count() > 0;
  const Status status = record_hf(options, {argv, argv + argc});  // returns on failure only
  spdlog::error("{}", status.message());
  return 2;
}
