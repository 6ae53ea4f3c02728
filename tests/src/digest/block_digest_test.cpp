// What the CUDA kernel computes, computed by the same functions one thread after the other: equal
// to the host's digest to the last bit.
#include "src/digest/block_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "src/digest/cuda/digest_kernel.h"
#include "src/digest/digest.h"

namespace goldentrace {
namespace {

// As much as the kernel's threads find in a superblock.
template <class Element>
PartialDigest superblock_digest(const std::vector<std::uint64_t>& unit, std::size_t count,
                                std::size_t number) {
  std::array<std::uint64_t, 64> signs;
  for (std::uint32_t row = 0; row < 64; ++row) signs[row] = sketch_signs(row);
  const SketchMix mix = sketch_mix(number);
  PartialDigest found{};
  found.stats = no_stats();
  for (std::uint32_t i = 0; i < 64; ++i) {
    add_stats(lane_stats<Element>(unit.data(), count, i), found.stats);
    place_sum(sketch_sum<Element>(unit.data(), count, i, mix, signs.data()), i, mix, found);
  }
  return found;
}

// The kernels of digest_kernel.cu without a device.
template <class Element>
Digest emulate(const TensorView& tensor, const GatherLayout& layout) {
  const DeviceDigestPlan plan(layout.count, Element::kSize);
  std::vector<std::uint64_t> leaves;
  PartialDigest total{};
  total.stats = no_stats();
  std::array<double, 64> sums{};
  constexpr std::size_t kUnit = unit_elements(Element::kSize);
  for (std::size_t begin = 0; begin < layout.count; begin += kUnit) {
    const std::size_t count = std::min(kUnit, layout.count - begin);
    std::vector<std::uint64_t> unit(kUnit * Element::kSize / 8);
    auto* const bytes = reinterpret_cast<std::byte*>(unit.data());
    for (std::size_t i = 0; i < count; ++i) {
      const auto offset =
          offset_of(layout, begin + i) * static_cast<std::ptrdiff_t>(Element::kSize);
      std::memcpy(bytes + i * Element::kSize, tensor.data + offset, Element::kSize);
    }
    for (std::size_t at = 0; at < leaf_count(count * Element::kSize); ++at) {
      leaves.push_back(leaf_of(unit.data() + at * kLeafWords));
    }
    if constexpr (Element::kReal) {
      const PartialDigest found = superblock_digest<Element>(unit, count, begin / kUnit);
      add_stats(found.stats, total.stats);
      for (std::size_t k = 0; k < 64; ++k) sums[k] += found.sketch[k];
    }
  }
  std::ranges::transform(sums, total.sketch, [](double sum) { return static_cast<float>(sum); });

  EXPECT_EQ(leaves.size(), plan.leaves);
  std::vector<std::uint64_t> result(plan.result_bytes() / 8);
  std::memcpy(result.data(), &total, sizeof total);
  std::ranges::copy(leaves, result.begin() + DeviceDigestPlan::kLeavesAt / 8);
  return finish_digest(result.data(), tensor.dtype, layout.count);
}

Digest emulate(const TensorView& tensor, const GatherLayout& layout) {
  switch (tensor.dtype) {
    case DType::kBFloat16:
      return emulate<BFloat16>(tensor, layout);
    case DType::kFloat16:
      return emulate<Float16>(tensor, layout);
    case DType::kFloat32:
      return emulate<Float32>(tensor, layout);
    case DType::kFloat64:
      return emulate<Float64>(tensor, layout);
    case DType::kInt64:
      return emulate<Opaque<8>>(tensor, layout);
    case DType::kComplex128:
      return emulate<Opaque<16>>(tensor, layout);
    default:
      return emulate<Opaque<1>>(tensor, layout);
  }
}

void expect_as_on_the_host(const TensorView& tensor) {
  const std::optional<GatherLayout> layout = gather_layout(tensor);
  ASSERT_TRUE(layout.has_value());
  const Digest got = emulate(tensor, *layout);
  const Digest want = digest_tensor(tensor, {.stats = true, .sketch = true});
  EXPECT_EQ(to_hex(got.hash), to_hex(want.hash));
  if (!is_real_float(tensor.dtype)) return;
  EXPECT_EQ(got.stats, want.stats);
  const auto bits = [](const Stats& stats) {  // signs of zeros too
    return std::bit_cast<std::array<std::uint64_t, 4>>(
        std::array{stats.min, stats.max, stats.sum, stats.sum_squares});
  };
  EXPECT_EQ(bits(got.stats), bits(want.stats));
  using SketchBits = std::array<std::uint32_t, kSketchSums>;
  EXPECT_EQ(std::bit_cast<SketchBits>(got.sketch), std::bit_cast<SketchBits>(want.sketch));
}

void expect_as_on_the_host(DType dtype, const std::vector<std::byte>& bytes) {
  const std::array sizes{static_cast<std::int64_t>(bytes.size() / item_size(dtype))};
  const std::array<std::int64_t, 1> strides{1};
  expect_as_on_the_host({bytes.data(), dtype, sizes, strides});
}

// Any bits: NaN, infinities and sentinels among them, more of them the shorter the exponent is.
std::vector<std::byte> any_bits(std::size_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

template <typename T>
void put(T value, std::size_t i, std::vector<std::byte>& data) {
  std::memcpy(data.data() + i * sizeof value, &value, sizeof value);
}

// Rounded down, which is good enough for tests.
void put(DType dtype, double value, std::size_t i, std::vector<std::byte>& data) {
  const auto single = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(single);
  switch (dtype) {
    case DType::kBFloat16:
      return put(static_cast<std::uint16_t>(bits >> 16), i, data);
    case DType::kFloat16: {
      const std::uint32_t exponent = (bits >> 23) & 0xffu;
      const std::uint32_t body = exponent < 113   ? (bits >> 13) & 0x3ffu  // zero or denormal
                                 : exponent > 142 ? 0x7c00u
                                                  : (bits >> 13 & 0x3ffffu) - (112u << 10);
      return put(static_cast<std::uint16_t>(body | (bits >> 31 << 15)), i, data);
    }
    case DType::kFloat32:
      return put(single, i, data);
    default:
      return put(value, i, data);
  }
}

// Like activations, whose sums are ordinary.
std::vector<std::byte> activations(DType dtype, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0.1, 3);
  std::vector<std::byte> data(count * item_size(dtype));
  for (std::size_t i = 0; i < count; ++i) put(dtype, normal(random), i, data);
  return data;
}

constexpr DType kReals[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat64};
constexpr std::size_t kCounts[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 20000};

TEST(BlockDigest, LeafIsXxh3OfABlock) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::vector<std::byte> bytes =
        seed == 0 ? std::vector<std::byte>(kHashBlock) : any_bits(kHashBlock, seed);
    std::array<std::uint64_t, kLeafWords> words;
    std::memcpy(words.data(), bytes.data(), kHashBlock);
    std::uint64_t want = 0;
    hash_leaves(bytes, &want);
    EXPECT_EQ(leaf_of(words.data()), want) << seed;
  }
}

