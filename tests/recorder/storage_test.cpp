// Who is who in memory: identity by lifetime, views, in-place writes. All of it is proven by
// executing the trace again: an alias that became a copy, or the reverse, comes out with other
// bytes.
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <set>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using ::testing::IsEmpty;
using testing::Recorded;
using testing::RecordedCall;
using ::testing::SizeIs;

using StorageTest = testing::RecordingTest;

TEST_F(StorageTest, AnAddressThatIsFreedAndReusedIsAnotherStorage) {
  const at::Tensor x = at::linspace(0, 1, 4096);  // large enough not to be hashed at every read
  std::set<const void*> addresses;
  bool reused = false;
  int made = 0;
  const Recorded recorded = record([&] {
    while (!reused && made < 1000) {
      const at::Tensor y = at::mul(x, ++made);
      reused = !addresses.insert(y.const_data_ptr()).second;
      at::add(y, 1);
    }
  });
  ASSERT_TRUE(reused) << "the allocator gave out " << made << " different addresses";
  std::set<std::uint32_t> storages;
  for (const RecordedCall& call : recorded.calls) {
    if (call.op == "aten::mul.Scalar") storages.insert(recorded.storage_of(call.results.at(0)));
  }
  EXPECT_THAT(storages, SizeIs(static_cast<std::size_t>(made)));
  expect_reproduced();
}

TEST_F(StorageTest, InPlaceCallsAndViewChainsComeOutBitForBit) {
  const at::Tensor x = at::linspace(-2, 2, 24).reshape({2, 3, 4});
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(x, 1.5);
    at::Tensor view = y.view({6, 4}).t().select(0, 1).slice(0, 1, 5, 2);
    view.add_(10);  // through a chain of four views
    const at::Tensor wide = y.select(2, 0).unsqueeze(0).expand({5, 2, 3});
    at::Tensor sum = at::add(wide, wide);
    sum.transpose(0, 2).mul_(0.5);
    y.narrow(1, 0, 1).copy_(at::ones({2, 1, 4}));
    y.select(0, 1).fill_(-3);
    y.diagonal(0, 1, 2).zero_();
    y.permute({2, 0, 1}).sub_(sum.select(0, 0).select(1, 0).unsqueeze(1).expand({2, 3}));
    at::cat({y.flatten(), sum.flatten()});
  });
  EXPECT_EQ(recorded.counter("holes"), 0u);
  const VerifyReport report = expect_reproduced();
  EXPECT_GT(report.views, 10u);
  EXPECT_EQ(report.externals, 1u);  // x
}

TEST_F(StorageTest, UnsafeViewIsAViewAndBringsNoBytes) {
  const at::Tensor x = at::linspace(0, 1, 12);
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(x, 2);
    at::_unsafe_view(y, {3, 4}).add_(1);  // its schema denies that it is a view
    at::add(y, 1);
  });
  const RecordedCall view = recorded.only("aten::_unsafe_view");
  EXPECT_THAT(view.writes, IsEmpty());
  EXPECT_EQ(recorded.storage_of(view.results[0]), recorded.storage_of(view.arguments[0]));
  expect_reproduced();
}

TEST_F(StorageTest, AResultThatIsItsArgumentBringsNoBytes) {
  const at::Tensor x = at::linspace(0, 1, 12);
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(x, 2);
    y.to(at::kFloat).add_(1);
    y.reshape({3, 4}).mul_(2);
    at::add(y, 1);
  });
  EXPECT_THAT(recorded.only("aten::to.dtype").writes, IsEmpty());
  EXPECT_THAT(recorded.only("aten::reshape").writes, IsEmpty());
  expect_reproduced();
}

TEST_F(StorageTest, ReshapeOfATransposedTensorIsACopy) {
  const at::Tensor x = at::linspace(0, 1, 12).reshape({3, 4});
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(x, 2);
    y.t().reshape({12}).add_(100);  // must not reach y
    at::add(y, 1);
  });
  EXPECT_THAT(recorded.only("aten::reshape").writes, SizeIs(1));
  expect_reproduced();
}

