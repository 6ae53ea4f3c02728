// Where programs are executed.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "src/base/status.h"

namespace goldentrace {

// "cpu", or "cuda", whose kernels are loaded from beside LibTorch's; kUnsupported where they, or a
// device, are missing.
Result<c10::Device> open_device(const std::string& name);

}  // namespace goldentrace
