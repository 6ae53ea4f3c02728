// Where two programs part, by the content hashes in their indexes: only the first pair of chunks
// that differ is decoded.
#pragma once

#include <cstdint>
#include <optional>

#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// Number of the first call that is not the same in both: another operator, argument, definition or
// digest, or a call that one of them lacks. None when the programs are equal bit for bit.
Result<std::optional<std::uint64_t>> first_difference(const TraceReader& left,
                                                      const TraceReader& right);

}  // namespace goldentrace
