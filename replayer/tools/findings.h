// Collects findings of one sort: how many of each kind, and where the first one is.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "replayer/tools/check.h"

namespace goldentrace {

class Findings {
 public:
  // `what` is the rule that is broken; `where()` gives the place and is asked the first time only.
  template <typename Where>
  void add(const std::string& what, Where where) {
    const auto [place, is_new] = places_.try_emplace(what, all_.size());
    if (is_new) all_.push_back({what, 0, where()});
    ++all_[place->second].count;
  }
  std::vector<CheckFinding> take() { return std::move(all_); }

 private:
  std::vector<CheckFinding> all_;
  std::unordered_map<std::string, std::size_t> places_;
};

struct CheckFindings {
  Findings faults;
  Findings unsupported;
  Findings notes;
};

}  // namespace goldentrace
