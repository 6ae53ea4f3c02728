// `replay show FILE --chunks`: every chunk, decoded, one JSON object a line. The form is
// FORMAT.md's section 12, by which readers are compared.
#pragma once

#include <ostream>
#include <string>

#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

Status dump(const TraceReader& trace, std::ostream& out);

}  // namespace goldentrace
