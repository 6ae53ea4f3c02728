// Training under the recorder: gradients are the same bits, and the calls of a backward pass are
// part of the program. Also: equal programs give equal chunks.
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using ::testing::Contains;
using testing::Recorded;
using testing::same_bits;

using AutogradTest = testing::RecordingTest;

struct Trained {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
};

Trained train() {
  const at::Tensor x = at::linspace(-1, 1, 20).reshape({4, 5});
  at::Tensor w1 = at::linspace(-0.5, 0.5, 35).reshape({7, 5}).requires_grad_();
  at::Tensor b1 = at::linspace(0, 0.1, 7).requires_grad_();
  at::Tensor w2 = at::linspace(0.5, -0.5, 21).reshape({3, 7}).requires_grad_();
  Trained trained;
  for (int pass = 0; pass < 2; ++pass) {  // the second accumulates into the first's gradients
    const at::Tensor hidden = at::linear(x, w1, b1).tanh();
    trained.loss = at::mse_loss(at::matmul(hidden, w2.t()), at::zeros({4, 3}));
    trained.loss.backward();
  }
  trained.gradients = {w1.grad(), b1.grad(), w2.grad()};
  return trained;
}

TEST_F(AutogradTest, GradientsAreTheSameBitsWithAndWithoutRecording) {
  const c10::AutoGradMode grad(true);
  const Trained want = train();
  Trained got;
  record([&] { got = train(); });
  EXPECT_TRUE(same_bits(got.loss, want.loss));
  for (std::size_t i = 0; i < want.gradients.size(); ++i) {
    EXPECT_TRUE(same_bits(got.gradients[i], want.gradients[i])) << i;
  }
}

TEST_F(AutogradTest, TheCallsOfABackwardPassAreRecordedAndComeOutBitForBit) {
  const c10::AutoGradMode grad(true);
  const Recorded recorded = record([&] { train(); });
  EXPECT_THAT(recorded.ops(), Contains("aten::tanh_backward").Times(2));
  EXPECT_EQ(recorded.counter("holes"), 0u);
  expect_reproduced();
}

TEST_F(AutogradTest, GradModeIsPartOfTheAmbientState) {
  const at::Tensor x = at::linspace(-1, 1, 4);
  const Recorded recorded = record([&] {
    {
      const c10::AutoGradMode grad(true);
      at::mul(x, 2);
    }
    const c10::AutoGradMode no_grad(false);
    at::mul(x, 2);
  });
  EXPECT_TRUE(recorded.program->chunk().ambients.at(recorded.calls.at(0).call.ambient).grad);
  EXPECT_FALSE(recorded.program->chunk().ambients.at(recorded.calls.at(1).call.ambient).grad);
}

TEST_F(AutogradTest, TwoRecordingsOfOneProgramHaveEqualChunks) {
  const c10::AutoGradMode grad(true);
  const Recorded first = record([] { train(); }, {.path = folder().file("first.fb")});
  const at::Tensor elsewhere = at::zeros({12345});  // other addresses
  const Recorded second = record([] { train(); }, {.path = folder().file("second.fb")});
  ASSERT_EQ(first.program_chunks.size(), second.program_chunks.size());
  for (std::size_t i = 0; i < first.program_chunks.size(); ++i) {
    EXPECT_EQ(first.program_chunks[i].content, second.program_chunks[i].content) << i;
  }
}

TEST_F(AutogradTest, ProgramsThatDifferInOneNumberHaveOtherChunks) {
  const at::Tensor x = at::linspace(-1, 1, 4);
  const Recorded first = record([&] { at::mul(x, 2.0); }, {.path = folder().file("first.fb")});
  const Recorded second = record([&] { at::mul(x, 2.5); }, {.path = folder().file("second.fb")});
  EXPECT_NE(first.program_chunks.at(0).content, second.program_chunks.at(0).content);
}

}  // namespace
}  // namespace goldentrace
