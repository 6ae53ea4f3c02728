#include "recorder/run_script.h"

#include <fcntl.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

constexpr int kNotWhole = 2;
constexpr std::array kForwarded = {SIGTERM, SIGHUP};
constexpr std::array kLeftToTheCommand = {SIGINT, SIGQUIT};

// ---- the journal --------------------------------------------------------------------------------

// The folder in which the processes tell what became of them; see goldentrace/journal.py.
class Journal {
 public:
  static Result<Journal> create() {
    std::error_code error;
    const auto temporary = std::filesystem::temp_directory_path(error);
    if (error) return Status(Code::kIo, "no temporary folder: " + error.message());
    std::string folder = (temporary / "goldentrace-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
      return Status(Code::kIo, "can't make a folder " + folder + ": " + std::strerror(errno));
    }
    Journal journal(folder);
    const int file = ::open(journal.file().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
      return Status(Code::kIo, "can't make " + journal.file() + ": " + std::strerror(errno));
    }
    ::close(file);
    return journal;
  }
  explicit Journal(std::string folder) : folder_(std::move(folder)) {}
  Journal(Journal&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string file() const { return folder_ + "/journal"; }

  // The texts of all events of that name, in order.
  [[nodiscard]] std::vector<std::string> events(const std::string& name) const {
    std::vector<std::string> texts;
    const auto content = read_text_file(file(), 64u << 20);
    if (!content.ok()) return texts;
    for (std::size_t begin = 0; begin < content->size();) {
      const std::size_t end = std::min(content->find('\n', begin), content->size());
      const std::string line = content->substr(begin, end - begin);
      begin = end + 1;
      const std::size_t first = line.find('\t');
      const std::size_t second = line.find('\t', first + 1);
      if (second == std::string::npos || line.substr(0, first) != name) continue;
      texts.push_back(line.substr(second + 1));
    }
    return texts;
  }

 private:
  std::string folder_;
};

// ---- the command --------------------------------------------------------------------------------

volatile std::sig_atomic_t child = 0;

void forward(int signal) {
  if (child > 0) ::kill(static_cast<pid_t>(child), signal);
}
void ignore(int /*signal*/) {}

// A handler, where SIG_IGN would be inherited by the command; a signal that was ignored before
// (nohup) stays ignored for both.
void handle(int signal, void (*handler)(int)) {
  struct sigaction before = {};
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

// Runs the command to its end; its exit status.
Result<int> run_command(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  sigset_t forwarded;
  sigset_t mask;
  sigemptyset(&forwarded);
  for (const int signal : kForwarded) sigaddset(&forwarded, signal);
  // One that comes before the child is known waits until it is.
  ::sigprocmask(SIG_BLOCK, &forwarded, &mask);
  for (const int signal : kForwarded) handle(signal, forward);
  for (const int signal : kLeftToTheCommand) handle(signal, ignore);

  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  pid_t process = 0;
  const int error =
      ::posix_spawnp(&process, arguments[0], nullptr, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return Status(Code::kNotFound, "can't run " + command[0] + ": " + std::strerror(error));
  }
  child = process;
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);

  int status = 0;
  while (::waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) {
      return Status(Code::kInternal, std::string("waiting failed: ") + std::strerror(errno));
    }
  }
  child = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void prepare_environment(const ScriptOptions& options, const Journal& journal) {
  std::string path = (options.packages / "site").string();
  const char* before = std::getenv("PYTHONPATH");
  if (before != nullptr && *before != '\0') path += std::string(":") + before;
  ::setenv("PYTHONPATH", path.c_str(), 1);
  ::setenv("GOLDENTRACE_JOURNAL", journal.folder().c_str(), 1);
  // The script may change its folder before it imports torch.
  const nlohmann::json json = {{"output", std::filesystem::absolute(options.output).string()},
                               {"keep", to_json(options.keep)}};
  ::setenv("GOLDENTRACE_SCRIPT",
           json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str(), 1);
}

// ---- what it left -------------------------------------------------------------------------------

// "1,234,567"
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3;) text.insert(i -= 3, ",");
  return text;
}

// Opens the trace and says what is in it.
Status check(const std::string& path, const std::string& shown) {
  const auto trace = TraceReader::open(path);
  if (!trace.ok()) {
    if (trace.status().code() != Code::kCorrupt) return trace.status();
    return {Code::kCorrupt, shown +
                                ": not whole: its process ended without closing it (os._exit, "
                                "exec, SIGKILL or a crash)"};
  }
  if ((*trace)->cut_at()) {
    return {Code::kCorrupt, shown +
                                ": not whole: its process ended without closing it (os._exit, "
                                "exec, SIGKILL or a crash); what it had written is in it"};
  }
  const Summary& summary = (*trace)->summary();
  std::string line = shown + ": " + grouped(summary.calls) + " calls, " +
                     grouped((*trace)->file_size()) + " bytes";
  for (const Counter& counter : summary.counters) {
    if (counter.value > 0) line += ", " + counter.name + " " + grouped(counter.value);
  }
  spdlog::info("{}", line);
  if (summary.counter("recorder_errors") > 0) {
    return {Code::kInternal, shown + ": not whole: the recorder failed"};
  }
  return {};
}

// The name that was asked for is the first Python's; where that one recorded nothing (a launcher),
// the first recording gets it.
void name_main_trace(const std::filesystem::path& output, std::vector<std::string>& traces) {
  const std::string wanted = std::filesystem::absolute(output).string();
  if (traces.empty() || std::find(traces.begin(), traces.end(), wanted) != traces.end()) return;
  std::error_code error;
  std::filesystem::rename(traces.front(), wanted, error);
  if (!error) traces.front() = wanted;
}

std::string why_nothing(const Journal& journal) {
  const auto failed = journal.events("failed");
  if (!failed.empty()) return failed.front();
  if (journal.events("python").empty()) {
    return "no Python was started that can be recorded (python -I, -E and -S ignore what starts "
           "the recording, and so does an own PYTHONPATH)";
  }
  return "no process imported torch, or only one under python -I, -E or -S";
}

}  // namespace

int run_script(const ScriptOptions& options) {
  const std::filesystem::path output(options.output);
  if (output.has_parent_path() && !std::filesystem::is_directory(output.parent_path())) {
    spdlog::error("{}: no such folder", output.parent_path().string());
    return kNotWhole;
  }
  const auto journal = Journal::create();
  if (!journal.ok()) {
    spdlog::error("{}", journal.status().message());
    return kNotWhole;
  }
  prepare_environment(options, *journal);
  const auto status = run_command(options.command);
  if (!status.ok()) {
    spdlog::error("{}", status.status().message());
    return kNotWhole;
  }

  bool whole = true;
  auto traces = journal->events("recording");
  name_main_trace(output, traces);
  for (const std::string& path : traces) {
    // As the user spelled its folder.
    const auto shown = output.parent_path() / std::filesystem::path(path).filename();
    const Status checked = check(path, shown.string());
    if (!checked.ok()) spdlog::error("{}", checked.message());
    whole &= checked.ok();
  }
  if (const auto forked = journal->events("forked"); !forked.empty()) {
    spdlog::info("not recorded: {} forked processes", grouped(forked.size()));
  }
  if (traces.empty()) {
    spdlog::error("{}: not written: {}", options.output, why_nothing(*journal));
    whole = false;
  } else {
    whole &= journal->events("failed").empty();
  }
  return *status == 0 && !whole ? kNotWhole : *status;
}

}  // namespace goldentrace
