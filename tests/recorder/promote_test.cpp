// The same program in a wider dtype: nothing of its shape, sharing and control may change.
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using testing::Recorded;

// Values of every output are recorded, so that numbers are compared, not bounds.
class PromoteTest : public testing::RecordingTest {
 protected:
  template <typename Body>
  void record_values(Body body) {
    record(body, {.keep = KeepRules(Keep::kAll)});
  }
};

at::Tensor numbers(std::int64_t count) {
  return at::linspace(-1, 1, count, at::TensorOptions().dtype(at::kBFloat16));
}

TEST_F(PromoteTest, ACopyByConversionStaysACopy) {
  // In float32, .to(float32) gives its argument back; the in-place add would then corrupt x.
  record_values([] {
    const at::Tensor x = at::mul(numbers(64), 3);
    const at::Tensor wide = x.to(at::kFloat);
    wide.add_(1);
    at::mul(x, 2);
  });
  const VerifyReport report = expect_promotable();
  EXPECT_EQ(report.out_of_band, 0u);
  EXPECT_EQ(report.views, report.views_equal);
}

TEST_F(PromoteTest, AViewStaysAView) {
  record_values([] {
    const at::Tensor x = at::mul(numbers(64), 3);
    x.view({8, 8}).t().select(0, 1).mul_(0);
    at::mul(x, 2);
  });
  EXPECT_EQ(expect_promotable().out_of_band, 0u);
}

TEST_F(PromoteTest, StridesAreThoseRecorded) {
  record_values([] {
    const at::Tensor x = at::mul(numbers(64).view({8, 8}), 2).t();
    const at::Tensor y = x.to(at::kFloat);  // keeps x's strides
    y.as_strided({64}, {1}).mul_(at::arange(64));
    at::add(y, 1);
  });
  EXPECT_EQ(expect_promotable().out_of_band, 0u);
}

TEST_F(PromoteTest, ARoundTripThroughFloat8IsTheSameGrid) {
  record_values([] {
    const at::Tensor x = numbers(64);
    at::mul(x.to(at::kFloat8_e4m3fn).to(at::kBFloat16), 2);
  });
  EXPECT_EQ(expect_promotable().out_of_band, 0u);
}

TEST_F(PromoteTest, ComplexRotationsRun) {
  record_values([] {
    const at::Tensor x = at::mul(numbers(64), 2);
    const at::Tensor turn = at::polar(at::mul(at::linspace(1, 2, 32), 1), at::linspace(0, 3, 32));
    const at::Tensor turned = at::mul(at::view_as_complex(x.to(at::kFloat).view({32, 2})), turn);
    at::view_as_real(turned).flatten().to(at::kBFloat16);
  });
  EXPECT_EQ(expect_promotable().out_of_band, 0u);
  EXPECT_EQ(expect_promotable(DType::kFloat64).out_of_band, 0u);
}

TEST_F(PromoteTest, BitsThatAreReadAsIntegersAreTheRecordedOnes) {
  record_values([] {
    const at::Tensor x = at::mul(numbers(64), 2);
    const at::Tensor bits = x.view(at::kShort);
    at::add(bits, 1).view(at::kBFloat16).add(1);
  });
  EXPECT_EQ(expect_promotable().out_of_band, 0u);
  EXPECT_EQ(expect_promotable(DType::kFloat64).out_of_band, 0u);
}

// Two sums that are equal in bfloat16 and not in float32, so that control would go the other way.
at::Tensor near_tie() {
  return at::add(at::tensor({1.0, 0.5, 1.0, 0.25}).to(at::kBFloat16),
                 at::tensor({0.001, 0.0, 0.002, 0.0}).to(at::kBFloat16));
}

TEST_F(PromoteTest, DecisionsAreTakenFromTheTrace) {
  record_values([] {
    const at::Tensor scores = near_tie();
    const auto [values, indices] = at::topk(scores, 1);
    at::mul(values, 100);
    at::add(indices, 1);
    const auto [sorted, order] = at::sort(scores, /*dim=*/-1, /*descending=*/true);
    at::mul(sorted, 100);
    const auto [largest, place] = at::max(scores.view({1, 4}), /*dim=*/1);
    at::mul(largest, 100);
    at::nonzero(at::sub(scores, 1));  // of 1.001 and 1.002, the float32 run finds two more
  });
  const VerifyReport report = expect_promotable();
  EXPECT_GT(report.decisions, report.decisions_equal);
  EXPECT_EQ(report.out_of_band, 0u);
  EXPECT_EQ(report.other_shapes, 0u);
}

TEST_F(PromoteTest, RandomNumbersAreTheRecordedOnes) {
  record_values([] { at::mul(at::rand({64}, at::TensorOptions().dtype(at::kBFloat16)), 4); });
  const VerifyReport report = expect_promotable();
  EXPECT_EQ(report.random, 1u);
  EXPECT_EQ(report.out_of_band, 0u);
}

TEST_F(PromoteTest, AnExternalInputIsWidened) {
  record_values([] {
    const at::Tensor x = at::empty({3}, at::TensorOptions().dtype(at::kBFloat16));
    for (int i = 0; i < 3; ++i) x.mutable_data_ptr<c10::BFloat16>()[i] = static_cast<float>(i);
    at::mul(x.expand({16, 3}), 4);
  });
  EXPECT_EQ(expect_promotable().out_of_band, 0u);
}

}  // namespace
}  // namespace goldentrace
