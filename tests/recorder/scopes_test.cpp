// Module scopes: they nest, and a lost exit heals.
#include "recorder/scopes.h"

#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using testing::Recorded;
using testing::RecordedCall;

class ScopesTest : public testing::RecordingTest {
 protected:
  // Makes one call; which one is told by its number.
  void call() const { at::mul(x_, 2); }

  static std::vector<std::string> scopes_of(const Recorded& recorded) {
    std::vector<std::string> scopes;
    for (const RecordedCall& call : recorded.calls) scopes.push_back(call.scope);
    return scopes;
  }

 private:
  at::Tensor x_ = at::linspace(0, 1, 4);
};

TEST_F(ScopesTest, ScopesNest) {
  const Recorded recorded = record([&] {
    call();
    {
      const ModuleScope model("model");
      call();
      {
        const ModuleScope layer("model.layers.0");
        call();
      }
      call();
    }
    call();
  });
  EXPECT_THAT(scopes_of(recorded),
              ::testing::ElementsAre("", "model", "model.layers.0", "model", ""));
}

TEST_F(ScopesTest, AnExceptionLeavesTheScopesItPasses) {
  const Recorded recorded = record([&] {
    const ModuleScope model("model");
    try {
      const ModuleScope layer("model.layers.0");
      throw std::runtime_error("caught inside the model");
    } catch (const std::runtime_error&) {
    }
    call();
  });
  EXPECT_THAT(scopes_of(recorded), ::testing::ElementsAre("model"));
}

TEST_F(ScopesTest, ALostExitHealsWhenTheEnclosingScopeExits) {
  const Recorded recorded = record([&](Recorder& recorder) {
    {
      const ModuleScope model("model");
      scopes::enter(recorder.scope("model.lost"));
      scopes::enter(recorder.scope("model.lost.too"));
      call();
    }
    call();
  });
  EXPECT_THAT(scopes_of(recorded), ::testing::ElementsAre("model.lost.too", ""));
}

TEST_F(ScopesTest, EnteringTheRootDropsWhatWasLost) {
  const Recorded recorded = record([&](Recorder& recorder) {
    scopes::enter(recorder.scope("lost"));
    scopes::enter(recorder.scope(""));
    call();
    scopes::exit(recorder.scope(""));
    call();
  });
  EXPECT_THAT(scopes_of(recorded), ::testing::ElementsAre("", ""));
}

TEST_F(ScopesTest, ALateExitOfALostScopeDoesNothing) {
  const Recorded recorded = record([&](Recorder& recorder) {
    const std::uint32_t lost = recorder.scope("model.lost");
    {
      const ModuleScope model("model");
      scopes::enter(lost);
    }
    const ModuleScope other("other");
    scopes::exit(lost);
    call();
  });
  EXPECT_THAT(scopes_of(recorded), ::testing::ElementsAre("other"));
}

TEST_F(ScopesTest, ARecursiveModulePopsItsInnermostEntry) {
  const Recorded recorded = record([&] {
    const ModuleScope outer("block");
    {
      const ModuleScope inner("block");
      call();
    }
    call();
  });
  EXPECT_THAT(scopes_of(recorded), ::testing::ElementsAre("block", "block"));
}

// The numbers of one recording mean nothing in the next.
TEST_F(ScopesTest, AScopeLostInOneRecordingIsGoneInTheNext) {
  record([&](Recorder& recorder) {
    for (const char* path : {"a", "b", "c"}) scopes::enter(recorder.scope(path));
    call();
  });
  const Recorded recorded = record([&] { call(); });
  EXPECT_THAT(scopes_of(recorded), ::testing::ElementsAre(""));
}

}  // namespace
}  // namespace goldentrace
