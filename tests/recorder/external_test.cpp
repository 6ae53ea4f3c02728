// Bytes that no recorded call wrote: inputs of the program, undefined memory, and holes.
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

#include <array>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::Recorded;
using ::testing::SizeIs;

using ExternalTest = testing::RecordingTest;

const std::string kNoTensors("\x02\0\0\0\0\0\0\0{}", 10);

void write_behind_its_back(const at::Tensor& tensor, float value) {
  static_cast<float*>(tensor.mutable_data_ptr())[0] = value;
}

TEST_F(ExternalTest, EmptyIsUndefinedAndNotCompared) {
  const Recorded recorded = record([] { at::empty({1000}); });
  ASSERT_THAT(recorded.only("aten::empty.memory_format").writes, SizeIs(1));
  EXPECT_EQ(recorded.calls[0].writes[0].write.flags, kWriteUndefined);
  EXPECT_EQ(recorded.externals.size(), 0u);
  const VerifyReport report = expect_reproduced();
  EXPECT_EQ(report.undefined, 1u);
  EXPECT_EQ(report.hashes, 0u);
}

TEST_F(ExternalTest, ARawFillOfEmptyIsAnInputStoredByValue) {
  const Recorded recorded = record([] {
    const at::Tensor x = at::empty({4});
    for (int i = 0; i < 4; ++i) x.mutable_data_ptr<float>()[i] = static_cast<float>(i) / 3;
    x.view({2, 2}).t();  // looking at it is not reading it
    at::mul(x, 2);
    at::mul(x, 3);
  });
  ASSERT_THAT(recorded.externals, SizeIs(1));
  EXPECT_EQ(recorded.externals[0].kind, ExternalKind::kFirstRead);
  EXPECT_EQ(recorded.externals[0].call, 3u);
  EXPECT_TRUE(recorded.trace->has_value(recorded.externals[0].hash));
  EXPECT_EQ(recorded.counter("external_inputs"), 1u);
  EXPECT_EQ(recorded.counter("external_bytes"), 16u);
  EXPECT_EQ(recorded.counter("holes"), 0u);
  expect_reproduced();
}

TEST_F(ExternalTest, AnInPlaceCallOnARawFillReadsItFirst) {
  const Recorded recorded = record([] {
    const at::Tensor x = at::empty({4});
    for (int i = 0; i < 4; ++i) x.mutable_data_ptr<float>()[i] = static_cast<float>(i) / 3;
    x.add_(1);
  });
  EXPECT_EQ(recorded.counter("external_inputs"), 1u);
  expect_reproduced();
}

// x = torch.tensor([...]); x[0] = 5: the rest is an input all the same.
TEST_F(ExternalTest, OverwritingAPartOfARawFillKeepsTheRest) {
  const Recorded recorded = record([] {
    const at::Tensor x = at::empty({4});
    for (int i = 0; i < 4; ++i) x.mutable_data_ptr<float>()[i] = static_cast<float>(i) / 3;
    x.select(0, 1).fill_(5);
    at::mul(x, 2);
  });
  EXPECT_EQ(recorded.counter("holes"), 0u);
  EXPECT_EQ(recorded.counter("external_inputs"), 1u);
  expect_reproduced();
}

TEST_F(ExternalTest, OverwritingAWholeTensorReadsNothing) {
  at::Tensor old = at::linspace(0, 1, 2000);
  const Recorded recorded = record([&] {
    old.fill_(3);
    at::mul(old, 2);
  });
  EXPECT_EQ(recorded.counter("external_inputs"), 0u);
  expect_reproduced();
}

TEST_F(ExternalTest, ForeignMemoryIsAnInput) {
  std::array<float, 5> foreign{1, 2, 3, 4, 5};
  const at::Tensor x = at::from_blob(foreign.data(), {5});
  const Recorded recorded = record([&] { at::mul(x.slice(0, 1), 2); });
  EXPECT_EQ(recorded.counter("external_bytes"), 20u);
  expect_reproduced();
}

