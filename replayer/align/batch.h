// A candidate that ran the oracle's prompt in a batch with others: which part of its tensors is the
// oracle's.
#pragma once

#include <cstdint>
#include <span>

#include "replayer/align/step_reader.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Sequence `index` of `count`, one after the other along the first dimension.
struct BatchRow {
  std::uint64_t index = 0;
  std::uint64_t count = 1;
};

// Leaves in `candidate` only the request that `oracle`'s one is, by its prompt. A batch is several
// requests with tensors in common; where the oracle has several too, nothing is left out.
BatchRow keep_row_of(const Text& oracle, Text& candidate);

// Whether `got` holds what `want` does, alone or with its batch around it.
bool holds_row(const Output& want, const Output& got, const BatchRow& row);

// The row's bytes of the whole tensor's.
std::span<const std::byte> row_of(std::span<const std::byte> bytes, const Output& want,
                                  const Output& got, const BatchRow& row);

// `got` as if its row had been recorded alone: digests are taken anew from the value that is kept.
// Without one there are none.
Result<Output> output_of_row(const TraceReader& candidate, const Output& want, const Output& got,
                             const BatchRow& row);

}  // namespace goldentrace
