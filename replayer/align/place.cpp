#include "replayer/align/place.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "replayer/band/cut.h"
#include "src/base/glob.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxNamed = 4;        // modules that a message lists
constexpr std::size_t kMaxOperators = 8;    // operators
constexpr std::size_t kMaxCompared = 4096;  // bytes of a name that others are held against

Status not_found(std::string message) { return {Code::kNotFound, std::move(message)}; }

// What is needed of a call of the step that is looked at.
struct Seen {
  std::uint64_t number = 0;
  std::uint32_t scope = 0;
  std::uint32_t op = 0;
  std::optional<Write> first;
  std::optional<Write> last;
  std::optional<Stats> first_stats;
  std::optional<Stats> last_stats;
  std::optional<std::uint32_t> result;  // its first tensor
};

// How many letters two names differ in (Levenshtein).
std::size_t difference(std::string_view x, std::string_view y) {
  std::vector<std::size_t> row(y.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < y.size(); ++j) {
      const std::size_t changed = diagonal + (x[i] == y[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({changed, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

// The last `parts` parts of a path.
std::string_view tail(std::string_view path, std::size_t parts) {
  std::size_t begin = path.size();
  while (parts > 0 && begin != std::string_view::npos && begin > 0) {
    begin = path.rfind('.', begin - 1);
    --parts;
  }
  return begin == std::string_view::npos || begin == 0 ? path : path.substr(begin + 1);
}

template <typename List>
std::string listed(const List& names, std::size_t most) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& name : names) {
    if (shown == most) return text + ", ...";
    text += (shown++ > 0 ? ", " : "") + std::string(name);
  }
  return text;
}

class Finder {
 public:
  Finder(const TraceReader& trace, const PlaceName& name, std::uint32_t step)
      : trace_(trace), program_(trace), name_(name), step_(step) {}

  Result<Place> find() {
    GOLDENTRACE_RETURN_IF_ERROR(read());
    if (!steps_.contains(step_)) return no_step();
    auto scope = find_scope();
    if (!scope.ok()) return scope.status();
    Place place;
    place.scope = std::move(*scope);
    place.step = step_;
    GOLDENTRACE_RETURN_IF_ERROR(name_.op.empty() ? find_output(place) : find_call(place));
    place.moves = std::ranges::all_of(slice_, [&](const Seen* seen) {
      return !seen->last || moves_numbers(dictionary().describe_op(seen->op));
    });
    for (const Seen* seen : slice_) place.calls.push_back(seen->number);
    return place;
  }

 private:
  [[nodiscard]] const Dictionary& dictionary() const { return program_.dictionary(); }

  Status read() {
    while (true) {
      const auto more = program_.next();
      if (!more.ok()) return more.status();
      if (!*more) return {};
      const ProgramChunk& chunk = program_.chunk();
      for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
        const Call& call = chunk.calls[i];
        if ((call.flags & kCallLost) != 0) continue;
        steps_.insert(call.step);
        if (call.step != step_ || (call.flags & kCallFailed) != 0) continue;
        add(chunk, call, chunk.base.calls + i);
      }
    }
  }

  void add(const ProgramChunk& chunk, const Call& call, std::uint64_t number) {
    Seen seen;
    seen.number = number;
    seen.scope = call.scope;
    seen.op = call.op;
    const auto stats_of = [&](const Write& write) {
      return (write.flags & kWriteStats) != 0 ? std::optional(chunk.stats[write.stats_index])
                                              : std::nullopt;
    };
    if (call.writes > 0) {
      seen.first = chunk.writes[call.first_write];
      seen.last = chunk.writes[call.first_write + call.writes - 1u];
      seen.first_stats = stats_of(*seen.first);
      seen.last_stats = stats_of(*seen.last);
    }
    for (std::size_t node = call.first_result; node < call.end_node && !seen.result; ++node) {
      if (chunk.nodes[node].kind != NodeKind::kTensor) continue;
      seen.result = static_cast<std::uint32_t>(chunk.nodes[node].value);
    }
    calls_.push_back(seen);
  }

  [[nodiscard]] Status no_step() const {
    if (steps_.empty()) return not_found(trace_.name() + ": holds no call");
    return not_found(trace_.name() + ": no step " + std::to_string(step_) + ": it has " +
                     std::to_string(*steps_.begin()) + " to " + std::to_string(*steps_.rbegin()));
  }

  // Every module that makes calls, and every one that such a module is in.
  [[nodiscard]] std::set<std::string_view> modules() const {
    std::set<std::string_view> all;
    for (std::uint32_t id = 0; id < dictionary().scopes(); ++id) {
      std::string_view scope = dictionary().scope(id);
      while (all.insert(scope).second && scope.find('.') != scope.npos) {
        scope = scope.substr(0, scope.rfind('.'));
      }
    }
    return all;
  }

  [[nodiscard]] Result<std::string> find_scope() const {
    const std::set<std::string_view> all = modules();
    if (all.contains(name_.scope)) return name_.scope;
    const bool glob = name_.scope.find_first_of("*?") != std::string::npos;
    std::vector<std::string_view> found;
    for (const std::string_view module : all) {
      const bool matches =
          glob ? glob_match(name_.scope, module) || glob_match("**." + name_.scope, module)
               : module.ends_with("." + name_.scope);
      if (matches) found.push_back(module);
    }
    if (found.size() == 1) return std::string(found.front());
    if (!found.empty()) {
      return not_found("'" + name_.scope + "' is " + std::to_string(found.size()) + " modules of " +
                       trace_.name() + ": " + listed(found, kMaxNamed));
    }
    return not_found(trace_.name() + ": no module '" + name_.scope +
                     "'; nearest: " + listed(nearest(all), kMaxNamed));
  }

  [[nodiscard]] std::vector<std::string_view> nearest(
      const std::set<std::string_view>& modules) const {
    const std::string_view wanted = std::string_view(name_.scope).substr(0, kMaxCompared);
    const auto parts = static_cast<std::size_t>(std::ranges::count(wanted, '.')) + 1;
    std::vector<std::pair<std::size_t, std::string_view>> ranked;
    for (const std::string_view module : modules) {
      if (module.empty()) continue;
      const std::string_view name = module.substr(0, kMaxCompared);
      ranked.emplace_back(std::min(difference(wanted, name), difference(wanted, tail(name, parts))),
                          module);
    }
    std::ranges::sort(ranked);
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < std::min(kMaxNamed - 1, ranked.size()); ++i) {
      names.push_back(ranked[i].second);
    }
    return names;
  }

  void take(const Seen& seen, const std::optional<Write>& write, const std::optional<Stats>& stats,
            Place& place) const {
    place.call = seen.number;
    place.call_scope = dictionary().scope(seen.scope);
    place.call_op = dictionary().describe_op(seen.op);
    place.tensor = write ? write->tensor : *seen.result;
    place.dtype = dictionary().tensor(place.tensor).dtype;
    place.sizes = dictionary().geometry_of(place.tensor).sizes;
    if (!write) return;
    if ((write->flags & kWriteHashed) != 0) place.hash = write->hash;
    place.stats = stats;
    place.kept = (write->flags & kWriteValue) != 0;
    place.undefined = (write->flags & kWriteUndefined) != 0;
  }

  // Calls of the module itself and of those in it.
  Status find_output(Place& place) {
    const std::string inside = place.scope + ".";
    std::vector<int> is_inside(dictionary().scopes(), 0);
    for (std::uint32_t id = 0; id < dictionary().scopes(); ++id) {
      const std::string& scope = dictionary().scope(id);
      is_inside[id] = scope == place.scope || (!place.scope.empty() && scope.starts_with(inside));
    }
    for (const Seen& seen : calls_) {
      if (is_inside[seen.scope] != 0) slice_.push_back(&seen);
    }
    const Seen* output = nullptr;
    for (const Seen* seen : slice_) {
      if (seen->last && (seen->last->flags & kWriteUndefined) == 0) output = seen;
    }
    for (const Seen* seen : slice_) {
      if (output == nullptr && seen->result) output = seen;
    }
    if (output == nullptr) {
      return not_found("'" + place.scope + "' computes nothing in step " + std::to_string(step_) +
                       " of " + trace_.name());
    }
    take(*output, output->last, output->last_stats, place);
    return {};
  }

  [[nodiscard]] bool is_called(std::uint32_t op) const {
    const Operator& is = dictionary().op(op);
    const std::string whole = dictionary().describe_op(op);
    const std::size_t colons = is.name.rfind("::");
    const std::size_t short_at = colons == std::string::npos ? 0 : colons + 2;
    return name_.op == is.name || name_.op == whole || name_.op == is.name.substr(short_at) ||
           name_.op == whole.substr(short_at);
  }

  Status find_call(Place& place) {
    std::map<std::string, std::uint32_t> operators;  // of the scope, with the number of calls
    std::uint32_t count = 0;
    for (const Seen& seen : calls_) {
      if (dictionary().scope(seen.scope) != place.scope) continue;
      const std::uint32_t ordinal = ++operators[dictionary().describe_op(seen.op)];
      if (!is_called(seen.op) || ++count != name_.ordinal) continue;
      if (!seen.first && !seen.result) {
        return not_found("'" + place.scope + "/" + name_.op + "' gives no tensor");
      }
      place.op = dictionary().describe_op(seen.op);
      place.ordinal = ordinal;
      slice_ = {&seen};
      take(seen, seen.first, seen.first_stats, place);
      return {};
    }
    const std::string in = "'" + place.scope + "' in step " + std::to_string(step_);
    if (count > 0) {
      return not_found(in + " calls " + name_.op + " " + std::to_string(count) +
                       (count == 1 ? " time, not " : " times, not ") +
                       std::to_string(name_.ordinal));
    }
    if (operators.empty()) return not_found(in + " makes no call by itself: name a module in it");
    std::vector<std::string> names;
    for (const auto& [op, calls] : operators) {
      names.push_back(calls > 1 ? op + " (" + std::to_string(calls) + ")" : op);
    }
    return not_found(in + " calls no " + name_.op + "; it calls " + listed(names, kMaxOperators));
  }

  const TraceReader& trace_;
  ProgramReader program_;
  const PlaceName& name_;
  const std::uint32_t step_;
  std::set<std::uint32_t> steps_;
  std::vector<Seen> calls_;  // of the step
  std::vector<const Seen*> slice_;
};

}  // namespace

Result<PlaceName> parse_place(std::string_view text) {
  PlaceName name;
  const std::size_t slash = text.rfind('/');
  name.scope = text.substr(0, slash);
  if (slash == std::string_view::npos) {
    if (!text.empty()) return name;
    return Status(Code::kInvalidArgument, "a place is SCOPE or SCOPE/OP[#N], not ''");
  }
  std::string_view op = text.substr(slash + 1);
  if (const std::size_t mark = op.find('#'); mark != std::string_view::npos) {
    const std::string_view digits = op.substr(mark + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), name.ordinal);
    if (error != std::errc() || end != digits.data() + digits.size() || name.ordinal == 0) {
      return Status(Code::kInvalidArgument, "'" + std::string(text) + "': '" + std::string(digits) +
                                                "' is no number of a call, from 1 on");
    }
    op = op.substr(0, mark);
  }
  name.op = op;
  if (!name.op.empty()) return name;
  return Status(Code::kInvalidArgument, "'" + std::string(text) +
                                            "': no operator after '/': a place is SCOPE or "
                                            "SCOPE/OP[#N]");
}

std::string Place::name() const {
  if (op.empty()) return scope;
  return scope + "/" + op + (ordinal > 1 ? "#" + std::to_string(ordinal) : "");
}

Result<Place> find_place(const TraceReader& trace, const PlaceName& name, std::uint32_t step) {
  return Finder(trace, name, step).find();
}

}  // namespace goldentrace
