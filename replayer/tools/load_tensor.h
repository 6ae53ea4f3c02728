// One tensor from a file that somebody else's program wrote.
#pragma once

#include <string>

#include "replayer/band/dense_tensor.h"
#include "src/base/status.h"

namespace goldentrace {

// Whether a path is that of such a file, by its ending.
bool is_tensor_file(const std::string& path);

// From a .npy file, or a .safetensors file that holds one tensor or one of this name. Where
// `recorded` is bfloat16, which NumPy lacks, its bits as uint16 or "V2" are taken as such.
Result<DenseTensor> load_tensor(const std::string& path, const std::string& name, DType recorded);

}  // namespace goldentrace
