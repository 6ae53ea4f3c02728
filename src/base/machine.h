// Facts about this machine and process that move the last bits of a result.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace goldentrace {

// As environment entries of a trace's header (FORMAT.md): cpu, the processor's name, and
// onednn_max_cpu_isa, the limit that the environment sets for oneDNN, or "default".
std::vector<std::pair<std::string, std::string>> machine_environment();

}  // namespace goldentrace
