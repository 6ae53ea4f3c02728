#include "src/base/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace goldentrace {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Written from IEEE 754's definition, with no bit tricks in common with the code under test.
double reference_float16(unsigned bits) {
  const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>((bits >> 10) & 31u);
  const double fraction = (bits & 1023u) / 1024.0;
  if (exponent == 31) return fraction == 0 ? sign * kInf : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -14);
  return sign * std::ldexp(1.0 + fraction, exponent - 15);
}

TEST(DType, ReadsEveryFloat16Pattern) {
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    const double want = reference_float16(bits);
    const double got = float16_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(got, want) << bits;
      ASSERT_EQ(std::signbit(got), std::signbit(want)) << bits;
    }
  }
}

TEST(DType, ReadsBFloat16AsTheHighHalfOfFloat32) {
  struct Case {
    const char* why;
    std::uint16_t bits;
    float want;
  };
  const Case cases[] = {
      {"zero", 0x0000, 0.0f},
      {"negative zero keeps its sign", 0x8000, -0.0f},
      {"one", 0x3f80, 1.0f},
      {"least denormal", 0x0001, 0x1p-133f},
      {"greatest denormal", 0x007f, 0x1.fcp-127f},
      {"least normal", 0x0080, 0x1p-126f},
      {"max", 0x7f7f, 0x1.fep127f},
      {"lowest", 0xff7f, -0x1.fep127f},
      {"infinity", 0x7f80, kInf},
      {"negative infinity", 0xff80, -kInf},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(bfloat16_to_float(c.bits)),
              std::bit_cast<std::uint32_t>(c.want));
  }
  EXPECT_TRUE(std::isnan(bfloat16_to_float(0x7fc0)));
  EXPECT_TRUE(std::isnan(bfloat16_to_float(0xff81)));
}

TEST(DType, LoadsTheElementAtAnIndexOfEachRealFloat) {
  const auto second = [](DType dtype, const auto& pair) {
    std::array<std::byte, sizeof(pair)> bytes;
    std::memcpy(bytes.data(), &pair, sizeof(pair));
    return load_real(dtype, bytes.data(), 1);
  };
  EXPECT_EQ(second(DType::kFloat32, std::array{1.0f, 0.1f}), static_cast<double>(0.1f));
  EXPECT_EQ(second(DType::kFloat64, std::array{1.0, 0.1}), 0.1);
  EXPECT_EQ(second(DType::kFloat16, std::array<std::uint16_t, 2>{0, 0x3555}), 0x1.554p-2);
  EXPECT_EQ(second(DType::kBFloat16, std::array<std::uint16_t, 2>{0, 0x4049}), 3.140625);
}

TEST(DType, NamesAndSizesAgreeForEveryNumber) {
  int known = 0;
  for (unsigned number = 0; number < 256; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (item_size(dtype) == 0) {
      EXPECT_EQ(dtype_name(dtype), "unknown") << number;
      continue;
    }
    ++known;
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype) << number;
    EXPECT_FALSE(is_real_float(dtype) && is_integral(dtype)) << number;
  }
  EXPECT_EQ(known, 20);
  EXPECT_FALSE(dtype_from_name("unknown").has_value());
}

}  // namespace
}  // namespace goldentrace
