#include "replayer/report/times.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "replayer/report/format.h"

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

struct Spent {
  std::uint64_t calls = 0;
  std::uint64_t inside_ns = 0;
};

struct StepSpent : Spent {
  std::uint64_t begin_ns = ~std::uint64_t{0};
  std::uint64_t end_ns = 0;

  // Calls of several threads may add up to more than passed.
  [[nodiscard]] std::uint64_t between_ns() const {
    const std::uint64_t whole = end_ns - begin_ns;
    return whole > inside_ns ? whole - inside_ns : 0;
  }
};

struct Times {
  std::map<std::uint32_t, StepSpent> steps;
  std::vector<std::pair<std::string, Spent>> ops;  // the longest first
};

Result<Times> read_times(const TraceReader& trace) {
  const auto timings = trace.timings();
  if (!timings.ok()) return timings.status();
  Times times;
  std::map<std::uint32_t, Spent> ops;
  ProgramReader program(trace);
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) break;
    const ProgramChunk& chunk = program.chunk();
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const std::uint64_t number = chunk.base.calls + i;
      if (number >= timings->size()) break;
      const Timing& timing = (*timings)[number];
      StepSpent& step = times.steps[chunk.calls[i].step];
      step.begin_ns = std::min(step.begin_ns, timing.start_ns);
      step.end_ns = std::max(step.end_ns, timing.start_ns + timing.duration_ns);
      for (Spent* const spent : {static_cast<Spent*>(&step), &ops[chunk.calls[i].op]}) {
        ++spent->calls;
        spent->inside_ns += timing.duration_ns;
      }
    }
  }
  if (times.steps.empty()) return Status(Code::kNotFound, trace.name() + ": keeps no timings");
  for (const auto& [op, spent] : ops) {
    times.ops.emplace_back(program.dictionary().describe_op(op), spent);
  }
  std::ranges::stable_sort(times.ops, std::ranges::greater(),
                           [](const auto& op) { return op.second.inside_ns; });
  return times;
}

double milliseconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-6; }

std::string row(const std::string& name, const std::string& calls, const std::string& first,
                const std::string& second) {
  char text[160];
  std::snprintf(text, sizeof text, "%-40s %10s %12s %12s\n", name.c_str(), calls.c_str(),
                first.c_str(), second.c_str());
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

}  // namespace

Status show_times(const TraceReader& trace, bool as_json, std::ostream& out) {
  const auto times = read_times(trace);
  if (!times.ok()) return times.status();
  std::uint64_t inside = 0;
  for (const auto& [op, spent] : times->ops) inside += spent.inside_ns;
  if (as_json) {
    json steps = json::array();
    for (const auto& [step, spent] : times->steps) {
      steps.push_back({{"step", step},
                       {"calls", spent.calls},
                       {"inside_ms", milliseconds(spent.inside_ns)},
                       {"between_ms", milliseconds(spent.between_ns())}});
    }
    json ops = json::array();
    for (const auto& [op, spent] : times->ops) {
      ops.push_back(
          {{"op", op}, {"calls", spent.calls}, {"inside_ms", milliseconds(spent.inside_ns)}});
    }
    out << json{{"steps", steps}, {"ops", ops}}.dump(2, ' ', false, json::error_handler_t::replace)
        << '\n';
    return {};
  }
  out << row("step", "calls", "inside ms", "between ms");
  for (const auto& [step, spent] : times->steps) {
    out << row(std::to_string(step), grouped(spent.calls), number(milliseconds(spent.inside_ns)),
               number(milliseconds(spent.between_ns())));
  }
  out << '\n' << row("operator", "calls", "inside ms", "share");
  for (const auto& [op, spent] : times->ops) {
    out << row(clipped(printable(op), 40), grouped(spent.calls),
               number(milliseconds(spent.inside_ns)), share(spent.inside_ns, inside));
  }
  out << "\nbetween: Python, dispatch, and what recording itself cost\n";
  return {};
}

}  // namespace goldentrace
