// What is kept of a recording: --keep, and the values around calls that differ from a golden trace.
#include <ATen/ops/add.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using testing::Recorded;
using testing::RecordedCall;
using testing::RecordingTest;

class KeepTest : public RecordingTest {
 protected:
  // Two modules, one inside the other, a prefill and nine decode steps.
  void run(Recorder& recorder, double factor = 2) {
    const at::Tensor x = at::linspace(-20, 1, 300);
    for (std::uint32_t step = 0; step < 10; ++step) {
      recorder.set_step(step);
      const ModuleScope outer("model");
      at::Tensor h = at::add(x, static_cast<double>(step));
      {
        const ModuleScope inner("model.mlp");
        h = at::relu(at::mul(h, step == 3 ? factor : 2.0));
      }
      at::softmax(h, 0);
    }
  }

  static std::map<std::uint32_t, std::set<int>> flags_by_step(const Recorded& recorded) {
    std::map<std::uint32_t, std::set<int>> flags;
    for (const RecordedCall& call : recorded.calls) {
      for (const auto& one : call.writes) flags[call.call.step].insert(one.write.flags);
    }
    return flags;
  }
};

TEST_F(KeepTest, GoldenHasTheProgramOfAllStepsAndDigestsOfTheFirstFiveAndTheLast) {
  const Recorded recorded = record([&](Recorder& recorder) { run(recorder); });
  const auto flags = flags_by_step(recorded);
  ASSERT_EQ(flags.size(), 10u);
  const std::set<int> all = {kWriteHashed | kWriteStats | kWriteSketch};
  for (const auto& [step, found] : flags) {
    SCOPED_TRACE(step);
    EXPECT_EQ(found, step <= 4 || step == 9 ? all : std::set<int>{0});
  }
  EXPECT_EQ(recorded.calls.size(), 41u) << "and the linspace";
  EXPECT_EQ(expect_reproduced().hashes, 4u * 6 + 1);
}

TEST_F(KeepTest, WhatARuleAsksForIsDroppedInNoStep) {
  const Recorded recorded =
      record([&](Recorder& recorder) { run(recorder); },
             {.keep = KeepRules(Keep::kGolden, {*parse_keep_rule("op=aten::relu:hash")})});
  for (const RecordedCall& call : recorded.calls) {
    if (call.op != "aten::relu") continue;
    EXPECT_EQ(call.writes.at(0).write.flags, kWriteHashed) << call.call.step;
  }
  EXPECT_EQ(flags_by_step(recorded).at(6), (std::set<int>{0, kWriteHashed}));
}

TEST_F(KeepTest, ARunOfManySmallStepsCutsItsChunksAndDropsAllTheSame) {
  const Recorded recorded = record([&](Recorder& recorder) {
    at::Tensor x = at::linspace(0, 1, 8);
    for (std::uint32_t step = 0; step < 4000; ++step) {
      recorder.set_step(step);
      for (int i = 0; i < 10; ++i) x = at::add(x, 1);
    }
  });
  EXPECT_GT(recorded.program_chunks.size(), 2u);
  std::size_t hashed = 0;
  for (const RecordedCall& call : recorded.calls) {
    hashed += (call.writes.at(0).write.flags & kWriteHashed) != 0 ? 1 : 0;
  }
  EXPECT_EQ(hashed, 10u * 6 + 1);
  EXPECT_LT(recorded.trace->file_size(), 40000u * 8);
}

TEST_F(KeepTest, CutsAreTheValuesThatModulesHandBack) {
  const Recorded recorded =
      record([&](Recorder& recorder) { run(recorder); }, {.keep = KeepRules(Keep::kCuts)});
  for (const RecordedCall& call : recorded.calls) {
    SCOPED_TRACE(call.op + " in " + call.scope);
    const Write& write = call.writes.at(0).write;
    const bool last = call.op.starts_with("aten::relu") || call.op.starts_with("aten::softmax");
    EXPECT_EQ((write.flags & kWriteValue) != 0, last);
    EXPECT_EQ(recorded.trace->has_value(write.hash), last);
    EXPECT_TRUE((write.flags & kWriteStats) != 0);
  }
  expect_reproduced();
}

TEST_F(KeepTest, CutsKeepNoTensorPastTheNextCallThatWrites) {
  at::Tensor x = at::linspace(0, 1, 8);
  record(
      [&] {
        at::Tensor y;
        {
          const ModuleScope scope("model");
          y = at::add(x, 1);
        }
        const c10::weak_intrusive_ptr<c10::StorageImpl> watch(
            c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(y.storage().unsafeGetStorageImpl()));
        y.reset();
        EXPECT_TRUE(watch.expired()) << "the module was left";
        y = at::add(x, 2);
        const c10::weak_intrusive_ptr<c10::StorageImpl> other(
            c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(y.storage().unsafeGetStorageImpl()));
        y.reset();
        at::add(x, 3);
        EXPECT_TRUE(other.expired());
      },
      {.keep = KeepRules(Keep::kCuts)});
}

