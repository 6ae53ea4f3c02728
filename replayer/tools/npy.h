// NumPy's .npy files (format 1.0): a header, then dense row-major little-endian elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/status.h"

namespace goldentrace {

// NumPy's name of the elements that are written for a dtype: "<f4".
struct NpyType {
  std::string descr;
  bool widened = false;  // as float32, exactly: NumPy has no bfloat16 and no 8-bit floats
  bool bits = false;     // as unsigned integers of the same size
};

// With `bits`, what NumPy lacks is written as unsigned integers. kUnsupported for complex32
// without.
Result<NpyType> npy_type(DType dtype, bool bits);

// The header, of a multiple of 64 bytes.
std::string npy_header(const std::string& descr, const std::vector<std::int64_t>& shape);

// One element of bfloat16 or an 8-bit float, exactly.
float to_float32(DType dtype, const std::byte* element);

}  // namespace goldentrace