TEST_F(ExternalTest, AWriteBehindTheRecordersBackIsAHole) {
  const Recorded recorded = record([] {
    const at::Tensor x = at::ones({8});
    at::mul(x, 2);
    write_behind_its_back(x, 17);
    at::mul(x, 3);
    at::mul(x, 4);
  });
  EXPECT_EQ(recorded.counter("holes"), 1u);
  EXPECT_THAT(recorded.trace->summary().counters[6].first, HasSubstr("before call 2"));
  ASSERT_THAT(recorded.externals, SizeIs(1));
  EXPECT_EQ(recorded.externals[0].kind, ExternalKind::kHole);
  EXPECT_EQ(recorded.externals[0].call, 2u);
  EXPECT_EQ(expect_reproduced().holes, 1u);
}

// Inference tensors have no version counter to ask.
TEST_F(ExternalTest, AHoleIsFoundUnderInferenceModeToo) {
  const Recorded recorded = record([] {
    const c10::InferenceMode inference;
    const at::Tensor x = at::ones({8});
    write_behind_its_back(x, 17);
    x.add_(3);
  });
  EXPECT_EQ(recorded.counter("holes"), 1u);
  expect_reproduced();
}

TEST_F(ExternalTest, AHoleUnderAPartialOverwriteIsFound) {
  const Recorded recorded = record([] {
    const at::Tensor x = at::ones({8});
    write_behind_its_back(x, 17);
    x.select(0, 3).fill_(5);
    at::mul(x, 2);
  });
  EXPECT_EQ(recorded.counter("holes"), 1u);
  expect_reproduced();
}

TEST_F(ExternalTest, AWriteThroughForeignMemoryIsAHole) {
  std::array<float, 5> foreign{1, 2, 3, 4, 5};
  const at::Tensor x = at::from_blob(foreign.data(), {5});
  const Recorded recorded = record([&] {
    at::mul(x, 2);
    foreign[2] = 9;
    at::mul(x, 2);
  });
  EXPECT_EQ(recorded.counter("holes"), 1u);
  expect_reproduced();
}

TEST_F(ExternalTest, EqualInputsAreStoredOnce) {
  const at::Tensor x = at::ones({3000});
  const at::Tensor y = at::ones({3000});
  const Recorded recorded = record([&] { at::mul(x, y); });
  ASSERT_THAT(recorded.externals, SizeIs(2));
  EXPECT_EQ(recorded.externals[0].hash, recorded.externals[1].hash);
  EXPECT_LT(recorded.trace->file_size(), 2 * x.nbytes());
  expect_reproduced();
}

TEST_F(ExternalTest, ASizeComputedFromOtherBytesIsRefused) {
  record([] {
    const at::Tensor counts = at::full({1024}, 1 << 20, at::TensorOptions().dtype(at::kLong));
    for (int i = 0; i < 1024; ++i) counts.mutable_data_ptr<std::int64_t>()[i] = 1;
    at::repeat_interleave(counts);  // 1,024 elements now, 2^30 when the write is not repeated
  });
  const auto report =
      verify({.trace = trace_path(), .weights = folder().write("none.safetensors", kNoTensors)});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->not_executable, 1u);
  ASSERT_THAT(report->findings, SizeIs(1));
  EXPECT_THAT(report->findings[0].what, HasSubstr("far more than when recorded"));
}

TEST_F(ExternalTest, EveryReadIsCheckedWhereThatIsAskedFor) {
  const auto body = [] {
    const at::Tensor x = at::ones({4096});  // over 4 KiB
    write_behind_its_back(x, 7);
    at::mul(x, 2);
  };
  EXPECT_EQ(record(body).counter("holes"), 0u);
  EXPECT_EQ(record(body, {.check_reads = true}).counter("holes"), 1u);
  expect_reproduced();
}

}  // namespace
}  // namespace goldentrace
