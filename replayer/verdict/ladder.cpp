#include "replayer/verdict/ladder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>

#include "replayer/band/band.h"
#include "replayer/report/format.h"

namespace goldentrace {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 6> kNotTheModel = {
    "_name_or_path",       "transformers_version",    "_attn_implementation",
    "attn_implementation", "_experts_implementation", "dtype"};

std::string quoted(const std::string& text) {
  constexpr std::size_t kMost = 40;
  const std::string shown = text.size() <= kMost ? text : text.substr(0, kMost) + "..";
  return json(shown).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Deeper levels than any config has are dropped: `flatten` must not run out of stack.
json parse_config(const std::string& text) {
  constexpr int kMaxDepth = 64;
  const auto keep = [](int depth, json::parse_event_t, json&) { return depth <= kMaxDepth; };
  return json::parse(text, keep, /*allow_exceptions=*/false);
}

// Leaves of a config as "rope_parameters.rope_theta" -> "10000000.0". False when that takes more
// room than any config needs: a long key is repeated for every leaf below it.
bool flatten(const json& value, const std::string& path, std::map<std::string, std::string>& out,
             std::size_t& room) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      if (std::find(kNotTheModel.begin(), kNotTheModel.end(), key) != kNotTheModel.end()) continue;
      std::string below = path;
      if (!below.empty()) below += '.';
      if (!flatten(inner, below += key, out, room)) return false;
    }
    return true;
  }
  std::string text = value.dump();
  if (path.size() + text.size() > room) return false;
  room -= path.size() + text.size();
  out[path] = std::move(text);
  return true;
}

bool flatten(const json& config, std::map<std::string, std::string>& out) {
  std::size_t room = 16u << 20;
  return flatten(config, "", out, room);
}

const Request* only_request(const Text& text) {
  return text.requests.empty() ? nullptr : &text.requests.front();
}

std::size_t common_prefix(const auto& left, const auto& right) {
  return static_cast<std::size_t>(
      std::mismatch(left.begin(), left.end(), right.begin(), right.end()).first - left.begin());
}

std::string piece(const std::vector<std::string>& pieces, std::size_t i) {
  return i < pieces.size() ? pieces[i] : std::string();
}

// The token that went on after step `i`.
std::int64_t fed_token(const Text& text, std::size_t i) {
  const Request* request = only_request(text);
  const Step& step = text.steps[i];
  if (request == nullptr || !request->forced()) return step.chosen;
  const std::size_t output = output_of(*request, step, i);
  return output < request->output_ids.size() ? request->output_ids[output] : step.chosen;
}

// The text of a step's choice, where the tokens that went on have it.
std::string chosen_piece(const Text& text, std::size_t i) {
  const Request* request = only_request(text);
  if (request == nullptr) return {};
  if (!request->forced()) {
    return piece(request->output_pieces, output_of(*request, text.steps[i], i));
  }
  const auto found = std::ranges::find(request->output_ids, text.steps[i].chosen);
  return piece(request->output_pieces,
               static_cast<std::size_t>(found - request->output_ids.begin()));
}

// The oracle's own gap between the two tokens is no more than what the band lets the difference of
// two logits move, each by `logits_band` of their root mean square. An infinite logit is no tie,
// nor is anything where the logits' size is not known.
bool is_tie(const Step& oracle, std::int64_t other_token, double logits_band) {
  const auto other = std::ranges::find(oracle.top_ids, other_token);
  if (other == oracle.top_ids.end() || oracle.top_logits.empty()) return false;
  const double gap =
      static_cast<double>(oracle.top_logits.front()) -
      static_cast<double>(
          oracle.top_logits[static_cast<std::size_t>(other - oracle.top_ids.begin())]);
  return std::isfinite(gap) && oracle.logits_rms > 0 &&
         gap <= logits_band * oracle.logits_rms * std::numbers::sqrt2;
}

}  // namespace

