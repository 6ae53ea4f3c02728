// What stands before the tensors' bytes in a .safetensors file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/status.h"

namespace goldentrace {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

// The header's length and the header, for tensors that follow in this order. With large items
// first, every tensor lies at a multiple of its item size. kUnsupported for a dtype that the
// format lacks, kInvalidArgument for more tensors than a header holds.
Result<std::string> safetensors_header(std::span<const SafetensorsEntry> tensors);

}  // namespace goldentrace
