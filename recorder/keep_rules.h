// What is kept of the tensors that a call writes: `--rule
// 'scope=model.layers.3.**,op=aten::mul:values'`. No Torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace goldentrace {

// In rising cost; each level keeps what the ones before it keep.
enum class DigestLevel : std::uint8_t { kHash = 0, kStats = 1, kValues = 2 };

// `key=glob,...:digest`. Keys: scope, op ("aten::mul" or "aten::mul.Tensor": globs over the name
// with and without its overload) and step ("3" or "0..4", both ends included).
// Digests: hash, stats, values. An absent key matches everything.
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
  KeepRules(DigestLevel fallback, std::vector<KeepRule> rules)
      : fallback_(fallback), rules_(std::move(rules)) {}

  [[nodiscard]] bool uniform() const { return rules_.empty(); }
  [[nodiscard]] DigestLevel fallback() const { return fallback_; }
  // The last rule that matches decides; `fallback` where none does.
  [[nodiscard]] DigestLevel level(std::string_view scope, std::string_view op,
                                  std::string_view op_with_overload, std::uint32_t step) const;

 private:
  DigestLevel fallback_ = DigestLevel::kStats;
  std::vector<KeepRule> rules_;
};

}  // namespace goldentrace
