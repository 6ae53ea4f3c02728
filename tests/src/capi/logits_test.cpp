// What the library finds in a row of logits; the numbers of `record hf` (hf.py, step_record).
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/src/capi/capi.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using namespace testing;  // NOLINT: the helpers of capi.h

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Found {
  std::int64_t chosen = -1;
  std::vector<std::int64_t> top;
  double gap = 0;
  double rms = 0;
  double logprob = 0;
};

Found describe(DType dtype, const std::vector<double>& row, std::uint32_t top = 3,
               std::int64_t chosen = -1) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const Bytes bytes = dense_of(dtype, row);
  const WriterHandle writer = open_writer(path);
  goldentrace_logits logits;
  goldentrace_logits_init(&logits);
  logits.data = bytes.data();
  logits.count = row.size();
  logits.dtype = static_cast<std::uint32_t>(dtype);
  logits.top = top;
  logits.chosen = chosen;
  EXPECT_DONE(goldentrace_writer_logits(writer.get(), &logits));
  EXPECT_DONE(goldentrace_writer_close(writer.get()));
  const ReaderHandle reader = open_reader(path);
  const goldentrace_result* result = nullptr;
  EXPECT_DONE(goldentrace_reader_result(reader.get(), 0, &result));
  if (result == nullptr) return {};
  return {result->chosen,
          {result->top_ids, result->top_ids + result->top_count},
          result->gap_ulp,
          result->logits_rms,
          result->logprob};
}

TEST(CapiLogits, HighestFirstLowestIdAmongEquals) {
  const Found found = describe(DType::kFloat32, {1, 3, 2, 3, -1});
  EXPECT_EQ(found.chosen, 1);
  EXPECT_EQ(found.top, (std::vector<std::int64_t>{1, 3, 2}));
  EXPECT_EQ(found.gap, 0);
  EXPECT_NEAR(found.rms, std::sqrt(24.0 / 5), 1e-12);
  const double sum = 2 * std::exp(3) + std::exp(1) + std::exp(2) + std::exp(-1);
  EXPECT_NEAR(found.logprob, 3 - std::log(sum), 1e-12);
}

TEST(CapiLogits, TheLogprobIsOfTheGivenChoice) {
  const Found found = describe(DType::kFloat64, {0, 1}, 1, 0);
  EXPECT_EQ(found.chosen, 0);
  EXPECT_EQ(found.top, (std::vector<std::int64_t>{1}));
  EXPECT_NEAR(found.logprob, -std::log1p(std::exp(1)), 1e-12);
}

TEST(CapiLogits, TheGapIsInLastPlacesOfTheHighestOnesDtype) {
  struct Case {
    const char* why;
    DType dtype;
    std::vector<double> row;
    double gap;
  };
  const Case cases[] = {
      {"bfloat16 has 7 bits: 16 to 16.125 is one place", DType::kBFloat16, {16.125, 16}, 1},
      {"float16 has 10", DType::kFloat16, {16.015625, 16}, 1},
      {"float32 has 23", DType::kFloat32, {16 + 0x1p-19, 16}, 1},
      {"float64 has 52", DType::kFloat64, {16 + 0x1p-48, 16}, 1},
      {"negative numbers", DType::kFloat32, {-2, -1}, 0x1p23},
      {"zero counts as 1", DType::kFloat32, {0, -1}, 0x1p23},
      {"a masked second is no gap", DType::kFloat32, {1, -kInf}, kNan},
      {"NaN is no gap", DType::kFloat32, {1, kNan}, kNan},
      {"one token has no second", DType::kFloat32, {1}, kNan},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const double gap = describe(c.dtype, c.row).gap;
    if (std::isnan(c.gap)) {
      EXPECT_TRUE(std::isnan(gap)) << gap;
    } else {
      EXPECT_EQ(gap, c.gap);
    }
  }
}

TEST(CapiLogits, InfinitiesAreLeftOutOfTheRootMeanSquare) {
  EXPECT_EQ(describe(DType::kFloat32, {2, -kInf, -2}).rms, 2);
  EXPECT_EQ(describe(DType::kFloat32, {-kInf, -kInf}).rms, 0);
  EXPECT_EQ(describe(DType::kFloat32, {1, kNan, 5}).chosen, 1);  // as argmax has it
}

}  // namespace
}  // namespace goldentrace
