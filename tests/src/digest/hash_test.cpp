// `hash`: the test vectors of schema/FORMAT.md, and what it must not depend on.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "src/digest/digest.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using testing::to_bytes;

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

TEST(Hash, GivesTheTestVectors) {
  struct Case {
    const char* why;
    Bytes bytes;
    const char* want;
  };
  const Case cases[] = {
      {"no bytes: no leaf, only the count", {}, "2c0a8a99dc147d5445c3b49d035665b2"},
      {"one zero byte", Bytes(1), "5e3cac7b7960e9edc59ecaab6088d2f1"},
      {"a few bytes", to_bytes("goldentrace"), "54eb7e467e5e512b1896e69ce51b4c6a"},
      {"padding is not data", Bytes(4096), "9a839f6c8c885c50896cf0f25f490b7b"},
      {"one less than a block", pattern(4095), "d56668e778730e633c15772fddc30da9"},
      {"a block", pattern(4096), "0ed80c79d3b4f43fa7799a1f164bce83"},
      {"one more than a block", pattern(4097), "32ce064c7f7f08c2b7b9202e126828ed"},
      {"two blocks", pattern(8192), "9584df459662ce21ae6ff53060d91d2b"},
      {"127 leaves", pattern(520192), "94e14ef5163d8b0dc18826b22020e6db"},
      {"128 leaves", pattern(524288), "e9644ac72291f15930eca1f94e808d1a"},
      {"129 leaves and a part", pattern(528389), "03e34be1662b7803f9a70759888e6043"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    EXPECT_EQ(to_hex(hash_bytes(c.bytes)), c.want);
  }
}

TEST(Hash, HexIsTheHighHalfFirst) {
  EXPECT_EQ(to_hex({0x0123456789abcdef, 0x00000000000000fe}), "00000000000000fe0123456789abcdef");
}

struct Shape {
  const char* why;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

// Row-major elements of a strided view, by the definition of strides.
Bytes gather(const Bytes& memory, std::size_t item, const Shape& shape) {
  Bytes dense;
  std::int64_t count = 1;
  for (const std::int64_t size : shape.sizes) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t at = 0;
    for (std::size_t d = shape.sizes.size(); d-- > 0;) {
      at += rest % shape.sizes[d] * shape.strides[d];
      rest /= shape.sizes[d];
    }
    const auto begin = memory.begin() + at * static_cast<std::int64_t>(item);
    dense.insert(dense.end(), begin, begin + static_cast<std::int64_t>(item));
  }
  return dense;
}

TEST(Hash, AViewHashesLikeItsDenseCopy) {
  const Shape shapes[] = {
      {"a scalar", {}, {}},
      {"contiguous", {40, 60}, {60, 1}},
      {"more than a superblock", {3, 50, 40}, {2000, 40, 1}},
      {"transposed", {60, 40}, {1, 60}},
      {"transposed, over a superblock", {50, 3, 40}, {40, 2000, 1}},
      {"every second column", {30, 20}, {60, 2}},
      {"expanded: stride 0", {7, 11}, {0, 3}},
      {"extent 1 may have any stride", {4, 1, 5}, {5, 999, 1}},
      {"no elements", {3, 0, 4}, {7, 7, 7}},
      {"exactly one superblock, strided", {64, 64}, {1, 64}},
  };
  const Bytes memory = pattern(8 * 6000);
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::kUInt8, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      SCOPED_TRACE(std::string(shape.why) + ", " + std::string(dtype_name(dtype)));
      const TensorView view{memory.data(), dtype, shape.sizes, shape.strides};
      const Bytes dense = gather(memory, item_size(dtype), shape);
      EXPECT_EQ(digest_tensor(view, {}).hash, hash_bytes(dense));
      EXPECT_EQ(dense_bytes(view), dense);
    }
  }
}

TEST(Hash, DependsOnBytesOnly) {
  std::array<std::int64_t, 6> values;
  std::iota(values.begin(), values.end(), 0);
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  const std::array<std::int64_t, 1> line{6};
  const std::array<std::int64_t, 2> square{2, 3};
  const std::array<std::int64_t, 1> ones{1};
  const std::array<std::int64_t, 2> rows{3, 1};
  const char* want = "a452c472fbd34989607c201a331f5172";
  EXPECT_EQ(to_hex(digest_tensor({data, DType::kInt64, line, ones}, {.stats = true}).hash), want);
  EXPECT_EQ(to_hex(digest_tensor({data, DType::kFloat64, square, rows}, {.stats = true}).hash),
            want);
}

}  // namespace
}  // namespace goldentrace
