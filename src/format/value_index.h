// Which chunk holds which part of which value, gathered while a file is written or searched.
#pragma once

#include <cstdint>
#include <vector>

#include "src/format/codec.h"

namespace goldentrace {

class ValueIndex {
 public:
  // `chunk` is the position of the part's chunk in the index.
  void add(const ValuePart& part, std::size_t chunk);
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  // In the order of the format, without values of which a part is missing.
  std::vector<ValueEntry> finish();

 private:
  struct Value {
    ValueEntry entry;
    std::uint64_t total;
  };
  std::vector<Value> values_;
};

}  // namespace goldentrace
