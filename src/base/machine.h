// Facts about this machine and process: what moves the last bits of a result, and how much memory
// is left.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace goldentrace {

// As environment entries of a trace's header (FORMAT.md): cpu, the processor's name, and
// onednn_max_cpu_isa, the limit that the environment sets for oneDNN, or "default".
std::vector<std::pair<std::string, std::string>> machine_environment();

// Bytes that this process may still take without driving out others; 0 where that is not told.
std::uint64_t available_memory();

}  // namespace goldentrace
