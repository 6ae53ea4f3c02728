// What is out of band but without effect is no finding; what has an effect stays one.

#include "replayer/verdict/pool.h"

#include <gtest/gtest.h>

namespace goldentrace {
namespace {

constexpr std::uint64_t kElements = 64;
constexpr double kRoundoff = 0x1p-8;  // bfloat16

Output output_of(std::uint32_t storage, double norm) {
  Output output;
  output.flags = kWriteHashed | kWriteStats;
  output.elements = kElements;
  output.storage = storage;
  output.stats.count = kElements;
  output.stats.sum_squares = norm * norm;
  return output;
}

StepCall call_of(std::uint64_t number, std::vector<std::uint32_t> reads, Output output) {
  StepCall call;
  call.number = number;
  call.reads = std::move(reads);
  call.outputs = {output};
  return call;
}

// Adds the only output of `call`, `difference` away from a norm of `norm`, under a band of 6 %.
void add(Pools& pools, const StepCall& call, double difference, double norm) {
  CallDifference at;
  at.oracle_call = call.number;
  at.evidence = Evidence::kValues;
  at.band = 0.06;
  at.distance = difference / norm;
  Distance distance;
  distance.difference = difference;
  distance.norm = norm;
  pools.add({true, 0, 0, static_cast<std::uint32_t>(call.number), 0}, at, distance, call,
            call.outputs[0]);
}

// Call 1 makes storage 1, far out of band in itself: 1e-7 of 1e-6.
StepCall tiny() { return call_of(1, {}, output_of(1, 1e-6)); }

struct Case {
  const char* why;
  bool identical;  // of the reader
  bool sum;
  double reader_norm;
  std::uint64_t absorbed;
};

TEST(Pools, AbsorbOnlyWhatHasNoEffect) {
  const Case cases[] = {
      {"the sum that it is added to is bit-identical", true, true, 1, 1},
      {"any call that is bit-identical with it", true, false, 1, 1},
      {"a sum that outweighs it, moved by something else", false, true, 1, 1},
      {"a product scales it: in band or not, it may be moved", false, false, 1, 0},
      {"a sum of its own size", false, true, 1e-6, 0},
      {"a sum that it moves by less than one rounding", false, true, 2.6e-5, 1},
      {"a sum that it moves by more", false, true, 2.5e-5, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    Pools pools(kRoundoff);
    const StepCall made = tiny();
    add(pools, made, 1e-7, 1e-6);
    pools.finish_call(made, false, false);
    pools.finish_call(call_of(2, {1}, output_of(2, c.reader_norm)), c.identical, c.sum);
    OpsReport report;
    pools.judge(report);
    EXPECT_EQ(report.absorbed, c.absorbed);
    EXPECT_EQ(report.out_of_band, 1 - c.absorbed);
    EXPECT_EQ(report.first.has_value(), c.absorbed == 0);
  }
}

TEST(Pools, DoNotAbsorbWhatNobodyReads) {
  Pools pools(kRoundoff);
  add(pools, tiny(), 1e-7, 1e-6);
  pools.finish_call(tiny(), false, false);
  OpsReport report;
  pools.judge(report);
  EXPECT_EQ(report.absorbed, 0u);
  EXPECT_EQ(report.first->oracle_call, 1u);
}

TEST(Pools, DoNotAbsorbWhatAnUnmatchedCallReads) {
  Pools pools(kRoundoff);
  add(pools, tiny(), 1e-7, 1e-6);
  pools.finish_call(tiny(), false, false);
  pools.finish_call(call_of(2, {1}, output_of(2, 1)), true, true);
  pools.see_unmatched(call_of(3, {1}, output_of(3, 1)));
  OpsReport report;
  pools.judge(report);
  EXPECT_EQ(report.out_of_band, 1u);
}

TEST(Pools, AbsorbAChainWhoseEndHasNoEffect) {
  for (const bool end_is_moved : {false, true}) {
    Pools pools(kRoundoff);
    add(pools, tiny(), 1e-7, 1e-6);
    pools.finish_call(tiny(), false, false);
    const StepCall product = call_of(2, {1}, output_of(2, 1e-6));
    add(pools, product, 1e-7, 1e-6);
    pools.finish_call(product, false, false);
    pools.finish_call(call_of(3, {2}, output_of(3, end_is_moved ? 1e-6 : 1)), false, true);
    OpsReport report;
    pools.judge(report);
    EXPECT_EQ(report.absorbed, end_is_moved ? 0u : 2u);
    EXPECT_EQ(report.out_of_band + report.drifted, end_is_moved ? 2u : 0u);
  }
}

// A fault is made by a call that takes close inputs; drift is handed on.
TEST(Pools, TellDriftOverTheBandFromACallThatMakesAnError) {
  struct Step {
    const char* why;
    double input, output;  // distances, under a band of 6 %
    bool finding;
  };
  const Step cases[] = {
      {"from close to far", 0.01, 0.10, true},
      {"from identical to far", 0, 0.07, true},
      {"twice as far as what was read", 0.05, 0.10, true},
      {"just over the band, from just below", 0.055, 0.065, false},
      {"far over the band is no drift", 0.24, 0.25, true},
  };
  for (const Step& c : cases) {
    SCOPED_TRACE(c.why);
    Pools pools(kRoundoff);
    const StepCall before = call_of(1, {}, output_of(1, 1));
    if (c.input > 0) {
      add(pools, before, c.input, 1);
    } else {
      pools.add_identical({true, 0, 0, 1, 0}, before.outputs[0], false);
    }
    pools.finish_call(before, c.input == 0, false);
    const StepCall call = call_of(2, {1}, output_of(2, 1));
    add(pools, call, c.output, 1);
    pools.finish_call(call, false, false);
    OpsReport report;
    pools.judge(report);
    EXPECT_EQ(report.first.has_value(), c.finding);
    EXPECT_EQ(report.drifted, c.finding ? 0u : 1u);
  }
}

TEST(Pools, ForgetMemoryThatIsWrittenOver) {
  Pools pools(kRoundoff);
  add(pools, tiny(), 1e-7, 1e-6);
  pools.finish_call(tiny(), false, false);
  pools.finish_call(call_of(2, {1}, output_of(2, 1)), true, true);
  pools.finish_call(call_of(3, {}, output_of(1, 1)), true, false);    // other bytes in storage 1
  pools.finish_call(call_of(4, {1}, output_of(4, 1)), false, false);  // reads those
  OpsReport report;
  pools.judge(report);
  EXPECT_EQ(report.absorbed, 1u);
}

}  // namespace
}  // namespace goldentrace
