#include "replayer/report/call_filter.h"

#include <algorithm>
#include <charconv>

#include "src/base/glob.h"

namespace goldentrace {
namespace {

bool parse_number(std::string_view text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool any_matches(const std::vector<std::string>& globs, std::string_view text) {
  return std::ranges::any_of(globs,
                             [&](const std::string& glob) { return glob_match(glob, text); });
}

}  // namespace

Result<std::pair<std::uint32_t, std::uint32_t>> parse_steps(std::string_view text) {
  const std::size_t dots = text.find("..");
  const bool range = dots != std::string_view::npos;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  if (!parse_number(text.substr(0, dots), first) ||
      !parse_number(range ? text.substr(dots + 2) : text, last) || last < first) {
    return Status(Code::kInvalidArgument, "'" + std::string(text) +
                                              "' is no step and no range of steps: give one as in "
                                              "'3' or '0..4'");
  }
  return std::pair(first, last);
}

bool CallMatcher::scope_matches(std::uint32_t scope) {
  if (filter_.scopes.empty()) return true;
  if (scope >= scopes_.size()) scopes_.resize(dictionary_.scopes(), Known::kUnknown);
  Known& known = scopes_[scope];
  if (known == Known::kUnknown) {
    known = any_matches(filter_.scopes, dictionary_.scope(scope)) ? Known::kYes : Known::kNo;
  }
  return known == Known::kYes;
}

bool CallMatcher::op_matches(std::uint32_t op) {
  if (filter_.ops.empty()) return true;
  if (op >= ops_.size()) ops_.resize(dictionary_.operators(), Known::kUnknown);
  Known& known = ops_[op];
  if (known == Known::kUnknown) {
    const bool yes = any_matches(filter_.ops, dictionary_.op(op).name) ||
                     any_matches(filter_.ops, dictionary_.describe_op(op));
    known = yes ? Known::kYes : Known::kNo;
  }
  return known == Known::kYes;
}

bool CallMatcher::matches(const Call& call, std::uint64_t number) {
  return call.step >= filter_.first_step && call.step <= filter_.last_step &&
         (!filter_.call || *filter_.call == number) && scope_matches(call.scope) &&
         op_matches(call.op);
}

bool CallMatcher::matches_with_hash(const ProgramChunk& chunk, std::size_t i) {
  const Call& call = chunk.calls[i];
  if (!matches(call, chunk.base.calls + i)) return false;
  if (filter_.hash.empty()) return true;
  const auto begin = chunk.writes.begin() + call.first_write;
  return std::any_of(begin, begin + call.writes,
                     [&](const Write& write) { return matches(write); });
}

bool CallMatcher::matches(const Write& write) const {
  return filter_.hash.empty() ||
         ((write.flags & kWriteHashed) != 0 && to_hex(write.hash).starts_with(filter_.hash));
}

}  // namespace goldentrace
