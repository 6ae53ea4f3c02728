#include "replayer/tools/npy.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace goldentrace {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// How an 8-bit float is read. Those of the "fnuz" kind have one NaN, where others have -0.
struct Float8 {
  int mantissa_bits;
  int bias;
  bool infinities;
  bool fnuz;
};

Float8 layout_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E5M2:
      return {2, 15, true, false};
    case DType::kFloat8E4M3FN:
      return {3, 7, false, false};
    case DType::kFloat8E5M2FNUZ:
      return {2, 16, false, true};
    default:
      return {3, 8, false, true};
  }
}

float float8_to_float(DType dtype, unsigned bits) {
  const Float8 layout = layout_of(dtype);
  const unsigned magnitude = bits & 0x7fu;
  const float sign = (bits & 0x80u) != 0 ? -1.0f : 1.0f;
  if (layout.fnuz && bits == 0x80u) return kNan;
  const unsigned mantissa = magnitude & ((1u << layout.mantissa_bits) - 1);
  const int exponent = static_cast<int>(magnitude >> layout.mantissa_bits);
  if (layout.infinities && exponent == 31) return mantissa == 0 ? sign * kInfinity : kNan;
  if (!layout.infinities && !layout.fnuz && magnitude == 0x7fu) return kNan;
  const int implicit = exponent == 0 ? 0 : 1 << layout.mantissa_bits;
  const int scale = (exponent == 0 ? 1 : exponent) - layout.bias - layout.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(implicit + static_cast<int>(mantissa)), scale);
}

bool is_float8(DType dtype) {
  return dtype == DType::kFloat8E5M2 || dtype == DType::kFloat8E4M3FN ||
         dtype == DType::kFloat8E5M2FNUZ || dtype == DType::kFloat8E4M3FNUZ;
}

char kind_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 'b';
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return 'i';
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
      return 'u';
    case DType::kComplex64:
    case DType::kComplex128:
      return 'c';
    default:
      return 'f';
  }
}

std::string descr(char kind, std::size_t size) {
  return std::string(size == 1 ? "|" : "<") + kind + std::to_string(size);
}

}  // namespace

Result<NpyType> npy_type(DType dtype, bool bits) {
  const bool narrow = dtype == DType::kBFloat16 || is_float8(dtype);
  if (!narrow && dtype != DType::kComplex32) {
    return NpyType{descr(kind_of(dtype), item_size(dtype)), false, false};
  }
  if (bits) return NpyType{descr('u', item_size(dtype)), false, true};
  if (narrow) return NpyType{descr('f', sizeof(float)), true, false};
  return Status(Code::kUnsupported, "NumPy has no " + std::string(dtype_name(dtype)) +
                                        ": --bits writes unsigned integers of the same bits");
}

std::string npy_header(const std::string& descr, const std::vector<std::int64_t>& shape) {
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : shape) text += std::to_string(size) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  text += "), }";
  const std::string magic("\x93NUMPY\x01\x00", 8);
  const std::size_t unpadded = magic.size() + 2 + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  const auto size = static_cast<std::uint16_t>(text.size());
  return magic + static_cast<char>(size & 0xff) + static_cast<char>(size >> 8) + text;
}

float to_float32(DType dtype, const std::byte* element) {
  if (dtype != DType::kBFloat16) {
    return float8_to_float(dtype, std::to_integer<unsigned>(*element));
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof(bits));
  return bfloat16_to_float(bits);
}

}  // namespace goldentrace