TEST(BlockDigest, ClassifiesElementsAsTheFormatSays) {
  constexpr float kSentinel = 1e30F;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float below = std::nextafter(kSentinel, 0.0F);
  struct Case {
    float x;
    ElementClass want;
  };
  const Case cases[] = {{0.0F, ElementClass::kZero},
                        {-0.0F, ElementClass::kZero},
                        {std::numeric_limits<float>::denorm_min(), ElementClass::kOrdinary},
                        {-below, ElementClass::kOrdinary},
                        {below, ElementClass::kOrdinary},
                        {kSentinel, ElementClass::kSentinel},
                        {-kSentinel, ElementClass::kSentinel},
                        {std::numeric_limits<float>::lowest(), ElementClass::kSentinel},
                        {kInf, ElementClass::kPositiveInfinity},
                        {-kInf, ElementClass::kNegativeInfinity},
                        {std::numeric_limits<float>::quiet_NaN(), ElementClass::kNan}};
  for (const Case& c : cases) {
    EXPECT_EQ(class_of(c.x), c.want) << c.x;
    EXPECT_EQ(class_of(static_cast<double>(c.x)), c.want) << c.x;
  }
  EXPECT_EQ(class_of(1e30), ElementClass::kSentinel);
  EXPECT_EQ(class_of(std::nextafter(1e30, 0.0)), ElementClass::kOrdinary);
}

TEST(BlockDigest, ConvertsEverySixteenBitFloatAsTheHostDoes) {
  for (std::uint32_t i = 0; i <= 0xffffu; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(Float16::value(i)),
              std::bit_cast<std::uint32_t>(float16_to_float(half)));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(BFloat16::value(i)),
              std::bit_cast<std::uint32_t>(bfloat16_to_float(half)));
  }
}

