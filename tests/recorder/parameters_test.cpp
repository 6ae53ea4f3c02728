// The parameter dictionary: recipes from a checkpoint, values where there is none, tied memory.
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Recorded;

class ParametersTest : public testing::RecordingTest {
 protected:
  at::Tensor weight = at::linspace(-1, 1, 2000).reshape({40, 50});
  at::Tensor x = at::linspace(0, 1, 50);

  Recorded record_linear(const at::Tensor& w, Recipe recipe, std::vector<std::string> sources) {
    return record([&](Recorder& recorder) {
      EXPECT_TRUE(recorder.add_parameter("w", ParameterKind::kParameter, w, recipe, sources).ok());
      at::linear(x.to(w.scalar_type()), w);
    });
  }
};

TEST_F(ParametersTest, AParameterOfTheCheckpointIsNotStored) {
  const std::string weights = write_weights("w", weight);
  const Recorded recorded = record_linear(weight, Recipe::kSame, {"w"});
  EXPECT_EQ(recorded.counter("parameters_by_value"), 0u);
  EXPECT_EQ(recorded.counter("external_bytes"), x.nbytes());
  EXPECT_LT(recorded.trace->file_size(), weight.nbytes());
  EXPECT_EQ(expect_reproduced(weights).parameters, 1u);
}

TEST_F(ParametersTest, ACastParameterIsCastAgain) {
  const std::string weights = write_weights("w", weight);
  record_linear(weight.to(at::kBFloat16), Recipe::kCast, {"w"});
  expect_reproduced(weights);
}

TEST_F(ParametersTest, ConcatTakesTheSourcesElementsInTheParametersShapeAndDtype) {
  const std::string weights = write_weights("w", weight);
  // Twice the 40 x 50 of the checkpoint, as a parameter of another rank and dtype.
  const at::Tensor fused = at::cat({weight, weight}).reshape({2, 80, 25}).to(at::kBFloat16);
  const auto run = [&](Recipe recipe, const at::Tensor& parameter) {
    record([&](Recorder& recorder) {
      const auto kind = ParameterKind::kParameter;
      EXPECT_TRUE(recorder.add_parameter("w", kind, parameter, recipe, {"w", "w"}).ok());
      at::mul(parameter, parameter);
    });
  };
  run(Recipe::kConcat, fused);
  expect_reproduced(weights);
  run(Recipe::kStack, at::stack({weight, weight}).to(at::kBFloat16));
  expect_reproduced(weights);
  run(Recipe::kConcat, fused.narrow(0, 0, 1).contiguous());  // fewer elements than the sources
  EXPECT_THAT(verify({.trace = trace_path(), .weights = weights})->wrong_parameters,
              ElementsAre("w"));
}

TEST_F(ParametersTest, AKnownHashIsTakenAsItIs) {
  const Recorded recorded = record([&](Recorder& recorder) {
    const auto kind = ParameterKind::kParameter;
    const Hash128 known{1, 2};
    const auto hash = recorder.add_parameter("w", kind, weight, Recipe::kSame, {"w"}, &known);
    EXPECT_EQ(*hash, known);
  });
  EXPECT_EQ((*recorded.trace->parameters())[0].hash, (Hash128{1, 2}));
}

TEST_F(ParametersTest, AParameterWithoutARecipeIsStoredAndCounted) {
  const Recorded recorded = record_linear(weight, Recipe::kValue, {});
  EXPECT_EQ(recorded.counter("parameters_by_value"), 1u);
  expect_reproduced();
}

TEST_F(ParametersTest, AParameterThatIsATransposedViewComesBackAsThatView) {
  const std::string weights = write_weights("w", weight.t().contiguous());
  record_linear(weight, Recipe::kSame, {"w"});
  EXPECT_FALSE(verify({.trace = trace_path(), .weights = weights})->reproduced());
  record([&](Recorder& recorder) {
    const at::Tensor turned = weight.t();
    EXPECT_TRUE(
        recorder.add_parameter("w", ParameterKind::kParameter, turned, Recipe::kSame, {"w"}).ok());
    at::linear(x, turned.t());
  });
  expect_reproduced(weights);
}

