#include "src/event/run.h"

#include <algorithm>

namespace goldentrace {

const std::string& Header::environment_value(const std::string& key) const {
  static const std::string kEmpty;
  const auto found = std::find_if(environment.begin(), environment.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == environment.end() ? kEmpty : found->second;
}

bool Request::forced() const {
  return std::any_of(sampling.begin(), sampling.end(), [](const Setting& setting) {
    return setting.name == "forced" && setting.value == "true";
  });
}

std::uint64_t Summary::counter(const std::string& name) const {
  const auto found = std::find_if(counters.begin(), counters.end(),
                                  [&](const Counter& counter) { return counter.name == name; });
  return found == counters.end() ? 0 : found->value;
}

std::size_t output_of(const Request& request, const Step& step, std::size_t order) {
  if (step.rows.empty() || request.prompt_ids.empty()) return order;
  const Row& last = step.rows.back();
  const auto tokens = static_cast<std::uint64_t>(last.position) + last.count;  // up to this step
  return tokens - request.prompt_ids.size();
}

}  // namespace goldentrace
