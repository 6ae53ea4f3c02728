// Where a tensor belongs: which part of it a rank holds, and whose tokens its rows are.
#pragma once

#include <cstdint>

namespace goldentrace {

// Stored: append only.
enum class PlacementKind : std::uint8_t { kReplicated = 0, kShard = 1, kPartialSum = 2 };

// Which part of a logical tensor one rank holds: shard `index` of `count` along `dim`, or one of
// `count` summands.
struct Placement {
  PlacementKind kind = PlacementKind::kReplicated;
  std::uint32_t dim = 0;
  std::uint32_t index = 0;
  std::uint32_t count = 1;
  bool operator==(const Placement&) const = default;
};

// Rows [first_row, first_row + count) of a tensor are `request` at `position` and on.
struct Row {
  std::uint32_t request = 0;
  std::uint32_t first_row = 0;
  std::uint32_t count = 0;
  std::int64_t position = 0;
  bool operator==(const Row&) const = default;
};

}  // namespace goldentrace
