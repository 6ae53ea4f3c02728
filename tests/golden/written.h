// Golden files that TraceWriter writes, with the codecs that it chooses.
#pragma once

#include <functional>

#include "src/format/trace_writer.h"

namespace goldentrace::testing {

Bytes written(const std::function<void(TraceWriter&)>& fill, std::uint64_t calls,
              WriterOptions options = {});

// The sample program of one chunk, with bands of its writes from its second call on; nothing was
// measured of one of them.
Bytes bands();

}  // namespace goldentrace::testing
