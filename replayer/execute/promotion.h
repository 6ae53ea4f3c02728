// In which dtypes a recorded program is executed again. Needs no Torch.
#pragma once

#include <cstdint>

#include "src/base/dtype.h"

namespace goldentrace {

enum class Promotion : std::uint8_t {
  kNone,       // as recorded
  kFloat32,    // float16 and bfloat16 as float32
  kFloat64,    // every float as float64
  kNextWider,  // float16 and bfloat16 as float32, float32 as float64: wider than each call was
};

// What `dtype` becomes; itself when it stays: float8, integers and booleans always do.
DType promoted(DType dtype, Promotion promotion);

}  // namespace goldentrace