TEST_F(StorageTest, OutVariantsWriteTheirOutArgument) {
  const at::Tensor x = at::linspace(0, 1, 12);
  const Recorded recorded = record([&] {
    at::Tensor out = at::empty({12});
    at::mul_out(out, x, x);
    at::add_out(out, out, x);  // read and written
    at::Tensor grown = at::empty({0});
    at::mul_out(grown, out, out);
    at::Tensor matrix = at::zeros({3, 12});
    at::Tensor row = matrix.select(0, 1);
    at::mul_out(row, out, x);
    at::add(matrix, 1);
  });
  EXPECT_EQ(recorded.counter("holes"), 0u);
  EXPECT_EQ(recorded.counter("external_inputs"), 1u);  // x
  expect_reproduced();
}

TEST_F(StorageTest, AnOutArgumentThatIsAlsoReadIsAnInputAsItWasBefore) {
  at::Tensor x = at::linspace(0, 1, 2000);  // made before the recording
  const Recorded recorded = record([&] {
    at::add_out(x, x, x);
    at::mul(x, 2);
  });
  EXPECT_EQ(recorded.counter("external_inputs"), 1u);
  expect_reproduced();
}

TEST_F(StorageTest, MemoryGrownByResizeIsUndefinedUntilWritten) {
  const at::Tensor x = at::linspace(0, 1, 6);
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(x, 2);
    y.resize_({2, 50});
    y.copy_(at::full({2, 50}, 0.5));
    at::add(y, 1);
    y.resize_({5});  // smaller: the same memory
    at::add(y, 2);
  });
  EXPECT_EQ(recorded.counter("holes"), 0u);
  EXPECT_EQ(recorded.calls.at(1).op, "aten::resize_");
  ASSERT_THAT(recorded.calls.at(1).writes, SizeIs(1));
  EXPECT_EQ(recorded.calls.at(1).writes[0].write.flags, kWriteUndefined);
  expect_reproduced();
}

TEST_F(StorageTest, MemoryGrownByResizeAndReadKeepsItsBytes) {
  const at::Tensor x = at::linspace(0, 1, 6);
  record([&] {
    const at::Tensor y = at::mul(x, 2);
    y.resize_({2, 50});
    at::add(y, 1);
  });
  expect_reproduced();
}

TEST_F(StorageTest, SetMakesAnAliasOfItsSource) {
  const at::Tensor x = at::linspace(0, 1, 2000);
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(x, 2);
    at::Tensor z = at::empty({0});
    z.set_(y);
    z.add_(1);
    at::mul(y, 3);
    at::Tensor part = at::zeros({3});
    part.set_(x);  // of a tensor that nothing in the program made
    at::mul(part, 3);
    at::mul(x, 4);
  });
  EXPECT_THAT(recorded.calls.at(2).writes, IsEmpty());
  EXPECT_EQ(recorded.counter("holes"), 0u);
  expect_reproduced();
}

TEST_F(StorageTest, AStorageIsAnArgumentLikeATensor) {
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(at::linspace(0, 1, 2000), 2);
    at::Tensor z = at::empty({0});
    z.set_(y.storage(), 10, {4}, {1});
    z.add_(1);
    at::mul(y, 3);
  });
  EXPECT_EQ(recorded.counter("calls_not_executable"), 0u);
  expect_reproduced();
  expect_promotable(DType::kFloat64);
}

TEST_F(StorageTest, ATensorThatIsGivenOtherStorageIsTheOther) {
  const at::Tensor x = at::linspace(0, 1, 8);
  record([&] {
    at::Tensor y = at::mul(x, 2);
    const at::Tensor z = at::mul(x, 3);
    y.set_data(z);  // x.data = z, without a call
    y.add_(1);
    at::mul(z, 2);
  });
  expect_reproduced();
}

TEST_F(StorageTest, BitsSeenAsAnotherDtypeComeOutBitForBit) {
  const at::Tensor x = at::linspace(0, 1, 8);
  record([&] {
    const at::Tensor y = at::mul(x, 2);
    y.view(at::kInt).bitwise_and_(-256);
    at::add(y, 1);
  });
  expect_reproduced();
}

TEST_F(StorageTest, EmptyAndZeroDimensionalTensorsComeOutBitForBit) {
  const at::Tensor x = at::linspace(0, 1, 8);
  record([&] {
    const at::Tensor none = x.slice(0, 3, 3);
    at::mul(none, 2).sum().add_(none.numel());
    at::cat({none, x});
    x.select(0, 3).mul(2);
  });
  expect_reproduced();
}

}  // namespace
}  // namespace goldentrace
