#include "src/format/value_index.h"

#include <algorithm>
#include <tuple>

namespace goldentrace {

void ValueIndex::add(const ValuePart& part, std::size_t chunk) {
  values_.push_back({{part.hash, part.offset, static_cast<std::uint32_t>(part.length),
                      static_cast<std::uint32_t>(chunk)},
                     part.total});
}

std::vector<ValueEntry> ValueIndex::finish() {
  std::sort(values_.begin(), values_.end(), [](const Value& left, const Value& right) {
    return std::tie(left.entry.hash, left.entry.offset, left.entry.chunk) <
           std::tie(right.entry.hash, right.entry.offset, right.entry.chunk);
  });
  std::vector<ValueEntry> entries;
  for (auto value = values_.begin(); value != values_.end();) {
    auto next = value;
    std::uint64_t length = 0;
    const std::size_t known = entries.size();
    for (; next != values_.end() && next->entry.hash == value->entry.hash; ++next) {
      const bool whole = length == value->total && entries.size() > known;
      const bool idle = next->entry.length == 0 && value->total > 0;
      const bool back = entries.size() > known && next->entry.chunk < entries.back().chunk;
      if (next->entry.offset != length || whole || idle || back) continue;
      length += next->entry.length;
      entries.push_back(next->entry);
    }
    if (length != value->total) entries.resize(known);
    value = next;
  }
  return entries;
}

}  // namespace goldentrace
