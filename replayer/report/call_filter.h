// Which calls, and which tensors that they write, somebody wants to see: `--scope`, `--op`,
// `--step`, `--call`, `--hash` of show and export. Globs are those of `record --rule`.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/event/dictionary.h"

namespace goldentrace {

// What is absent matches everything.
struct CallFilter {
  std::vector<std::string> scopes = {};  // globs; one must match
  std::vector<std::string> ops = {};     // globs over "aten::mul" and "aten::mul.Tensor"
  std::uint32_t first_step = 0;
  std::uint32_t last_step = std::numeric_limits<std::uint32_t>::max();
  std::optional<std::uint64_t> call = {};  // number
  std::string hash = {};                   // the first hexadecimal digits of a written tensor's
};

// "3" or "0..4", both ends included; kInvalidArgument says what is wrong.
Result<std::pair<std::uint32_t, std::uint32_t>> parse_steps(std::string_view text);

// Applies a filter to the calls of one program. Globs are matched once a definition.
class CallMatcher {
 public:
  // Both must outlive this.
  CallMatcher(const CallFilter& filter, const Dictionary& dictionary)
      : filter_(filter), dictionary_(dictionary) {}

  // Scope, operator, step and number; not the hash.
  bool matches(const Call& call, std::uint64_t number);
  // With the hash, of any tensor that it writes.
  bool matches_with_hash(const ProgramChunk& chunk, std::size_t i);
  [[nodiscard]] bool matches(const Write& write) const;

 private:
  enum class Known : std::uint8_t { kUnknown, kNo, kYes };
  bool scope_matches(std::uint32_t scope);
  bool op_matches(std::uint32_t op);

  const CallFilter& filter_;
  const Dictionary& dictionary_;
  std::vector<Known> scopes_;  // by id
  std::vector<Known> ops_;
};

}  // namespace goldentrace
