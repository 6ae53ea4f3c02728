// Every kind of argument comes back from the trace as it was given, and can be executed again.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/conj.h>
#include <ATen/ops/div.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/index.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/split.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <bit>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using ::testing::ElementsAre;
using testing::Recorded;
using testing::RecordedCall;

using ArgumentsTest = testing::RecordingTest;

Node node(NodeKind kind, std::int64_t value = 0) { return {kind, 0, value}; }
Node node(NodeKind kind, double value) { return {kind, 0, std::bit_cast<std::int64_t>(value)}; }

TEST_F(ArgumentsTest, IntsDoublesBoolsAndNoneComeBack) {
  const at::Tensor x = at::arange(6, at::kFloat).reshape({2, 3});
  const Recorded recorded = record([&] {
    at::sum(x, {-1}, /*keepdim=*/true);
    at::clamp(x, 0.5, std::nullopt);
    at::add(x, x, 2.5);
  });
  const auto sum = recorded.only("aten::sum.dim_IntList").arguments;
  ASSERT_EQ(sum.size(), 5u);
  EXPECT_EQ(sum[1], node(NodeKind::kList, std::int64_t{1}));
  EXPECT_EQ(sum[2], node(NodeKind::kInt, std::int64_t{-1}));
  EXPECT_EQ(sum[3], node(NodeKind::kBool, std::int64_t{1}));
  EXPECT_EQ(sum[4], node(NodeKind::kNone));
  const auto clamp = recorded.only("aten::clamp").arguments;
  EXPECT_EQ(clamp[1], node(NodeKind::kDouble, 0.5));
  EXPECT_EQ(clamp[2], node(NodeKind::kNone));
  EXPECT_EQ(recorded.only("aten::add.Tensor").arguments[2], node(NodeKind::kDouble, 2.5));
  expect_reproduced();
}

TEST_F(ArgumentsTest, NonFiniteAndNegativeZeroDoublesKeepTheirBits) {
  const double quiet_nan = std::bit_cast<double>(0x7ff8000000001234u);
  const Recorded recorded = record([&] {
    at::full({1}, -0.0);
    at::full({2}, -std::numeric_limits<double>::infinity());
    at::full({3}, quiet_nan);
  });
  EXPECT_EQ(recorded.calls.at(0).arguments.at(2), node(NodeKind::kDouble, -0.0));
  EXPECT_EQ(recorded.calls.at(1).arguments.at(2),
            node(NodeKind::kDouble, -std::numeric_limits<double>::infinity()));
  EXPECT_EQ(recorded.calls.at(2).arguments.at(2), node(NodeKind::kDouble, quiet_nan));
  expect_reproduced();
}

TEST_F(ArgumentsTest, StringsComeBack) {
  const at::Tensor x = at::arange(6, at::kFloat).reshape({2, 3});
  const Recorded recorded = record([&] {
    at::div(x, 2, "floor");
    at::einsum("ij,kj->ik", {x, x});
  });
  const auto string_of = [&](const Node& at) {
    EXPECT_EQ(at.kind, NodeKind::kString);
    return recorded.dictionary().string(static_cast<std::uint32_t>(at.value));
  };
  EXPECT_EQ(string_of(recorded.only("aten::div.Scalar_mode").arguments[2]), "floor");
  EXPECT_EQ(string_of(recorded.only("aten::einsum").arguments[0]), "ij,kj->ik");
  expect_reproduced();
}

TEST_F(ArgumentsTest, DtypeLayoutDeviceAndMemoryFormatComeBack) {
  const at::Tensor x = at::ones({2, 3, 4, 5});
  const Recorded recorded = record([&] {
    at::zeros({2}, at::TensorOptions().dtype(at::kBFloat16).device(at::kCPU));
    at::clone(x, at::MemoryFormat::ChannelsLast);
  });
  const auto zeros = recorded.only("aten::zeros").arguments;
  ASSERT_EQ(zeros.size(), 6u);
  EXPECT_EQ(zeros[2], node(NodeKind::kInt, static_cast<std::int64_t>(at::kBFloat16)));
  EXPECT_EQ(zeros[4].kind, NodeKind::kDevice);
  EXPECT_EQ(recorded.dictionary().string(static_cast<std::uint32_t>(zeros[4].value)), "cpu");
  const RecordedCall clone = recorded.only("aten::clone");
  EXPECT_EQ(clone.arguments[1],
            node(NodeKind::kInt, static_cast<std::int64_t>(at::MemoryFormat::ChannelsLast)));
  const auto result = static_cast<std::uint32_t>(clone.results[0].value);
  EXPECT_THAT(recorded.dictionary().geometry_of(result).strides, ElementsAre(60, 1, 15, 3));
  expect_reproduced();
}

