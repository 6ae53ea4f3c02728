// Elements in row-major order, whatever the strides, and any range of them.
#include "src/digest/gather.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace goldentrace {
namespace {

struct Shape {
  const char* why;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;  // of element 0, 0, ...
  bool dense = false;
};

const Shape kShapes[] = {
    {"a scalar", {}, {}, 5, true},
    {"one element of any stride", {1, 1}, {77, -9}, 3, true},
    {"a row", {50}, {1}, 0, true},
    {"a row backwards", {50}, {-1}, 49},
    {"every third, backwards", {20}, {-3}, 60},
    {"contiguous", {4, 5, 6}, {30, 6, 1}, 2, true},
    {"contiguous but for dimensions of size 1", {4, 1, 5, 1}, {5, 999, 1, -3}, 0, true},
    {"rows of a wider tensor", {7, 3, 4}, {20, 4, 1}},
    {"columns of a wider tensor", {7, 3}, {10, 2}, 1},
    {"transposed", {6, 8}, {1, 6}},
    {"permuted, four dimensions", {3, 5, 2, 4}, {4, 24, 12, 1}},
    {"permuted otherwise", {2, 4, 3, 5}, {12, 1, 4, 24}},
    {"rows from the last to the first", {6, 5}, {-5, 1}, 25},
    {"both ways backwards", {6, 5}, {-5, -1}, 29},
    {"expanded in front", {7, 11}, {0, 3}},
    {"expanded behind", {11, 7}, {3, 0}},
    {"expanded in the middle", {3, 6, 4}, {4, 0, 1}},
    {"one element everywhere", {5, 6}, {0, 0}, 8},
    {"overlapping windows", {9, 4}, {1, 1}},
    {"size 1 with a stride of 0", {1, 6}, {0, 1}, 0, true},
};

TEST(Gather, GivesAnyRangeOfTheRowMajorOrder) {
  std::vector<std::byte> memory(16 * 200);
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<std::byte>(i * 31 + i / 256);
  for (const DType dtype :
       {DType::kUInt8, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    const std::size_t size = item_size(dtype);
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(std::string(shape.why) + ", " + std::string(dtype_name(dtype)));
      const std::byte* data = memory.data() + shape.offset * static_cast<std::int64_t>(size);
      const TensorView view{data, dtype, shape.sizes, shape.strides};
      EXPECT_EQ(is_dense(view), shape.dense);
      const std::size_t count = element_count(view);
      std::vector<std::byte> want;
      for (std::size_t i = 0; i < count; ++i) {
        auto rest = static_cast<std::int64_t>(i);
        std::int64_t at = 0;
        for (std::size_t d = shape.sizes.size(); d-- > 0;) {
          at += rest % shape.sizes[d] * shape.strides[d];
          rest /= shape.sizes[d];
        }
        const std::byte* element = data + at * static_cast<std::int64_t>(size);
        want.insert(want.end(), element, element + size);
      }
      for (std::size_t begin = 0; begin <= count; ++begin) {
        for (std::size_t length = 0; begin + length <= count; length += 1 + length / 3) {
          std::vector<std::byte> got(length * size + 1, std::byte{0xaa});
          gather(view, begin, length, got.data());
          EXPECT_EQ(got.back(), std::byte{0xaa}) << "one too many";
          got.pop_back();
          const auto first = want.begin() + static_cast<std::ptrdiff_t>(begin * size);
          ASSERT_EQ(got, std::vector(first, first + static_cast<std::ptrdiff_t>(length * size)))
              << length << " from " << begin;
        }
      }
    }
  }
}

TEST(Gather, ATensorWithoutElementsHasNoMemory) {
  const std::vector<std::int64_t> sizes = {3, 0, 4};
  const std::vector<std::int64_t> strides = {7, 7, 7};
  const TensorView view{nullptr, DType::kFloat32, sizes, strides};
  EXPECT_EQ(element_count(view), 0u);
  std::byte untouched{0xaa};
  gather(view, 0, 0, &untouched);
  EXPECT_EQ(untouched, std::byte{0xaa});
}

TEST(Gather, SixtyFourDimensions) {
  std::vector<std::int64_t> sizes(64, 1);
  std::vector<std::int64_t> strides(64, 0);
  sizes[0] = sizes[31] = sizes[63] = 2;
  strides[0] = 1;
  strides[31] = 4;
  strides[63] = 2;
  const std::vector<std::uint8_t> memory = {0, 1, 2, 3, 4, 5, 6, 7};
  const TensorView view{reinterpret_cast<const std::byte*>(memory.data()), DType::kUInt8, sizes,
                        strides};
  std::vector<std::uint8_t> got(8);
  gather(view, 0, 8, reinterpret_cast<std::byte*>(got.data()));
  EXPECT_EQ(got, (std::vector<std::uint8_t>{0, 2, 4, 6, 1, 3, 5, 7}));
}

}  // namespace
}  // namespace goldentrace
