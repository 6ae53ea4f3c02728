// Tensors as text.
#include "replayer/tools/elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using ::testing::ElementsAre;

DenseTensor counting(std::vector<std::int64_t> sizes, DType dtype = DType::kInt64) {
  std::size_t count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<std::size_t>(size);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(i);
  return {dtype, std::move(sizes), testing::dense_of(dtype, values)};
}

TEST(Elements, AreLaidOutAsNumPyDoes) {
  EXPECT_THAT(element_rows(counting({}), 9), ElementsAre("0"));
  EXPECT_THAT(element_rows(counting({0, 3}), 9), ElementsAre("[]"));
  EXPECT_THAT(element_rows(counting({3}), 9), ElementsAre("[0 1 2]"));
  EXPECT_THAT(element_rows(counting({8}), 9), ElementsAre("[0 1 2 ... 5 6 7]"));
  EXPECT_THAT(element_rows(counting({1, 2, 1, 2}), 9), ElementsAre("[[[[0 1]]", "  [[2 3]]]]"));
  EXPECT_THAT(
      element_rows(counting({9, 2}), 9),
      ElementsAre("[[ 0  1]", " [ 2  3]", " [ 4  5]", " ...", " [12 13]", " [14 15]", " [16 17]]"));
}

TEST(Elements, FewerRowsAreShownWhereThereIsNoRoom) {
  EXPECT_THAT(element_rows(counting({9, 1}), 3), ElementsAre("[[0]", " ...", " [8]]"));
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{4, 5, 6, 7}, {9, 9, 9, 9, 9}, {2, 2, 2, 2, 2, 2}}) {
    EXPECT_LE(element_rows(counting(sizes), 16).size(), 16u);
  }
}

TEST(Elements, OfEveryKindHaveATextForm) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {0.1, -infinity, std::nan("")};
  const auto rows = [&](DType dtype) {
    return element_rows({dtype, {3}, testing::dense_of(dtype, values)}, 9);
  };
  EXPECT_THAT(rows(DType::kBFloat16), ElementsAre("[0.1001   -inf    nan]"));
  EXPECT_THAT(rows(DType::kFloat32), ElementsAre("[ 0.1 -inf  nan]"));
  EXPECT_THAT(element_rows({DType::kBool, {2}, Bytes{std::byte{1}, std::byte{0}}}, 9),
              ElementsAre("[ True False]"));
  EXPECT_THAT(element_rows({DType::kInt8, {1}, Bytes{std::byte{0xff}}}, 9), ElementsAre("[-1]"));
  EXPECT_THAT(element_rows({DType::kFloat8E4M3FN, {1}, Bytes{std::byte{0x38}}}, 9),
              ElementsAre("[1]"));
}

}  // namespace
}  // namespace goldentrace
