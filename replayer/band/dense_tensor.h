// A tensor's elements in memory, and nothing else of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/dtype.h"

namespace goldentrace {

struct DenseTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::vector<std::byte> bytes;  // row-major without gaps
};

// "bfloat16 [1, 96, 128]".
inline std::string type_text(DType dtype, std::span<const std::int64_t> sizes) {
  std::string text(dtype_name(dtype));
  text += " [";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(sizes[i]);
  }
  return text + "]";
}
inline std::string type_text(const DenseTensor& tensor) {
  return type_text(tensor.dtype, tensor.sizes);
}

}  // namespace goldentrace
