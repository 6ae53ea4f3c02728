#include "src/base/glob.h"

namespace goldentrace {

// Iterative with one backtrack point per kind of star would miss `*` inside `**`; patterns are a
// few dozen characters, so plain recursion on stars is clear and fast enough.
bool glob_match(std::string_view pattern, std::string_view text) {
  while (!pattern.empty()) {
    if (pattern.front() == '*') {
      const bool across = pattern.starts_with("**");
      while (!pattern.empty() && pattern.front() == '*') pattern.remove_prefix(1);
      for (std::size_t taken = 0;; ++taken) {
        if (glob_match(pattern, text.substr(taken))) return true;
        if (taken == text.size() || (!across && text[taken] == '.')) return false;
      }
    }
    if (text.empty()) return false;
    const bool same =
        pattern.front() == '?' ? text.front() != '.' : pattern.front() == text.front();
    if (!same) return false;
    pattern.remove_prefix(1);
    text.remove_prefix(1);
  }
  return text.empty();
}

}  // namespace goldentrace
