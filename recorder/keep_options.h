// What `record` is told to keep, on its way from the command line to the recording process.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "recorder/keep_rules.h"

namespace goldentrace {

struct KeepOptions {
  std::string keep = "golden";
  std::vector<std::string> rules;  // `--rule` texts
  std::string compress = "values=fast";
  std::string only_where_differs;  // a golden trace
  std::uint32_t differing_calls = 8;
};

// kInvalidArgument for a rule that is none, and for rules where no call is kept.
inline Status check_keep(const KeepOptions& options) {
  for (const std::string& rule : options.rules) {
    GOLDENTRACE_RETURN_IF_ERROR(parse_keep_rule(rule).status());
  }
  if (options.keep == "tokens" && !(options.rules.empty() && options.only_where_differs.empty())) {
    return {Code::kInvalidArgument,
            "--keep tokens keeps no calls: --rule and --only-where-differs need them"};
  }
  return {};
}

// As the Python package's Recording takes them.
inline nlohmann::json to_json(const KeepOptions& options) {
  return {{"keep", options.keep},
          {"rules", options.rules},
          {"compress", options.compress},
          {"only_where_differs", options.only_where_differs},
          {"differing_calls", options.differing_calls}};
}

}  // namespace goldentrace
