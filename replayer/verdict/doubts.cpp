#include "replayer/verdict/doubts.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "replayer/report/format.h"

namespace goldentrace {
namespace {

constexpr std::string_view kSeparator = ": ";
constexpr std::string_view kImpure = "impure: ";
constexpr std::string_view kTrimmed = "trimmed: ";
constexpr std::string_view kUnexpected = "unexpected: ";  // weights that the model has no use for
constexpr const char* kRandomCalls = "calls_random";

// "model.layers.*.mlp" of "model.layers.3.mlp".
std::string pattern_of(std::string_view path) {
  std::string pattern;
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    pattern += number ? "*" : std::string(part);
    if (dot == path.npos) return pattern;
    pattern += '.';
    path.remove_prefix(dot + 1);
  }
}

// The same text said of modules whose paths differ in numbers only.
struct Group {
  std::string pattern;
  std::string kind;   // "training: ", or ""
  std::string first;  // path
  std::string text;
  std::size_t count = 0;
};

// Of "path: text" each, or "kind: path: text" with `kinds`; what has no path is all text.
std::vector<Group> grouped_by_place(const std::vector<std::string>& places, bool kinds) {
  std::vector<Group> groups;
  std::map<std::string, std::size_t> known;
  for (const std::string& place : places) {
    const std::size_t kind_end = kinds ? place.find(kSeparator) : place.npos;
    const std::size_t begin = kind_end == place.npos ? 0 : kind_end + kSeparator.size();
    const std::size_t colon = place.find(kSeparator, begin);
    const std::string path = colon == place.npos ? "" : place.substr(begin, colon - begin);
    Group group{pattern_of(path), place.substr(0, begin), path,
                place.substr(colon == place.npos ? begin : colon + kSeparator.size()), 0};
    const std::string key = group.kind + group.pattern + '\0' + group.text;
    const auto [entry, is_new] = known.emplace(key, groups.size());
    if (is_new) groups.push_back(std::move(group));
    ++groups[entry->second].count;
  }
  return groups;
}

void add_rows(const std::string& label, const std::vector<Group>& groups, std::size_t max,
              std::vector<std::string>& rows) {
  const std::size_t shown = std::min(max, groups.size());
  std::size_t left = 0;
  for (std::size_t i = shown; i < groups.size(); ++i) left += groups[i].count;
  for (std::size_t i = 0; i < shown; ++i) {
    const Group& group = groups[i];
    std::string end;
    if (group.count > 1) end = grouped(group.count - 1) + " alike";
    if (i + 1 == shown && left > 0) {
      end +=
          (end.empty() ? "" : ", ") + grouped(left) + (left > 1 ? " other places" : " other place");
    }
    if (!end.empty()) end = " (and " + end + ")";
    // The end is short and must be read; what goes before it gives way.
    const std::string begin =
        label + group.kind + group.first + (group.first.empty() ? "" : " ") + group.text;
    rows.push_back(clipped(printable(begin), kReportWidth - 2 - columns(end)) + end);
  }
}

}  // namespace

std::string incompleteness(const Summary& summary) {
  std::string text;
  std::string first;
  for (const Counter& counter : summary.counters) {
    if (counter.severity != CounterSeverity::kError || counter.value == 0) continue;
    text += (text.empty() ? "" : ", ") + counter.name + " " + grouped(counter.value);
    if (first.empty()) first = counter.first;
  }
  return text + (first.empty() ? "" : "; first " + first);
}

Doubts doubts_of(const Header& header, const Summary& summary) {
  Doubts doubts;
  doubts.incomplete = incompleteness(summary);
  for (const std::string& warning : header.warnings) {
    if (warning.starts_with(kImpure)) {
      doubts.impure.push_back(warning.substr(kImpure.size()));
    } else if (warning.starts_with(kTrimmed)) {
      doubts.trimmed = warning.substr(kTrimmed.size());
    } else if (warning.starts_with(kUnexpected)) {
      doubts.information.push_back(warning);
    } else {
      doubts.warnings.push_back(warning);
    }
  }
  for (const Counter& counter : summary.counters) {
    if (counter.name != kRandomCalls || counter.value == 0) continue;
    std::string text = "random calls: " + grouped(counter.value);
    if (!counter.first.empty()) text += ", first " + counter.first;
    doubts.warnings.push_back(text);
  }
  return doubts;
}

std::vector<std::string> doubt_rows(const Doubts& doubts, std::size_t max_impure,
                                    std::size_t max_warnings) {
  std::vector<std::string> rows;
  add_rows("oracle not pure: ", grouped_by_place(doubts.impure, false), max_impure, rows);
  add_rows("oracle warned: ", grouped_by_place(doubts.warnings, true), max_warnings, rows);
  return rows;
}

std::vector<std::string> information_rows(const Doubts& doubts, std::size_t max) {
  std::vector<std::string> rows;
  add_rows("note: ", grouped_by_place(doubts.information, true), max, rows);
  return rows;
}

}  // namespace goldentrace
