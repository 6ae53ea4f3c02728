// Reads the thread state that changes what a dispatcher call computes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/event/program.h"

namespace goldentrace {

// The ambient state of the calling thread, cheap enough to be read at every call.
struct AmbientBits {
  bool grad = false;
  bool inference = false;
  bool deterministic = false;
  bool autocast = false;
  std::uint8_t autocast_dtype = 0;
  std::uint8_t default_dtype = 0;
  std::uint8_t matmul_precision = 0;
  std::uint32_t threads = 0;
  bool operator==(const AmbientBits&) const = default;
};

// Without `matmul_precision`, which is dear to ask for, that field is as in `last`: for operators
// that multiply no matrices.
AmbientBits read_ambient(bool matmul_precision, const AmbientBits& last);
Ambient to_ambient(const AmbientBits& bits);

// The numerics switches of this process, as environment entries of a trace's header.
std::vector<std::pair<std::string, std::string>> numerics_environment();

}  // namespace goldentrace
