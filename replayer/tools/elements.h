// Elements of a tensor as text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "replayer/band/dense_tensor.h"

namespace goldentrace {

// Element `i`: six digits of a float32 or float64, four of a narrower one.
std::string element_text(const DenseTensor& tensor, std::size_t i);

// As NumPy prints an array: of a long dimension the first three and the last three, or fewer where
// that would be more than `most` rows.
std::vector<std::string> element_rows(const DenseTensor& tensor, std::size_t most);

}  // namespace goldentrace
