// What the parts of replay's command line share. Only they include it.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "replayer/report/call_filter.h"
#include "replayer/verdict/place_verdict.h"
#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace CLI {
class App;
}

namespace goldentrace::cli {

// Says what is wrong; the exit status.
int fail(const Status& status);
// Prints `text`; writes `json` to `path` unless that is empty ("-" is standard output, alone).
Status deliver(const std::string& text, const std::string& json, const std::string& path);
// Warns where it is not.
bool is_whole(const TraceReader& trace);

// A line on a terminal that is written over: how far, and how long it may take yet. Nothing in the
// first seconds, which most replays end in.
class Progress {
 public:
  ~Progress() { clear(); }

  // To be called with a share of the work, 0 to 1; nothing where nobody looks. This must outlive
  // it.
  std::function<void(double)> on_terminal();
  void operator()(double share);
  void clear();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr double kQuiet = 2;
  static constexpr double kEvery = 0.2;
  const TimePoint began_ = std::chrono::steady_clock::now();
  TimePoint pass_began_ = began_;
  TimePoint shown_;
  double share_ = 0;
  bool visible_ = false;
};

// A subcommand sets what `run` does; it is called when the whole line has been parsed.
using Run = std::function<int()>;

void add_scopes(CLI::App& command, CallFilter& filter);
void add_steps(CLI::App& command, const std::string& name, CallFilter& filter);

// Subcommands whose options live as long as the app.
void add_show(CLI::App& app, Run& run);
void add_export(CLI::App& app, Run& run);

// `replay CANDIDATE --against ORACLE --at PLACE`.
int judge_at(PlaceOptions options, const std::string& json_path);

}  // namespace goldentrace::cli