TEST_F(ArgumentsTest, ListsOfTensorsComeBackInArgumentsAndResults) {
  const at::Tensor x = at::arange(6, at::kFloat);
  const at::Tensor y = at::ones({2});
  const Recorded recorded = record([&] {
    at::cat({x, y, x});
    at::split(x, 4);
  });
  const auto cat = recorded.only("aten::cat").arguments;
  ASSERT_EQ(cat.size(), 5u);
  EXPECT_EQ(cat[0], node(NodeKind::kList, std::int64_t{3}));
  EXPECT_EQ(cat[1], cat[3]);
  EXPECT_NE(cat[1].value, cat[2].value);
  const auto split = recorded.only("aten::split.Tensor").results;
  ASSERT_EQ(split.size(), 3u);
  EXPECT_EQ(split[0], node(NodeKind::kList, std::int64_t{2}));
  EXPECT_EQ(recorded.storage_of(split[1]), recorded.storage_of(split[2]));
  expect_reproduced();
}

TEST_F(ArgumentsTest, ListsWithGapsComeBack) {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({3, 4});
  const at::Tensor columns = at::arange(2);
  const Recorded recorded = record([&] {
    const c10::List<std::optional<at::Tensor>> indices({std::nullopt, columns});
    at::index(x, indices);
  });
  const auto index = recorded.only("aten::index.Tensor").arguments;
  ASSERT_EQ(index.size(), 4u);
  EXPECT_EQ(index[1], node(NodeKind::kList, std::int64_t{2}));
  EXPECT_EQ(index[2], node(NodeKind::kNone));
  EXPECT_EQ(index[3].kind, NodeKind::kTensor);
  expect_reproduced();
}

TEST_F(ArgumentsTest, OptionalTensorsAndListsOfDoublesComeBack) {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({1, 1, 3, 4});
  const Recorded recorded = record([&] {
    at::native_layer_norm(x, {4}, std::nullopt, std::nullopt, 1e-6);
    at::upsample_nearest2d(x, at::OptionalIntArrayRef(), at::ArrayRef<double>{2.0, 1.5});
  });
  const RecordedCall norm = recorded.only("aten::native_layer_norm");
  EXPECT_EQ(norm.call.results, 3);
  EXPECT_EQ(norm.arguments[3], node(NodeKind::kNone));
  const auto upsample = recorded.only("aten::upsample_nearest2d.vec").arguments;
  ASSERT_EQ(upsample.size(), 5u);
  EXPECT_EQ(upsample[1], node(NodeKind::kNone));
  EXPECT_EQ(upsample[2], node(NodeKind::kList, std::int64_t{2}));
  EXPECT_EQ(upsample[4], node(NodeKind::kDouble, 1.5));
  expect_reproduced();
}

// float32 times a Python number stays float32, times a 0-dim double tensor as well, but int64 times
// either does not: the flag decides.
TEST_F(ArgumentsTest, WrappedNumbersKeepTheirWeaknessAndHaveNoStorage) {
  const at::Tensor half = at::full({2}, 0.5, at::kBFloat16);
  const auto wrapped = [](const at::Scalar& number) {
    at::Tensor tensor = c10::scalar_to_tensor(number);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  };
  const at::Tensor counts = at::arange(3);
  at::Tensor weak;
  at::Tensor strong;
  const at::Tensor numbers[] = {wrapped(2.5), wrapped(std::int64_t{3}), wrapped(true)};
  const at::Tensor zero_dim = c10::scalar_to_tensor(2.5);
  const Recorded recorded = record([&] {
    for (const at::Tensor& number : numbers) at::mul(half, number);
    weak = at::mul(counts, numbers[0]);
    strong = at::mul(counts, zero_dim);
  });
  EXPECT_NE(weak.scalar_type(), strong.scalar_type());
  ASSERT_EQ(recorded.calls.size(), 5u);
  EXPECT_EQ(recorded.calls[0].arguments[1], node(NodeKind::kWrappedDouble, 2.5));
  EXPECT_EQ(recorded.calls[1].arguments[1], node(NodeKind::kWrappedInt, std::int64_t{3}));
  EXPECT_EQ(recorded.calls[2].arguments[1], node(NodeKind::kWrappedBool, std::int64_t{1}));
  EXPECT_EQ(recorded.calls[4].arguments[1].kind, NodeKind::kTensor);
  expect_reproduced();
}

TEST_F(ArgumentsTest, ComplexScalarsAndConjugateViewsComeBack) {
  const at::Tensor x = at::linspace(0, 1, 4).to(at::kComplexFloat);
  const Recorded recorded = record([&] {
    const at::Tensor y = at::mul(x, c10::Scalar(c10::complex<double>(0.5, -2.0)));
    at::add(y.conj(), y);
    at::add(at::imag(y.conj()), 1);  // a negative view
  });
  const auto nodes = recorded.calls.at(0).arguments;
  bool as_node = false;
  for (std::size_t i = 0; i + 2 < nodes.size(); ++i) {
    as_node |= nodes[i].kind == NodeKind::kComplex &&
               nodes[i + 1] == node(NodeKind::kDouble, 0.5) &&
               nodes[i + 2] == node(NodeKind::kDouble, -2.0);
  }
  EXPECT_TRUE(as_node);
  expect_reproduced();
}

