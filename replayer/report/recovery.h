// What `replay recover` says.
#pragma once

#include <string>

#include "src/format/recover.h"

namespace goldentrace {

std::string recovery_report(const Recovery& recovery, const std::string& in,
                            const std::string& out);

}  // namespace goldentrace