// What the thread wrote last belongs to the recording that it was written in, and ends with it.
TEST_F(KeepTest, CutsOfOneRecordingAreNotThoseOfTheNext) {
  const at::Tensor x = at::linspace(0, 1, 8);
  c10::weak_intrusive_ptr<c10::StorageImpl> watch{
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(x.storage().unsafeGetStorageImpl())};
  record(
      [&] {
        for (int i = 0; i < 9; ++i) at::add(x, i);
        const at::Tensor last = at::add(x, 9);
        watch = c10::weak_intrusive_ptr<c10::StorageImpl>(
            c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
                last.storage().unsafeGetStorageImpl()));
      },
      {.keep = KeepRules(Keep::kCuts)});
  EXPECT_TRUE(watch.expired());
  const Recorded second = record(
      [&] {
        { const ModuleScope before("a"); }
        const ModuleScope scope("b");
        (void)x.view({2, 4});
      },
      {.keep = KeepRules(Keep::kCuts)});
  EXPECT_TRUE(second.trace->values().empty());
}

TEST_F(KeepTest, AllKeepsEveryValueOnce) {
  const Recorded recorded =
      record([&](Recorder& recorder) { run(recorder); }, {.keep = KeepRules(Keep::kAll)});
  std::set<Hash128> hashes;
  for (const RecordedCall& call : recorded.calls) {
    EXPECT_TRUE((call.writes.at(0).write.flags & kWriteValue) != 0);
    hashes.insert(call.writes.at(0).write.hash);
  }
  EXPECT_EQ(recorded.trace->values().size(), hashes.size());
}

TEST_F(KeepTest, TokensRecordNoCall) {
  const Recorded recorded = record(
      [&](Recorder& recorder) {
        run(recorder);
        Text text;
        text.requests.emplace_back().prompt = "hello";
        recorder.add_text(text);
      },
      {.keep = KeepRules(Keep::kTokens)});
  EXPECT_TRUE(recorded.calls.empty());
  EXPECT_EQ(recorded.trace->text()->requests.at(0).prompt, "hello");
}

// ---- only where it differs ----------------------------------------------------------------------

class DiffersTest : public KeepTest {
 protected:
  void SetUp() override {
    record([&](Recorder& recorder) { run(recorder); }, {.path = gold_});
  }
  Recorded against_gold(double factor, std::uint32_t calls = 8) {
    return record([&](Recorder& recorder) { run(recorder, factor); },
                  {.keep = KeepRules(Keep::kGolden, {*parse_keep_rule(":hash")}),
                   .only_where_differs = gold_,
                   .differing_calls = calls});
  }
  const std::string gold_ = folder().file("gold.fb");
};

TEST_F(DiffersTest, ARunThatIsEqualKeepsNoValue) {
  const Recorded recorded = against_gold(2);
  EXPECT_EQ(recorded.counter("calls_differing"), 0u);
  EXPECT_TRUE(recorded.trace->values().empty());
}

TEST_F(DiffersTest, TheFirstCallsThatDifferHaveTheirResultsAndArguments) {
  const Recorded recorded = against_gold(3);
  EXPECT_EQ(recorded.counter("calls_differing"), 3u) << "mul, relu, softmax of one step";
  std::size_t differing = 0;
  for (std::size_t i = 0; i < recorded.calls.size(); ++i) {
    const RecordedCall& call = recorded.calls[i];
    const bool kept = (call.writes.at(0).write.flags & kWriteValue) != 0;
    EXPECT_EQ(kept, call.call.step == 3 && !call.op.starts_with("aten::add")) << call.op;
    if (!kept) continue;
    ++differing;
    EXPECT_TRUE(recorded.trace->has_value(call.writes[0].write.hash));
    // Its argument, as an input that is there before it.
    const std::uint32_t storage = recorded.storage_of(call.arguments.at(0));
    const auto input = std::ranges::find_if(recorded.externals, [&](const External& external) {
      return external.call == i && external.storage == storage;
    });
    ASSERT_NE(input, recorded.externals.end());
    EXPECT_EQ(input->kind, ExternalKind::kRepeated);
    EXPECT_EQ(input->version, call.arguments[0].version);
    EXPECT_TRUE(recorded.trace->has_value(input->hash));
  }
  EXPECT_EQ(differing, 3u);
  expect_reproduced();
}

TEST_F(DiffersTest, NoMoreCallsThanAskedForAreKept) {
  const Recorded recorded = against_gold(3, /*calls=*/1);
  EXPECT_EQ(recorded.counter("calls_differing"), 3u);
  EXPECT_EQ(recorded.trace->values().size(), 2u) << "one result, one argument";
}

TEST_F(DiffersTest, AnArgumentThatTheCallOverwritesIsKeptAsItWasBefore) {
  const auto body = [&](Recorder& recorder, double factor) {
    const at::Tensor x = at::linspace(0, 1, 100);
    recorder.set_step(1);
    x.mul_(factor);
  };
  record([&](Recorder& recorder) { body(recorder, 2); }, {.path = gold_});
  const Recorded recorded =
      record([&](Recorder& recorder) { body(recorder, 5); }, {.only_where_differs = gold_});
  ASSERT_EQ(recorded.externals.size(), 1u);
  const Hash128 before = recorded.only("aten::linspace").writes.at(0).write.hash;
  EXPECT_EQ(recorded.externals[0].hash, before);
  expect_reproduced();
}

TEST_F(DiffersTest, AGoldenTraceThatIsNoneIsRefusedBeforeAnythingIsWritten) {
  const auto recorder = Recorder::start(
      {.path = folder().file("new.fb"), .only_where_differs = folder().file("nothing.fb")});
  ASSERT_FALSE(recorder.ok());
  EXPECT_FALSE(TraceReader::open(folder().file("new.fb")).ok());
}

}  // namespace
}  // namespace goldentrace