TEST_F(ArgumentsTest, NumbersThatGoBackToTheCallerAreResults) {
  const at::Tensor x = at::full({1}, 0.75);
  const at::Tensor n = at::full({1}, 7, at::kLong);
  const at::Tensor y = at::ones({1});
  const Recorded recorded = record([&] {
    EXPECT_EQ(x.item().toDouble(), 0.75);
    EXPECT_EQ(n.item().toLong(), 7);
    EXPECT_FALSE(at::equal(x, y));
  });
  EXPECT_EQ(recorded.calls.at(0).results.at(0), node(NodeKind::kDouble, 0.75));
  EXPECT_EQ(recorded.calls.at(1).results.at(0), node(NodeKind::kInt, std::int64_t{7}));
  EXPECT_EQ(recorded.calls.at(2).results.at(0), node(NodeKind::kBool, std::int64_t{0}));
  EXPECT_EQ(expect_reproduced().scalars, 3u);
}

TEST_F(ArgumentsTest, DtypesThatTheFormatDoesNotKnowCostTheirCallsOnly) {
  const at::Tensor x = at::linspace(-1, 1, 8);
  const Recorded recorded = record([&] {
    at::add(x.view(at::kInt).view(at::kQInt32).view(at::kFloat), 1);
    x.neg();
  });
  EXPECT_EQ(recorded.only("aten::neg").writes.size(), 1u);
  EXPECT_EQ(recorded.counter("calls_not_executable"), 1u);
}

TEST_F(ArgumentsTest, MetaTensorsAreSkippedAndCounted) {
  const at::Tensor x = at::ones({2});
  const Recorded recorded = record([&] {
    const at::Tensor meta = at::zeros({2}, at::TensorOptions().device(at::kMeta));
    at::add(meta, meta);
    x.neg();
  });
  EXPECT_EQ(recorded.calls.back().op, "aten::neg");
  EXPECT_EQ(recorded.counter("calls_skipped_no_storage"), 2u);
}

TEST_F(ArgumentsTest, MemoryThatWasGivenBackCostsItsCallsOnly) {
  const at::Tensor x = at::ones({2});
  const Recorded recorded = record([&] {
    const at::Tensor y = x.add(1);
    // As untyped_storage().resize_(0) does, between the layers of a sharded model.
    y.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
    y.storage().unsafeGetStorageImpl()->set_nbytes(0);
    y.view({2, 1});
    x.neg();
  });
  EXPECT_THAT(recorded.ops(), ElementsAre("aten::add.Scalar", "aten::neg"));
  EXPECT_EQ(recorded.counter("calls_skipped_no_storage"), 2u);
  expect_reproduced();
}

TEST_F(ArgumentsTest, NegatedViewsComeBack) {
  // The imaginary part of a conjugate is a view with the negation bit.
  const at::Tensor x = at::complex(at::linspace(0, 1, 6), at::linspace(1, 2, 6));
  const Recorded recorded = record([&] { at::mul(at::imag(at::conj(x)), 2); });
  const Node& argument = recorded.calls.back().arguments.at(0);
  const Tensor& view = recorded.dictionary().tensor(static_cast<std::uint32_t>(argument.value));
  EXPECT_EQ(view.flags, kTensorNegative);
  expect_reproduced();
}

TEST_F(ArgumentsTest, ThePrecisionOfFloatProductsIsPartOfTheAmbientState) {
  const at::Tensor x = at::linspace(-1, 1, 4096).reshape({64, 64});
  const Recorded recorded = record([&] {
    at::matmul(x, x);
    at::globalContext().setFloat32MatmulPrecision("medium");  // through bfloat16 where the CPU can
    at::matmul(x, x);
    at::globalContext().setFloat32MatmulPrecision("highest");
  });
  EXPECT_NE(recorded.calls.at(0).call.ambient, recorded.calls.at(1).call.ambient);
  EXPECT_EQ(recorded.dictionary().ambient(recorded.calls[1].call.ambient).matmul_precision,
            "medium");
  expect_reproduced();
}

TEST_F(ArgumentsTest, AGeneratorsNumbersAreTakenFromTheTrace) {
  record([] {
    at::Generator generator = at::detail::createCPUGenerator(7);
    at::mul(at::rand({16}, generator), 2);
    at::mul(at::rand({16}, generator), 2);
  });
  EXPECT_EQ(expect_reproduced().random, 2u);
}

TEST_F(ArgumentsTest, AmbientStateComesBackAndIsPutBackAfterVerification) {
  const at::Tensor x = at::ones({3});
  const Recorded recorded = record([&] {
    c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
    at::full({2}, 1.0);  // float64 now
    c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
    at::globalContext().setDeterministicAlgorithms(true, false);
    at::add(x, 1);
    at::globalContext().setDeterministicAlgorithms(false, false);
  });
  EXPECT_NE(recorded.calls.at(0).call.ambient, recorded.calls.at(1).call.ambient);
  EXPECT_EQ(recorded.calls.size(), 2u);
  expect_reproduced();
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_EQ(c10::get_default_dtype_as_scalartype(), at::kFloat);
}

}  // namespace
}  // namespace goldentrace
