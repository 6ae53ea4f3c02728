// All digests of one superblock, 4,096 elements: the unit that is digested at once and whose
// results are added in order, so that threads and vector widths change no bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/digest.h"
#include "src/base/dtype.h"

namespace goldentrace {

inline constexpr std::size_t kSuperblock = 4096;  // elements
inline constexpr std::size_t kLanes = 64;         // of a superblock's sums, and elements a block

struct SuperblockSums {
  Stats stats;  // the four figures are 0 where no element is ordinary
  Sketch sketch;
};

// Of superblocks `first`, `first` + 1, ... whose dense elements begin at `data`: one entry of
// `sums` each, and of `leaves` one a block of 4,096 bytes (hash_leaves). All but the last have
// kSuperblock elements; `count` is that of all elements. `dtype` is a real float. A superblock is
// hashed and summed before the next is read: it stays in the nearest cache between the two.
void add_superblocks(DType dtype, const std::byte* data, std::size_t count, std::uint64_t first,
                     bool with_sketch, std::span<SuperblockSums> sums, std::uint64_t* leaves);

}  // namespace goldentrace
