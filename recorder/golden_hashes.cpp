#include "recorder/golden_hashes.h"

#include <utility>

namespace goldentrace {
namespace {

std::string key_of(const std::string& scope, const std::string& op) { return scope + '\n' + op; }

}  // namespace

Result<std::unique_ptr<GoldenHashes>> GoldenHashes::open(const std::string& path) {
  auto trace = TraceReader::open(path);
  if (!trace.ok()) return trace.status();
  std::unique_ptr<GoldenHashes> golden(new GoldenHashes(std::move(*trace)));
  do {
    const auto more = golden->program_.next();
    if (!more.ok()) return more.status();
    if (!*more) return Status(Code::kInvalidArgument, path + ": holds no calls to compare with");
  } while (golden->program_.chunk().calls.empty());
  return golden;
}

Status GoldenHashes::begin_step(std::uint32_t step) {
  if (step_ == step) return {};
  step_ = step;
  calls_.clear();
  while (!at_end_) {
    const std::vector<Call>& calls = program_.chunk().calls;
    for (; next_call_ < calls.size(); ++next_call_) {
      const Call& call = calls[next_call_];
      if (call.step > step) return {};
      if (call.step == step) add(call);
    }
    const auto more = program_.next();
    if (!more.ok()) return more.status();
    at_end_ = !*more;
    next_call_ = 0;
  }
  return {};
}

void GoldenHashes::add(const Call& call) {
  const Dictionary& names = program_.dictionary();
  const auto begin = program_.chunk().writes.begin() + call.first_write;
  calls_[key_of(names.scope(call.scope), names.describe_op(call.op))].writes.emplace_back(
      begin, begin + call.writes);
}

GoldenHashes::Answer GoldenHashes::compare(const std::string& scope, const std::string& op,
                                           std::span<const Write> writes) {
  const auto found = calls_.find(key_of(scope, op));
  if (found == calls_.end() || found->second.next == found->second.writes.size()) {
    return Answer::kDiffers;
  }
  const std::vector<Write>& want = found->second.writes[found->second.next++];
  if (want.size() != writes.size()) return Answer::kDiffers;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const bool both = (want[i].flags & writes[i].flags & kWriteHashed) != 0;
    if (both && want[i].hash != writes[i].hash) return Answer::kDiffers;
  }
  return Answer::kEqual;
}

}  // namespace goldentrace
