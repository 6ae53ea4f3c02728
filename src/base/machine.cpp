#include "src/base/machine.h"

#include <algorithm>
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

// The number in a file that holds one; the highest there is where it does not.
std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : ~0ull;
}

}  // namespace

std::uint64_t available_memory() {
  std::uint64_t bytes = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    if (word != "MemAvailable:") continue;
    file >> bytes;
    bytes *= 1024;
    break;
  }
  // What the process's control group may have, where it has one of its own.
  const std::uint64_t most = number_in("/sys/fs/cgroup/memory.max");
  const std::uint64_t taken = number_in("/sys/fs/cgroup/memory.current");
  return most == ~0ull ? bytes : std::min(bytes, most - std::min(most, taken));
}

std::vector<std::pair<std::string, std::string>> machine_environment() {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  return {
      {"cpu", processor_name()},
      {"onednn_max_cpu_isa", isa != nullptr && *isa != '\0' ? isa : "default"},
  };
}

}  // namespace goldentrace
