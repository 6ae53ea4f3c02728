// The sums that a distance is made of, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/dtype.h"

namespace goldentrace {

// Of pairs of elements. A special is NaN, an infinity or a sentinel, |x| >= 1e30.
struct PairSums {
  double difference = 0;        // sum of (got - want)^2 over pairs of ordinary elements
  double norm = 0;              // sum of want^2 over the same
  std::uint64_t one_sided = 0;  // pairs of a special and what is not the same kind of special
};

// Of two dense arrays of `count` elements of one real float dtype, at any address. All terms are
// added in float64, in an order that `count` alone decides: the bits are the same by every
// instruction set. How far each sum may be from the exact one, of which it is a part:
//   norm        (135 + count / 2048) x 2^-53
//   difference  2^-22, as elements of 2 and 4 bytes are subtracted in float32; of float64 as norm
PairSums sum_pairs(DType dtype, const std::byte* want, const std::byte* got, std::size_t count);

}  // namespace goldentrace
