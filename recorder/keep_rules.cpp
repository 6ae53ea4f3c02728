#include "recorder/keep_rules.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "src/base/glob.h"

namespace goldentrace {
namespace {

// In the order of DigestLevel.
constexpr std::array<std::string_view, 5> kLevelNames = {"none", "hash", "stats", "sketch",
                                                         "values"};
// In the order of Keep.
constexpr std::array<std::string_view, 4> kKeepNames = {"tokens", "golden", "cuts", "all"};

Status bad_rule(std::string_view text, const std::string& why) {
  return {Code::kInvalidArgument, "rule '" + std::string(text) + "': " + why};
}

bool parse_number(std::string_view text, std::uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_steps(std::string_view text, KeepRule& rule) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    if (!parse_number(text, rule.first_step)) return false;
    rule.last_step = rule.first_step;
    return true;
  }
  return parse_number(text.substr(0, dots), rule.first_step) &&
         parse_number(text.substr(dots + 2), rule.last_step) && rule.first_step <= rule.last_step;
}

}  // namespace

Result<KeepRule> parse_keep_rule(std::string_view text) {
  // The digest stands after the last colon that is not part of "aten::".
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || (colon > 0 && text[colon - 1] == ':')) {
    return bad_rule(text, "no digest; expected key=glob,...:none|hash|stats|sketch|values");
  }
  KeepRule rule;
  const std::string_view digest = text.substr(colon + 1);
  const auto level = std::ranges::find(kLevelNames, digest);
  if (level == kLevelNames.end()) {
    return bad_rule(text, "unknown digest '" + std::string(digest) +
                              "'; expected none, hash, stats, sketch or values");
  }
  rule.level = static_cast<DigestLevel>(level - kLevelNames.begin());
  const std::string_view keys = text.substr(0, colon);
  std::size_t end = 0;
  for (std::size_t begin = 0; !keys.empty() && begin <= keys.size(); begin = end + 1) {
    end = std::min(keys.find(',', begin), keys.size());
    const std::string_view pair = keys.substr(begin, end - begin);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      return bad_rule(text, "'" + std::string(pair) + "' is not key=glob");
    }
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = pair.substr(equals + 1);
    if (key == "scope") {
      rule.scope = value;
    } else if (key == "op") {
      rule.op = value;
    } else if (key == "step") {
      if (!parse_steps(value, rule)) return bad_rule(text, "step is not N or N..M");
    } else {
      return bad_rule(text, "unknown key '" + std::string(key) + "'; expected scope, op or step");
    }
  }
  return rule;
}

Result<Keep> parse_keep(std::string_view text) {
  const auto keep = std::ranges::find(kKeepNames, text);
  if (keep == kKeepNames.end()) {
    return Status(Code::kInvalidArgument,
                  "keep is tokens, golden, cuts or all, not '" + std::string(text) + "'");
  }
  return static_cast<Keep>(keep - kKeepNames.begin());
}

KeepRules::Answer KeepRules::level(std::string_view scope, std::string_view op,
                                   std::string_view op_with_overload, std::uint32_t step) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (step < rule->first_step || step > rule->last_step) continue;
    if (!glob_match(rule->scope, scope)) continue;
    if (glob_match(rule->op, op) || glob_match(rule->op, op_with_overload)) {
      return {rule->level, true};
    }
  }
  switch (keep_) {
    case Keep::kAll:
      return {DigestLevel::kValues, false};
    case Keep::kCuts:
      return {DigestLevel::kStats, false};
    default:
      return {DigestLevel::kSketch, false};
  }
}

bool KeepRules::dropped_later(std::uint32_t step) const {
  constexpr std::uint32_t kFirstSteps = 4;
  return keep_ == Keep::kGolden && step > kFirstSteps;
}

}  // namespace goldentrace
