// record: runs an oracle under the recorder. Parses the command line, then becomes the Python that
// runs the model (goldentrace.hf): this program itself needs no Torch.
// Exit status: 0 done and the trace is whole, 2 not.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "recorder/keep_rules.h"
#include "src/base/io.h"

namespace {

using goldentrace::Code;
using goldentrace::Result;
using goldentrace::Status;

struct HfOptions {
  std::string model;
  std::string output;
  std::string token_ids;
  std::string prompt;
  int max_new_tokens = 16;
  std::string dtype = "bfloat16";
  std::string attn = "eager";
  std::string device = "cpu";
  bool ignore_eos = false;
  bool strict = false;
  bool selfcheck = false;
  std::vector<std::string> rules;
  std::string python;
};

// "1,2,3" or "@FILE", where the file holds ids separated by commas or white space.
Result<std::vector<long>> parse_token_ids(const std::string& argument) {
  std::string text = argument;
  if (!argument.empty() && argument.front() == '@') {
    auto file = goldentrace::read_text_file(argument.substr(1), 64u << 20);
    if (!file.ok()) return file.status();
    text = *file;
  }
  std::vector<long> ids;
  std::string word;
  for (const char c : text + ",") {
    if (c != ',' && std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
      continue;
    }
    if (word.empty()) continue;
    char* end = nullptr;
    errno = 0;
    const long id = std::strtol(word.c_str(), &end, 10);
    if (*end != '\0' || errno != 0 || id < 0) {
      return Status(Code::kInvalidArgument, "--token-ids: '" + word + "' is not a token id");
    }
    ids.push_back(id);
    word.clear();
  }
  if (ids.empty()) return Status(Code::kInvalidArgument, "--token-ids: no id given");
  return ids;
}

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
  const std::string text = options.dump();
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

Status record_hf(const HfOptions& options, const std::vector<std::string>& command) {
  nlohmann::json json = {
      {"model", options.model},
      {"output", options.output},
      {"prompt", nullptr},
      {"token_ids", nullptr},
      {"dtype", options.dtype},
      {"attn", options.attn},
      {"device", options.device},
      {"max_new_tokens", options.max_new_tokens},
      {"rules", options.rules},
      {"ignore_eos", options.ignore_eos},
      {"command", command},
      {"strict", options.strict},
      {"selfcheck", options.selfcheck},
      {"replay", (program_folder() / "replay").string()},
  };
  if (options.token_ids.empty() == options.prompt.empty()) {
    return {Code::kInvalidArgument, "give exactly one of --token-ids and --prompt"};
  }
  if (options.token_ids.empty()) {
    json["prompt"] = options.prompt;
  } else {
    const auto ids = parse_token_ids(options.token_ids);
    if (!ids.ok()) return ids.status();
    json["token_ids"] = *ids;
  }
  for (const std::string& rule : options.rules) {
    GOLDENTRACE_RETURN_IF_ERROR(goldentrace::parse_keep_rule(rule).status());
  }
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

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_st("record"));
  spdlog::set_pattern("record: %v");

  HfOptions options;
  CLI::App app{"Record a model's run, op by op, into a trace.", "record"};
  app.require_subcommand(1);
  CLI::App* hf = app.add_subcommand(
      "hf", "run a transformers model, eager and greedy, by its own modelling code");
  hf->option_defaults()->always_capture_default();
  hf->add_option("MODEL_DIR", options.model, "folder with config.json and *.safetensors")
      ->required();
  hf->add_option("-o,--output", options.output, "trace to write")->required();
  hf->add_option("--token-ids", options.token_ids, "prompt as ids: 1,2,3 or @FILE")
      ->always_capture_default(false);
  hf->add_option("--prompt", options.prompt, "prompt as text, by the model's tokenizer")
      ->always_capture_default(false);
  hf->add_option("--max-new-tokens", options.max_new_tokens, "tokens to generate")
      ->check(CLI::Range(1, 1 << 20));
  hf->add_option("--dtype", options.dtype, "dtype to run in")
      ->check(CLI::IsMember({"bfloat16", "float16", "float32"}));
  hf->add_option("--attn", options.attn, "attention implementation")
      ->check(CLI::IsMember({"eager", "sdpa"}));
  hf->add_option("--device", options.device, "where to run")->check(CLI::IsMember({"cpu", "cuda"}));
  hf->add_flag("--ignore-eos", options.ignore_eos, "go on after a stop id");
  hf->add_flag("--strict", options.strict,
               "refuse a model that is not wholly the reference code, whose weights the checkpoint "
               "lacks, or that drops out");
  hf->add_flag("--selfcheck", options.selfcheck,
               "prove the recording: same logits without it, causal, no hidden writes, verified");
  hf->add_option("--rule", options.rules,
                 "what to keep: key=glob,...:digest with keys scope, op, step and digests hash, "
                 "stats, values; the last match decides; default stats for everything")
      ->always_capture_default(false);
  hf->add_option("--python", options.python,
                 "interpreter to run (default: GOLDENTRACE_PYTHON, else the one configured)")
      ->always_capture_default(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // --help is a success
  }
  const Status status = record_hf(options, {argv, argv + argc});  // returns on failure only
  spdlog::error("{}", status.message());
  return 2;
}
