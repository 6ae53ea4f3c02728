#include "src/base/dtype.h"

#include <bit>
#include <cstring>

namespace goldentrace {
namespace {

struct Row {
  DType dtype;
  std::uint8_t size;
  std::string_view name;
};

constexpr Row kRows[] = {
    {DType::kUInt8, 1, "uint8"},
    {DType::kInt8, 1, "int8"},
    {DType::kInt16, 2, "int16"},
    {DType::kInt32, 4, "int32"},
    {DType::kInt64, 8, "int64"},
    {DType::kFloat16, 2, "float16"},
    {DType::kFloat32, 4, "float32"},
    {DType::kFloat64, 8, "float64"},
    {DType::kComplex32, 4, "complex32"},
    {DType::kComplex64, 8, "complex64"},
    {DType::kComplex128, 16, "complex128"},
    {DType::kBool, 1, "bool"},
    {DType::kBFloat16, 2, "bfloat16"},
    {DType::kFloat8E5M2, 1, "float8_e5m2"},
    {DType::kFloat8E4M3FN, 1, "float8_e4m3fn"},
    {DType::kFloat8E5M2FNUZ, 1, "float8_e5m2fnuz"},
    {DType::kFloat8E4M3FNUZ, 1, "float8_e4m3fnuz"},
    {DType::kUInt16, 2, "uint16"},
    {DType::kUInt32, 4, "uint32"},
    {DType::kUInt64, 8, "uint64"},
};

const Row* find(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

template <typename T>
T load(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::size_t item_size(DType dtype) {
  const Row* row = find(dtype);
  return row == nullptr ? 0 : row->size;
}

std::string_view dtype_name(DType dtype) {
  const Row* row = find(dtype);
  return row == nullptr ? "unknown" : row->name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

bool is_real_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

bool is_integral(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBool:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
      return true;
    default:
      return false;
  }
}

float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
float float16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero and denormals: fraction x 2^-24, exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 0xffu : exponent + (127u - 15u);
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

double load_real(DType dtype, const std::byte* data, std::size_t i) {
  switch (dtype) {
    case DType::kBFloat16:
      return bfloat16_to_float(load<std::uint16_t>(data, i));
    case DType::kFloat16:
      return float16_to_float(load<std::uint16_t>(data, i));
    case DType::kFloat32:
      return load<float>(data, i);
    default:
      return load<double>(data, i);
  }
}

}  // namespace goldentrace
