// Element types of tensors, and how to read one element as a double.
//
// The numbers are stored in traces: append only. They equal c10::ScalarType's, which PyTorch keeps
// stable because its own serialization stores them (held by a static_assert in the recorder).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace goldentrace {

enum class DType : std::uint8_t {
  kUInt8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kFloat32 = 6,
  kFloat64 = 7,
  kComplex32 = 8,
  kComplex64 = 9,
  kComplex128 = 10,
  kBool = 11,
  kBFloat16 = 15,
  kFloat8E5M2 = 23,
  kFloat8E4M3FN = 24,
  kFloat8E5M2FNUZ = 25,
  kFloat8E4M3FNUZ = 26,
  kUInt16 = 27,
  kUInt32 = 28,
  kUInt64 = 29,
};

// Bytes of one element; 0 for a number that is no dtype of this version.
std::size_t item_size(DType dtype);
// "bfloat16", "int64", ...; "unknown" for a number that is no dtype of this version.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
// float16, bfloat16, float32, float64: the types that stats and bands are defined for.
bool is_real_float(DType dtype);
// bool and every signed or unsigned integer.
bool is_integral(DType dtype);

float bfloat16_to_float(std::uint16_t bits);
float float16_to_float(std::uint16_t bits);

// Element `i` of a dense array of a real float dtype, exactly. Only for is_real_float(dtype).
double load_real(DType dtype, const std::byte* data, std::size_t i);

}  // namespace goldentrace
