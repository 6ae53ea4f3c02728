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
    return std::tie(left.entry.hash, left.entry.offset) <
           std::tie(right.entry.hash, right.entry.offset);
  });
  std::vector<ValueEntry> entries;
  for (auto value = values_.begin(); value != values_.end();) {
    auto next = value;
    std::uint64_t length = 0;
    bool contiguous = true;
    for (; next != values_.end() && next->entry.hash == value->entry.hash; ++next) {
      contiguous &= next->entry.offset == length && next->total == value->total;
      length += next->entry.length;
    }
    if (contiguous && length == value->total) {
      for (auto part = value; part != next; ++part) entries.push_back(part->entry);
    }
    value = next;
  }
  return entries;
}

}  // namespace goldentrace