std::string model_type(const std::string& config_json) {
  const json config = parse_config(config_json);
  const auto found = config.is_object() ? config.find("model_type") : config.end();
  return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void keep_steps_of(const Text& trimmed, Text& other) {
  // All steps are left where calls were trimmed by their module alone.
  std::size_t made = 0;
  for (const Request& request : trimmed.requests) made = std::max(made, request.output_ids.size());
  if (trimmed.steps.empty() || trimmed.steps.size() >= made) return;
  const auto ends = std::ranges::minmax_element(trimmed.steps, {}, &Step::step);
  std::erase_if(other.steps, [&](const Step& step) {
    return step.step < ends.min->step || step.step > ends.max->step;
  });
}

Rung compare_inputs(const Text& oracle, const Text& candidate) {
  const Request* want = only_request(oracle);
  const Request* got = only_request(candidate);
  Rung rung;
  if (want == nullptr || got == nullptr) {
    rung.text = "prompt not in the evidence";
    return rung;
  }
  if (!want->prompt.empty() && !got->prompt.empty() && want->prompt != got->prompt) {
    const std::size_t same = common_prefix(want->prompt, got->prompt);
    rung.status = RungStatus::kDiff;
    rung.text = "prompt text differs after " + std::to_string(same) + " equal bytes";
    rung.details = {"oracle     " + quoted(want->prompt.substr(same)),
                    "candidate  " + quoted(got->prompt.substr(same))};
    return rung;
  }
  if (want->prompt_ids != got->prompt_ids) {
    const std::size_t same = common_prefix(want->prompt_ids, got->prompt_ids);
    const auto show = [&](const Request& request) {
      if (same >= request.prompt_ids.size()) return std::string("ends there");
      return "id " + std::to_string(request.prompt_ids[same]) + " " +
             quoted(piece(request.prompt_pieces, same));
    };
    rung.status = RungStatus::kDiff;
    rung.text = "token ids " + std::to_string(want->prompt_ids.size()) + " / " +
                std::to_string(got->prompt_ids.size()) + ", first " + std::to_string(same) +
                " equal";
    rung.details = {"oracle     " + show(*want), "candidate  " + show(*got)};
    return rung;
  }
  rung.status = RungStatus::kOk;
  rung.text = std::to_string(want->prompt_ids.size()) + " token ids";
  if (!want->prompt.empty() && !got->prompt.empty()) rung.text = "prompt text, " + rung.text;
  return rung;
}

Rung compare_weights(const std::vector<Parameter>& oracle, const std::vector<Parameter>& candidate,
                     bool same_dtype) {
  Rung rung;
  if (oracle.empty() || candidate.empty()) {
    rung.text = "no parameter dictionary in the evidence";
    return rung;
  }
  std::map<std::string, const Parameter*> others;
  for (const Parameter& parameter : candidate) others[parameter.name] = &parameter;
  std::size_t equal = 0;
  std::size_t differ = 0;
  std::size_t cast = 0;
  for (const Parameter& parameter : oracle) {
    const auto found = others.find(parameter.name);
    if (found == others.end()) {
      rung.details.push_back("only in the oracle: " + parameter.name);
    } else if (found->second->hash != parameter.hash && !same_dtype &&
               parameter.recipe != Recipe::kValue && found->second->recipe != Recipe::kValue &&
               found->second->sources == parameter.sources) {
      ++cast;
    } else if (found->second->hash != parameter.hash) {
      ++differ;
      rung.details.push_back("differs: " + parameter.name);
    } else {
      ++equal;
    }
    if (found != others.end()) others.erase(found);
  }
  for (const auto& [name, parameter] : others) {
    rung.details.push_back("only in the candidate: " + name);
  }
  rung.text = std::to_string(equal) + " of " + std::to_string(oracle.size()) + " by hash";
  if (rung.details.empty()) {
    rung.status = cast == 0 ? RungStatus::kOk : RungStatus::kNotCompared;
    if (cast > 0) {
      rung.text += ", " + std::to_string(cast) + " from the same tensors in another dtype";
    }
    return rung;
  }
  rung.status = RungStatus::kDiff;
  if (differ > 0) rung.text += ", " + std::to_string(differ) + " differ";
  return rung;
}

Rung compare_config(const std::string& oracle_json, const std::string& candidate_json) {
  Rung rung;
  const json oracle = parse_config(oracle_json);
  const json candidate = parse_config(candidate_json);
  if (!oracle.is_object() || !candidate.is_object()) {
    rung.text = "no model config in the evidence";
    return rung;
  }
  std::map<std::string, std::string> want;
  std::map<std::string, std::string> got;
  if (!flatten(oracle, want) || !flatten(candidate, got)) {
    rung.text = "a model config too large to be one";
    return rung;
  }
  std::set<std::string> keys;
  for (const auto& [key, value] : want) keys.insert(key);
  for (const auto& [key, value] : got) keys.insert(key);
  for (const std::string& key : keys) {
    const auto of = [&](const auto& side) {
      const auto found = side.find(key);
      return found == side.end() ? std::string("absent") : found->second;
    };
    if (of(want) != of(got)) {
      rung.details.push_back(key + ": oracle " + of(want) + ", candidate " + of(got));
    }
  }
  rung.status = rung.details.empty() ? RungStatus::kOk : RungStatus::kDiff;
  rung.text = rung.details.empty() ? std::to_string(keys.size()) + " fields"
                                   : std::to_string(rung.details.size()) + " of " +
                                         std::to_string(keys.size()) + " fields differ";
  return rung;
}

namespace {

// What a module looks up ("attention=sdpa") and what was done to it stand behind its class.
std::string class_of(const std::string& implementation) {
  return implementation.substr(0, implementation.find(' '));
}

}  // namespace

Rung compare_modules(const Modules& oracle, const Modules& candidate) {
  Rung rung;
  if (oracle.empty() || candidate.empty()) {
    rung.text = "no list of modules in the evidence";
    return rung;
  }
  std::map<std::string, std::string> others;
  for (const auto& [path, implementation] : candidate) others[path] = implementation;
  // Modules inside one that only one side has are not told one by one.
  std::string inside;
  const auto note = [&](const std::string& path, const std::string& what) {
    if (!inside.empty() && path.starts_with(inside + ".")) return;
    inside = path;
    rung.details.push_back(path + what);
  };
  std::vector<std::string> other_code;
  for (const auto& [path, implementation] : oracle) {
    const auto found = others.find(path);
    if (found == others.end()) {
      note(path, ": the candidate has none, the oracle " + class_of(implementation));
      continue;
    }
    // An engine may run other code to the same end: its numbers tell.
    if (class_of(found->second) != class_of(implementation)) other_code.push_back(path);
    others.erase(found);
  }
  for (const auto& [path, implementation] : others) {
    note(path, ": the oracle has none, the candidate " + class_of(implementation));
  }
  rung.status = rung.details.empty() ? RungStatus::kOk : RungStatus::kDiff;
  rung.text = std::to_string(oracle.size()) + " modules";
  if (!rung.details.empty()) {
    rung.text = "other modules than the oracle's " + std::to_string(oracle.size()) + ", in " +
                std::to_string(rung.details.size()) + " places";
  } else if (!other_code.empty()) {
    rung.text +=
        ", " + std::to_string(other_code.size()) + " run other code, as " + other_code.front();
  }
  return rung;
}

Rung compare_sampling(const Text& oracle, const Text& candidate) {
  const Request* want = only_request(oracle);
  const Request* got = only_request(candidate);
  Rung rung;
  if (want == nullptr || got == nullptr || want->sampling.empty() || got->sampling.empty()) {
    rung.text = "no sampling record in the evidence";
    return rung;
  }
  // How long a run was allowed to be is not how it sampled.
  std::map<std::string, std::pair<std::string, std::string>> settings;
  for (const Setting& setting : want->sampling) settings[setting.name].first = setting.value;
  for (const Setting& setting : got->sampling) settings[setting.name].second = setting.value;
  settings.erase("max_new_tokens");
  // Nor is what ends a run, where given tokens do.
  const bool forced = want->forced() || got->forced();
  if (forced) {
    settings.erase("forced");
    settings.erase("ignore_eos");
  }
  for (const auto& [name, values] : settings) {
    if (values.first != values.second) {
      rung.details.push_back(name + ": oracle " + quoted(values.first) + ", candidate " +
                             quoted(values.second));
    }
  }
  if (!forced && want->stop_ids != got->stop_ids) {
    rung.details.push_back("stop ids: " + std::to_string(want->stop_ids.size()) + " / " +
                           std::to_string(got->stop_ids.size()));
  }
  rung.status = rung.details.empty() ? RungStatus::kOk : RungStatus::kDiff;
  if (!rung.details.empty()) {
    rung.text = std::to_string(rung.details.size()) + " settings differ";
  } else if (forced) {
    rung.text = std::string("greedy; ") +
                (!want->forced()  ? "the candidate"
                 : !got->forced() ? "the oracle"
                                  : "both") +
                " fed given tokens";
  } else {
    rung.text = "greedy, " + std::to_string(want->stop_ids.size()) + " stop ids";
  }
  return rung;
}

Rung compare_logits(const Text& oracle, const Text& candidate, double logits_band) {
  Rung rung;
  PooledDistance pool;
  std::size_t steps = 0;
  double worst = 0;
  std::uint32_t worst_step = 0;
  for (std::size_t i = 0; i < std::min(oracle.steps.size(), candidate.steps.size()); ++i) {
    const Step& want = oracle.steps[i];
    const Step& got = candidate.steps[i];
    Distance distance;
    std::size_t common = 0;
    std::map<std::int64_t, float> others;
    for (std::size_t k = 0; k < got.top_logits.size(); ++k) {
      others.try_emplace(got.top_ids[k], got.top_logits[k]);
    }
    for (std::size_t k = 0; k < want.top_logits.size(); ++k) {
      const auto other = others.find(want.top_ids[k]);
      if (other == others.end()) continue;
      const double w = want.top_logits[k];
      const double g = other->second;
      ++common;
      if (std::isfinite(w) != std::isfinite(g)) distance.non_finite = true;
      if (std::isfinite(w) && std::isfinite(g)) distance.difference += (g - w) * (g - w);
    }
    if (common > 0 && want.logits_rms > 0) {
      distance.difference = std::sqrt(distance.difference);
      distance.norm = want.logits_rms * std::sqrt(static_cast<double>(common));
      pool.add(distance, common);
      ++steps;
      if (distance.relative() >= worst) {
        worst = distance.relative();
        worst_step = want.step;
      }
    }
    if (fed_token(oracle, i) != fed_token(candidate, i)) break;  // the next step has another input
  }
  if (steps == 0 || !pool.judged()) {
    rung.text = "not in the evidence of both";
    return rung;
  }
  rung.status = pool.in_band(logits_band) ? RungStatus::kOk : RungStatus::kDiff;
  rung.text = "top logits moved by " + percent(pool.relative()) + " of the logits' size (band " +
              percent(logits_band) + "), at most " + percent(worst) + " in step " +
              std::to_string(worst_step);
  return rung;
}

namespace {

void describe_difference(const Text& oracle, const Text& candidate, std::size_t i,
                         TokensReport& report) {
  const Step& want = oracle.steps[i];
  const Step& got = candidate.steps[i];
  report.first_step = want.step;
  const Row* last = want.rows.empty() ? nullptr : &want.rows.back();
  report.position = last == nullptr ? -1 : last->position + static_cast<std::int64_t>(last->count);
  report.oracle_token = want.chosen;
  report.candidate_token = got.chosen;
  report.oracle_gap_ulp = want.gap_ulp;
  report.candidate_gap_ulp = got.gap_ulp;
  report.oracle_piece = chosen_piece(oracle, i);
  report.candidate_piece = chosen_piece(candidate, i);
}

}  // namespace

TokensReport compare_tokens(const Text& oracle, const Text& candidate, double logits_band) {
  TokensReport report;
  report.oracle_steps = oracle.steps.size();
  report.candidate_steps = candidate.steps.size();
  const std::size_t count = std::min(report.oracle_steps, report.candidate_steps);
  if (count == 0) {
    report.rung.text = "no steps in the evidence";
    return report;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Step& want = oracle.steps[i];
    const Step& got = candidate.steps[i];
    if (!(want.gap_ulp >= report.smallest_gap_ulp) && !std::isnan(want.gap_ulp)) {
      report.smallest_gap_ulp = want.gap_ulp;
      report.smallest_gap_step = want.step;
    }
    if (want.chosen == got.chosen) {
      ++report.compared;
    } else {
      ++report.differing;
      const bool tie = is_tie(want, got.chosen, logits_band);
      // The first difference is shown, and a first one that is no tie in its place.
      const bool worse = !tie && report.rung.status == RungStatus::kTie;
      if (!report.first_step || worse) {
        report.rung.status = tie ? RungStatus::kTie : RungStatus::kDiff;
        describe_difference(oracle, candidate, i, report);
      }
    }
    if (fed_token(oracle, i) != fed_token(candidate, i)) {
      if (i + 1 < count || report.differing > 0) report.parted = want.step;
      break;
    }
    if (want.chosen != got.chosen) report.went_on = true;
  }
  if (report.differing == 0) report.rung.status = RungStatus::kOk;
  return report;
}

}  // namespace goldentrace
