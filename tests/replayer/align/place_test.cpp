// Places: how they are named, and what a name finds in a trace.
#include "replayer/align/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Keep;
using testing::MadeRun;
using testing::RunCall;
using testing::TempFolder;

TEST(PlaceName, HasAScopeMaybeAnOperatorMaybeANumber) {
  struct Case {
    const char* text;
    const char* scope;
    const char* op;
    std::uint32_t ordinal;
  };
  const Case cases[] = {
      {"model.layers.0.mlp", "model.layers.0.mlp", "", 1},
      {"layers.*.mlp/aten::mul.Tensor", "layers.*.mlp", "aten::mul.Tensor", 1},
      {"mlp/mul#1", "mlp", "mul", 1},
      {"mlp/mul#12", "mlp", "mul", 12},
      {"/argmax", "", "argmax", 1},
      {"a/b/mul#2", "a/b", "mul", 2},
      {"tensor#2", "tensor#2", "", 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const auto name = parse_place(c.text);
    ASSERT_TRUE(name.ok());
    EXPECT_EQ(name->scope, c.scope);
    EXPECT_EQ(name->op, c.op);
    EXPECT_EQ(name->ordinal, c.ordinal);
  }
}

TEST(PlaceName, WhatIsNoneIsRefusedInOneLine) {
  for (const char* text : {"", "/", "mlp/", "mlp/#2", "mlp/mul#", "mlp/mul#0", "mlp/mul#-1",
                           "mlp/mul#1x", "mlp/mul#4294967296", "mlp/mul#1#2"}) {
    SCOPED_TRACE(text);
    const auto name = parse_place(text);
    ASSERT_FALSE(name.ok());
    EXPECT_EQ(name.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(name.status().message().find('\n'), std::string::npos);
  }
}

RunCall call(const char* scope, const char* op, std::uint32_t seed, Keep keep = Keep::kStats) {
  return {scope, op, {{testing::numbers(seed, 8), DType::kBFloat16, keep}}};
}

class FindPlace : public ::testing::Test {
 protected:
  FindPlace() {
    MadeRun run = testing::sample_run(2, 0);
    for (std::uint32_t step = 0; step < 2; ++step) {
      run.steps[step] = {
          call("model.embed", "aten::embedding", 1),
          call("model.layers.0.mlp", "aten::mul", 2),
          call("model.layers.0.mlp.down", "aten::linear", 3),
          call("model.layers.0.mlp", "aten::mul", 4, Keep::kValues),
          call("model.layers.0.mlp", "aten::empty", 5, Keep::kNothing),
          call("model.layers.1.mlp", "aten::mul", 6),
          call("model.layers.10.mlp", "aten::mul", 7),
          call("", "aten::argmax", 8),
      };
    }
    run.steps[1].push_back(call("model.norm", "aten::rsqrt", 9));
    trace_ = std::move(*TraceReader::open(testing::write_run(folder_, "t.fb", run)));
  }

  Result<Place> find(const char* text, std::uint32_t step = 0) {
    const auto name = parse_place(text);
    if (!name.ok()) return name.status();
    return find_place(*trace_, *name, step);
  }
  std::string refusal(const char* text, std::uint32_t step = 0) {
    const auto place = find(text, step);
    EXPECT_FALSE(place.ok()) << text;
    if (place.ok()) return "";
    EXPECT_EQ(place.status().code(), Code::kNotFound);
    EXPECT_EQ(place.status().message().find('\n'), std::string::npos);
    return place.status().message();
  }

  TempFolder folder_;
  std::unique_ptr<TraceReader> trace_;
};

TEST_F(FindPlace, AModuleIsAllOfItsCallsAndItsOutputTheLastThatComputed) {
  const auto place = find("model.layers.0.mlp");
  ASSERT_TRUE(place.ok()) << place.status().message();
  EXPECT_THAT(place->calls, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(place->call, 3u);
  EXPECT_EQ(place->name(), "model.layers.0.mlp");
  EXPECT_EQ(place->call_op, "aten::mul");
  EXPECT_EQ(place->dtype, DType::kBFloat16);
  EXPECT_THAT(place->sizes, ElementsAre(1, 8));
  EXPECT_TRUE(place->kept && place->hash && place->stats);
  EXPECT_FALSE(place->moves);
  EXPECT_TRUE(find("model.embed")->moves);
  // A module that makes no call by itself, and of which another one's name is the beginning.
  EXPECT_THAT(find("model.layers.1")->calls, ElementsAre(5));
  EXPECT_THAT(find("model.layers.1", 1)->calls, ElementsAre(13));
}

TEST_F(FindPlace, AnOperatorIsOneOfTheScopesOwnCalls) {
  for (const char* text : {"model.layers.0.mlp/aten::mul#2", "layers.0.mlp/mul#2"}) {
    const auto place = find(text);
    ASSERT_TRUE(place.ok()) << place.status().message();
    EXPECT_THAT(place->calls, ElementsAre(3));
    EXPECT_EQ(place->call, 3u);
    EXPECT_EQ(place->name(), "model.layers.0.mlp/aten::mul#2");
  }
  EXPECT_EQ(find("/argmax")->call, 7u);
  EXPECT_TRUE(find("layers.0.mlp/empty")->undefined);
}

TEST_F(FindPlace, AnEndOrAGlobIsEnoughWhereItIsOneModule) {
  EXPECT_EQ(find("layers.10.mlp")->scope, "model.layers.10.mlp");
  EXPECT_EQ(find("model.layers.1?.mlp")->scope, "model.layers.10.mlp");
  EXPECT_EQ(find("*.mlp.down")->scope, "model.layers.0.mlp.down");
  EXPECT_THAT(refusal("mlp"), HasSubstr("3 modules"));
  EXPECT_THAT(refusal("layers.*.mlp"),
              HasSubstr("model.layers.0.mlp, model.layers.1.mlp, model.layers.10.mlp"));
  // No part of a name.
  EXPECT_THAT(refusal("lp.down"), HasSubstr("no module 'lp.down'"));
}

TEST_F(FindPlace, WhatThereIsNotIsSaidWithWhatThereIs) {
  EXPECT_THAT(refusal("layers.0.mpl"), HasSubstr("nearest: model.layers.0.mlp"));
  EXPECT_THAT(refusal("layers.0.mlp/add"), HasSubstr("it calls aten::empty, aten::mul (2)"));
  EXPECT_THAT(refusal("layers.0.mlp/mul#3"), HasSubstr("2 times, not 3"));
  EXPECT_THAT(refusal("model.layers.0/mul"), HasSubstr("no call by itself"));
  EXPECT_THAT(refusal("model.norm"), HasSubstr("computes nothing in step 0"));
  EXPECT_TRUE(find("model.norm", 1).ok());
  EXPECT_THAT(refusal("model.norm", 7), HasSubstr("no step 7: it has 0 to 1"));
}

}  // namespace
}  // namespace goldentrace
