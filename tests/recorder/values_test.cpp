// What is kept of a result: stats always, the bytes where a rule, a random call or a decision asks.
#include <ATen/Context.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using testing::Recorded;
using testing::RecordedCall;

using ValuesTest = testing::RecordingTest;

void seed(std::uint64_t value) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(value);
}

TEST_F(ValuesTest, RandomCallsKeepTheirOutputAndVerificationTakesIt) {
  const at::Tensor x = at::linspace(0.1, 0.9, 50);
  seed(7);
  const Recorded recorded = record([&] {
    const at::Tensor noise = at::rand({50});
    const at::Tensor mask = at::bernoulli(x);
    at::mul(at::add(x, noise), mask);
    at::dropout(x, 0.5, /*train=*/true);
    at::Tensor y = at::zeros({50});
    y.slice(0, 10, 20).uniform_(-1, 1);  // in place, through a view
    at::add(y, 1);
    at::multinomial(x, 3);
    at::randperm(9);
  });
  for (const RecordedCall& call : recorded.calls) {
    SCOPED_TRACE(call.op);
    const bool random = call.op == "aten::rand" || call.op == "aten::bernoulli" ||
                        call.op == "aten::dropout" || call.op == "aten::uniform_" ||
                        call.op == "aten::multinomial" || call.op == "aten::randperm";
    EXPECT_EQ((call.call.flags & kCallRandom) != 0, random);
    for (const auto& [write, stats] : call.writes) {
      EXPECT_EQ((write.flags & kWriteValue) != 0, random);
    }
  }
  // Another state of the generator: what is compared came from the trace.
  seed(8);
  EXPECT_EQ(expect_reproduced().random, 6u);
}

TEST_F(ValuesTest, DropoutDrawsOnlyInTraining) {
  const at::Tensor x = at::linspace(-1, 1, 64);
  const Recorded recorded = record([&] {
    at::dropout(x, 0.5, /*train=*/false);
    at::dropout(x, 0, /*train=*/true);
    at::dropout(x, 0.5, /*train=*/true);
  });
  EXPECT_EQ(recorded.counter("calls_random"), 1u);
  EXPECT_EQ(recorded.calls.at(2).call.flags & kCallRandom, kCallRandom);
  EXPECT_EQ(expect_reproduced().random, 1u);
}

TEST_F(ValuesTest, AttentionDrawsOnlyWhereItHasDropout) {
  const at::Tensor q = at::linspace(-1, 1, 64).reshape({1, 2, 8, 4});
  const Recorded recorded = record([&] {
    at::scaled_dot_product_attention(q, q, q);
    at::scaled_dot_product_attention(q, q, q, std::nullopt, 0.5);
  });
  EXPECT_EQ(recorded.calls.at(0).call.flags & kCallRandom, 0);
  EXPECT_EQ(recorded.calls.at(1).call.flags & kCallRandom, kCallRandom);
  EXPECT_EQ(expect_reproduced().random, 1u);
}

TEST_F(ValuesTest, DecisionsAreKeptByValueAndIntegerArithmeticIsNot) {
  const at::Tensor x = at::linspace(-1, 1, 9).sin();
  const at::Tensor counts = at::arange(9);
  const Recorded recorded = record([&] {
    at::argmax(x);
    at::topk(x, 3);
    at::gt(x, 0.25);
    at::add(counts, 1);
    at::gt(counts, 4);
    at::sort(counts);
  });
  const auto flags = [&](std::size_t call, std::size_t write) {
    return recorded.calls.at(call).writes.at(write).write.flags & (kWriteDecision | kWriteValue);
  };
  EXPECT_EQ(flags(0, 0), kWriteDecision | kWriteValue);
  EXPECT_EQ(flags(1, 0), 0) << "the values of a topk are arithmetic";
  EXPECT_EQ(flags(1, 1), kWriteDecision | kWriteValue);
  EXPECT_EQ(flags(2, 0), kWriteDecision | kWriteValue);
  EXPECT_EQ(flags(3, 0), 0);
  EXPECT_EQ(flags(4, 0), 0);
  EXPECT_EQ(flags(5, 1), 0);
  const Bytes value = *recorded.trace->value(recorded.calls[0].writes[0].write.hash);
  ASSERT_EQ(value.size(), 8u);
  EXPECT_EQ(static_cast<int>(value[0]), 8);
  expect_reproduced();
}

