// The rows of a text report, as they are laid out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "replayer/replay.h"
#include "replayer/report/format.h"
#include "replayer/verdict/doubts.h"

namespace goldentrace {

inline constexpr std::size_t kMaxLines = 25;

class Lines {
 public:
  void add(const std::string& line) { lines_.push_back({clipped(printable(line)), false}); }
  // "  label      text", as every row under the headline begins.
  void row(const std::string& label, const std::string& text) {
    add("  " + padded(label, 10) + " " + text);
  }
  // A row of a finding.
  void finding(const std::string& label, const std::string& text) {
    add("     " + padded(label, 10) + " " + text);
  }
  // What the oracle's own trace says against it.
  void add_doubts(const Doubts& doubts) {
    for (const std::string& row : doubt_rows(doubts)) add("  " + row);
  }
  void detail(const std::string& text) { add("             " + text); }
  // The row that was added last gives way where a report would be too long.
  void may_go() { lines_.back().may_go = true; }

  // Details only of one that differs.
  void rung(const char* label, const Rung& rung, bool with_details = true);

  std::string take(std::size_t most = kMaxLines) {
    for (std::size_t i = lines_.size(); i-- > 0 && lines_.size() > most;) {
      if (lines_[i].may_go) lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::string text;
    for (const Line& line : lines_) text += line.text + '\n';
    return text;
  }

 private:
  struct Line {
    std::string text;
    bool may_go;
  };
  std::vector<Line> lines_;
};

// "ok  ", "DIFF", "tie " or "--  ".
const char* status_word(RungStatus status);

inline std::string scope_name(const std::string& scope) {
  return scope.empty() ? "outside every module" : scope;
}

}  // namespace goldentrace
