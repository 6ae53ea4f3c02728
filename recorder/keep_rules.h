// What is kept of the tensors that a call writes: `--keep golden`, `--rule
// 'scope=model.layers.3.**,op=aten::mul:values'`. No Torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.h"

namespace goldentrace {

// In rising cost; each level keeps what the ones before it keep. Of values the sketch is left out:
// the bytes say it all.
enum class DigestLevel : std::uint8_t { kNone, kHash, kStats, kSketch, kValues };

// What is kept where no rule says otherwise.
enum class Keep : std::uint8_t {
  kTokens,  // no call at all: text, tokens and top logits
  kGolden,  // the program of every step; hash, stats and sketch of the prefill, the first four
            // decode steps and the last one
  kCuts,  // the program, hash and stats; of every module the value that it computed last
  kAll,   // the program and all values
};

// "tokens", "golden", "cuts", "all"; kInvalidArgument for another word.
Result<Keep> parse_keep(std::string_view text);

// `key=glob,...:digest`. Keys: scope, op ("aten::mul" or "aten::mul.Tensor": globs over the name
// with and without its overload) and step ("3" or "0..4", both ends included).
// Digests: none, hash, stats, sketch, values. An absent key matches everything.
struct KeepRule {
  std::string scope = "**";
  std::string op = "**";
  std::uint32_t first_step = 0;
  std::uint32_t last_step = 0xffffffff;
  DigestLevel level = DigestLevel::kStats;
};

// kInvalidArgument says what is wrong and where.
Result<KeepRule> parse_keep_rule(std::string_view text);

class KeepRules {
 public:
  KeepRules() = default;
  explicit KeepRules(Keep keep, std::vector<KeepRule> rules = {})
      : keep_(keep), rules_(std::move(rules)) {
    for (const KeepRule& rule : rules_) uniform_ &= rule.scope == "**" && rule.op == "**";
  }

  [[nodiscard]] Keep keep() const { return keep_; }
  // The level is the same for all calls of a step.
  [[nodiscard]] bool uniform() const { return uniform_; }
  struct Answer {
    DigestLevel level;
    bool by_rule;  // and so nothing that --keep alone would drop
  };
  // The last rule that matches decides.
  [[nodiscard]] Answer level(std::string_view scope, std::string_view op,
                             std::string_view op_with_overload, std::uint32_t step) const;
  // Whether what --keep alone keeps of a step is dropped once a later step begins.
  [[nodiscard]] bool dropped_later(std::uint32_t step) const;

 private:
  Keep keep_ = Keep::kGolden;
  bool uniform_ = true;
  std::vector<KeepRule> rules_;
};

}  // namespace goldentrace
