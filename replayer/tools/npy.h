// NumPy's .npy files: a header, then dense little-endian elements. Written as format 1.0,
// row-major; read as 1.0, 2.0 or 3.0 in either order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "replayer/band/dense_tensor.h"
#include "src/base/dtype.h"
#include "src/base/io.h"
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

struct NpyArray {
  DenseTensor tensor;   // row-major
  bool opaque = false;  // two bytes without meaning ("V2", as bfloat16 is written), as uint16
};

// kCorrupt (with what is wrong) for what is no such file, is cut off or longer than its shape
// tells; kUnsupported for big-endian, structured, string and object arrays.
Result<NpyArray> read_npy(const std::string& path);
Result<NpyArray> read_npy(const ByteSource& file);

// One element of bfloat16 or an 8-bit float, exactly.
float to_float32(DType dtype, const std::byte* element);

}  // namespace goldentrace