TEST_F(ValuesTest, RulesChooseByScopeOperatorAndStep) {
  const at::Tensor x = at::linspace(0, 1, 5);
  std::vector<KeepRule> rules;
  for (const char* text :
       {":stats", "scope=model.layers.*:hash", "scope=model.layers.1,op=aten::mul:values",
        "op=aten::neg,step=1..2:values", "step=3:hash"}) {
    const auto rule = parse_keep_rule(text);
    ASSERT_TRUE(rule.ok()) << rule.status().message();
    rules.push_back(*rule);
  }
  int made = 1;  // no two results are the same bytes, nor those of x
  const Recorded recorded = record(
      [&](Recorder& recorder) {
        for (std::uint32_t step = 0; step < 4; ++step) {
          recorder.set_step(step);
          for (const char* path : {"model", "model.layers.0", "model.layers.1"}) {
            const ModuleScope scope(path);
            at::mul(x, ++made).neg();
          }
        }
      },
      {.keep = KeepRules(Keep::kGolden, rules)});
  ASSERT_EQ(recorded.calls.size(), 24u);
  for (const RecordedCall& call : recorded.calls) {
    const std::uint32_t step = call.call.step;
    const bool mul = call.op == "aten::mul.Scalar";
    SCOPED_TRACE(call.scope + " " + call.op + " step " + std::to_string(step));
    int want = kWriteHashed | kWriteStats;
    if (call.scope != "model") want = kWriteHashed;
    if (call.scope == "model.layers.1" && mul) want = kWriteHashed | kWriteStats | kWriteValue;
    if (!mul && (step == 1 || step == 2)) want = kWriteHashed | kWriteStats | kWriteValue;
    if (step == 3) want = kWriteHashed;
    ASSERT_EQ(call.writes.size(), 1u);
    EXPECT_EQ(call.writes[0].write.flags, want);
    EXPECT_EQ(recorded.trace->has_value(call.writes[0].write.hash), (want & kWriteValue) != 0);
  }
  expect_reproduced();
}

TEST_F(ValuesTest, StatsOfAMaskedScoreCountSentinelsAndNonFiniteApart) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const at::Tensor scores = at::linspace(-1, 2, 6);
  const at::Tensor mask = at::zeros({6});
  mask.mutable_data_ptr<float>()[1] = -3.4e38f;  // finfo(float32).min, as eager masks are filled
  mask.mutable_data_ptr<float>()[2] = -kInf;
  mask.mutable_data_ptr<float>()[3] = kInf;
  mask.mutable_data_ptr<float>()[4] = std::nanf("");
  const Recorded recorded = record([&] { at::add(scores, mask); });
  const RecordedCall add = recorded.only("aten::add.Tensor");
  ASSERT_EQ(add.writes.size(), 1u);
  const Stats& stats = add.writes[0].stats;
  EXPECT_EQ(stats.count, 6u);
  EXPECT_EQ(stats.sentinel, 1u);
  EXPECT_EQ(stats.negative_infinity, 1u);
  EXPECT_EQ(stats.positive_infinity, 1u);
  EXPECT_EQ(stats.nan, 1u);
  EXPECT_EQ(stats.min, -1.0);
  EXPECT_EQ(stats.max, 2.0);
  EXPECT_EQ(stats.sum, 1.0);
  EXPECT_EQ(stats.sum_squares, 5.0);
  expect_reproduced();
}

}  // namespace
}  // namespace goldentrace