TEST_F(ParametersTest, AParameterThatRecordedCallsMadeIsNotStoredAgain) {
  const Recorded recorded = record([&](Recorder& recorder) {
    const at::Tensor made = at::mul(at::ones({40, 50}), 0.5);
    made.add_(1);
    const auto hash =
        recorder.add_parameter("w", ParameterKind::kParameter, made, Recipe::kValue, {});
    EXPECT_TRUE(hash.ok());
    at::linear(x, made);
  });
  const auto parameters = recorded.trace->parameters();
  ASSERT_TRUE(parameters.ok());
  EXPECT_EQ((*parameters)[0].recipe, Recipe::kComputed);
  EXPECT_EQ((*parameters)[0].call, 3u);
  EXPECT_EQ(recorded.counter("parameters_by_value"), 0u);
  expect_reproduced();
}

TEST_F(ParametersTest, AFileReadIntoEmptyMemoryInTheMiddleIsPutThereThen) {
  const std::string weights = write_weights("w", weight);
  const Recorded recorded = record([&](Recorder& recorder) {
    const at::Tensor loaded = at::empty({40, 50});
    std::memcpy(loaded.mutable_data_ptr(), weight.const_data_ptr(), weight.nbytes());
    EXPECT_TRUE(
        recorder.add_parameter("w", ParameterKind::kParameter, loaded, Recipe::kSame, {"w"}).ok());
    at::linear(x, loaded);
  });
  EXPECT_EQ(recorded.counter("external_bytes"), x.nbytes());
  EXPECT_LT(recorded.trace->file_size(), weight.nbytes());
  expect_reproduced(weights);
}

TEST_F(ParametersTest, TheSameMemoryUnderTwoNamesIsTied) {
  const std::string weights = write_weights("embed", weight);
  const Recorded recorded = record([&](Recorder& recorder) {
    for (const char* name : {"embed", "head"}) {
      const auto kind = ParameterKind::kParameter;
      EXPECT_TRUE(recorder.add_parameter(name, kind, weight, Recipe::kSame, {"embed"}).ok());
    }
    at::linear(x, weight);
  });
  const auto parameters = *recorded.trace->parameters();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].recipe, Recipe::kSame);
  EXPECT_EQ(parameters[1].recipe, Recipe::kTied);
  EXPECT_THAT(parameters[1].sources, ElementsAre("embed"));
  EXPECT_EQ(parameters[0].tensor, parameters[1].tensor);
  expect_reproduced(weights);
}

TEST_F(ParametersTest, AnExpandedBufferComesBack) {
  const at::Tensor buffer = at::linspace(0, 1, 5).unsqueeze(1).expand({5, 3});
  record([&](Recorder& recorder) {
    EXPECT_TRUE(
        recorder.add_parameter("b", ParameterKind::kBuffer, buffer, Recipe::kValue, {}).ok());
    at::add(buffer, 1);
  });
  expect_reproduced();
}

TEST_F(ParametersTest, OtherWeightsAreNamedAndNothingIsExecuted) {
  record_linear(weight, Recipe::kSame, {"w"});
  const at::Tensor other = weight.clone();
  other.mutable_data_ptr<float>()[1999] += 1;
  const auto report = verify({.trace = trace_path(), .weights = write_weights("w", other)});
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->wrong_parameters, ElementsAre("w"));
  EXPECT_EQ(report->executed, 0u);
  EXPECT_FALSE(report->reproduced());
}

TEST_F(ParametersTest, AMissingSourceIsNamed) {
  record_linear(weight, Recipe::kSame, {"w"});
  const auto report = verify({.trace = trace_path(), .weights = write_weights("v", weight)});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), Code::kNotFound);
  EXPECT_THAT(report.status().message(), HasSubstr("'w'"));
}

TEST_F(ParametersTest, AnInPlaceUpdateOfAParameterIsPartOfTheProgram) {
  const std::string weights = write_weights("w", weight);
  const Recorded recorded = record([&](Recorder& recorder) {
    EXPECT_TRUE(
        recorder.add_parameter("w", ParameterKind::kParameter, weight, Recipe::kSame, {"w"}).ok());
    weight.mul_(0.5);
    at::linear(x, weight);
  });
  EXPECT_EQ(recorded.counter("holes"), 0u);
  expect_reproduced(weights);
}

TEST_F(ParametersTest, AParameterWithoutMemoryIsRefused) {
  record([&](Recorder& recorder) {
    const at::Tensor meta = at::zeros({2}, at::TensorOptions().device(at::kMeta));
    const auto kind = ParameterKind::kParameter;
    const auto hash = recorder.add_parameter("m", kind, meta, Recipe::kValue, {});
    EXPECT_EQ(hash.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(hash.status().message(), HasSubstr("'m'"));
  });
}

}  // namespace
}  // namespace goldentrace
