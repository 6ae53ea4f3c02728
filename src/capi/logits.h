// What a step's record says of a whole row of logits; the same numbers as `record hf` gives.
#pragma once

#include <cstddef>
#include <span>

#include "src/base/dtype.h"
#include "src/event/run.h"

namespace goldentrace::capi {

// Fills top_ids and top_logits with the `top` highest of the row (NaN is higher than all, the
// lowest id comes first among equals), gap_ulp, logits_rms, logprob, and chosen where it is -1.
// `row` holds numbers of `dtype`, a real float; chosen is below their count.
//   gap_ulp     (highest - second) in units in the last place of the highest, at dtype's precision;
//               NaN when it is not finite
//   logits_rms  root mean square of the finite ones; 0 when there is none
//   logprob     log softmax of the row at `chosen`
void describe_logits(DType dtype, std::span<const std::byte> row, std::size_t top, Step& step);

}  // namespace goldentrace::capi