TEST(BlockDigest, EqualsTheHostsOfRealFloats) {
  for (const DType dtype : kReals) {
    for (const std::size_t count : kCounts) {
      SCOPED_TRACE(dtype_name(dtype));
      SCOPED_TRACE(count);
      expect_as_on_the_host(dtype, activations(dtype, count, 1));
      expect_as_on_the_host(dtype, any_bits(count * item_size(dtype), 2));
    }
  }
}

TEST(BlockDigest, EqualsTheHostsOfOtherElements) {
  for (const DType dtype : {DType::kInt64, DType::kUInt8, DType::kBool, DType::kComplex128}) {
    for (const std::size_t count : kCounts) {
      SCOPED_TRACE(dtype_name(dtype));
      SCOPED_TRACE(count);
      expect_as_on_the_host(dtype, any_bits(count * item_size(dtype), 3));
    }
  }
}

TEST(BlockDigest, EqualsTheHostsWithElementsThatNeedCare) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double cases[] = {-0.0,    0.0,        std::numeric_limits<double>::quiet_NaN(),
                          kInf,    -kInf,      1e30,
                          -1e30,   1e38,       std::nextafter(1e30, 0.0),
                          0x1p-24, 0x1.8p-140, std::numeric_limits<double>::denorm_min()};
  for (const DType dtype : kReals) {
    for (const double special : cases) {
      SCOPED_TRACE(dtype_name(dtype));
      SCOPED_TRACE(special);
      std::vector<std::byte> among = activations(dtype, 5000, 4);
      std::vector<std::byte> alone(5000 * item_size(dtype));
      for (std::size_t i = 0; i < 5000; ++i) {
        if (i % 97 == 0 || i > 4800) put(dtype, special, i, among);
        put(dtype, special, i, alone);
      }
      expect_as_on_the_host(dtype, among);
      expect_as_on_the_host(dtype, alone);
    }
  }
}

TEST(BlockDigest, EqualsTheHostsOfTensorsWithGaps) {
  struct Case {
    const char* why;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    std::size_t first;
  };
  const Case cases[] = {{"transposed", {100, 90}, {1, 100}, 0},
                        {"every second element", {5000}, {2}, 1},
                        {"columns of a matrix", {80, 60}, {120, 1}, 17},
                        {"heads moved forward", {2, 8, 50, 16}, {6400, 16, 128, 1}, 0},
                        {"expanded", {70, 3, 40}, {40, 0, 1}, 5},
                        {"one element, expanded", {4100}, {0}, 9},
                        {"flipped", {70, 80}, {80, -1}, 79},
                        {"sizes of one", {1, 30, 1, 40, 1}, {7, 80, 3, 2, 9}, 0},
                        {"outer dimensions that are one", {10, 20, 30}, {800, 40, 1}, 0},
                        {"dense but for its strides of sizes of one", {1, 500}, {3, 1}, 2},
                        {"no element", {3, 0, 2}, {1, 5, 7}, 0}};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat64, DType::kUInt8, DType::kComplex128}) {
    const std::vector<std::byte> data = any_bits(13000 * item_size(dtype), 5);
    for (const Case& c : cases) {
      SCOPED_TRACE(dtype_name(dtype));
      SCOPED_TRACE(c.why);
      expect_as_on_the_host({data.data() + c.first * item_size(dtype), dtype, c.sizes, c.strides});
    }
  }
}

TEST(BlockDigest, JoinsDimensionsAndRefusesMoreThanSixteen) {
  // Strides in the wrong order: no two dimensions are one.
  std::vector<std::int64_t> sizes(GatherLayout::kMaxRank, 2);
  std::vector<std::int64_t> strides;
  for (int d = 0; d < GatherLayout::kMaxRank; ++d) strides.push_back(std::int64_t{1} << d);
  EXPECT_EQ(gather_layout({nullptr, DType::kUInt8, sizes, strides})->rank, GatherLayout::kMaxRank);
  sizes.push_back(2);
  strides.push_back(std::int64_t{1} << GatherLayout::kMaxRank);
  EXPECT_FALSE(gather_layout({nullptr, DType::kUInt8, sizes, strides}).has_value());
  // In the right order, and all but one are.
  std::ranges::reverse(strides);
  EXPECT_EQ(gather_layout({nullptr, DType::kUInt8, sizes, strides})->rank, 0);
  strides.front() *= 2;
  EXPECT_EQ(gather_layout({nullptr, DType::kUInt8, sizes, strides})->rank, 2);
}

}  // namespace
}  // namespace goldentrace
