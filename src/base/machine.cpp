#include "src/base/machine.h"

#include <cstdlib>
#include <fstream>

namespace goldentrace {
namespace {

// The first "model name" of /proc/cpuinfo; "unknown" where the kernel states none (ARM).
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    return start == std::string::npos ? "unknown" : line.substr(start);
  }
  return "unknown";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> machine_environment() {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  return {
      {"cpu", processor_name()},
      {"onednn_max_cpu_isa", isa != nullptr && *isa != '\0' ? isa : "default"},
  };
}

}  // namespace goldentrace
