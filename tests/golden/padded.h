// A trace as a later minor version may write it: every table has a field more, and there are
// chunks, counters, keys and flags that this version does not know.
#pragma once

#include "src/format/codec.h"

namespace goldentrace::testing {

Bytes padded();

}  // namespace goldentrace::testing
