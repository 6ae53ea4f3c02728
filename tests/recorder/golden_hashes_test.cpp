// The golden trace beside a run: what is equal, what differs, and what can't be compared.
#include "recorder/golden_hashes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/event/chunk_builder.h"
#include "src/format/trace_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using Answer = GoldenHashes::Answer;
using ::testing::HasSubstr;

class GoldenHashesTest : public ::testing::Test {
 protected:
  // One call a step and scope, in chunks of two, each writing one tensor with hash {step, scope}.
  void SetUp() override {
    auto sink = create_file(path_);
    ASSERT_TRUE(sink.ok());
    auto writer = TraceWriter::create(std::move(*sink), {}, {});
    ASSERT_TRUE(writer.ok());
    ChunkBuilder builder;
    const std::uint32_t device = builder.string("cpu");
    for (std::uint32_t step = 0; step < 4; ++step) {
      for (const char* scope : {"a", "b", "a"}) {
        ProgramChunk& chunk = builder.chunk();
        Call call;
        call.op = builder.op("aten::mul", "Tensor");
        call.scope = builder.scope(scope);
        call.step = step;
        call.ambient = builder.ambient({});
        call.writes = 1;
        call.first_write = static_cast<std::uint32_t>(chunk.writes.size());
        const std::uint8_t flags = step == 2 ? 0 : kWriteHashed;
        const std::int64_t one = 1;
        const std::uint32_t id =
            builder.tensor({builder.storage(4, device), builder.geometry({&one, 1}, {&one, 1}),
                            DType::kFloat32, 0, 0});
        chunk.writes.push_back({id, 1, flags, flags == 0 ? Hash128() : Hash128{step, written_++}});
        chunk.calls.push_back(call);
        if (chunk.calls.size() == 2) {
          ASSERT_TRUE((*writer)->write_program(builder.take()).ok());
        }
      }
    }
    ASSERT_TRUE((*writer)->close({}).ok());
  }

  static Write hashed(std::uint64_t low, std::uint64_t high) {
    return {0, 1, kWriteHashed, {low, high}};
  }
  Answer compare(GoldenHashes& golden, const char* scope, const Write& write) {
    return golden.compare(scope, "aten::mul.Tensor", {&write, 1});
  }

  testing::TempFolder folder_;
  std::string path_ = folder_.file("gold.fb");
  std::uint64_t written_ = 0;
};

TEST_F(GoldenHashesTest, CallsOfAModuleAreComparedInTheirOrderAcrossChunks) {
  auto golden = GoldenHashes::open(path_);
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  ASSERT_TRUE((*golden)->begin_step(0).ok());
  EXPECT_EQ(compare(**golden, "a", hashed(0, 0)), Answer::kEqual);
  EXPECT_EQ(compare(**golden, "a", hashed(0, 2)), Answer::kEqual);
  EXPECT_EQ(compare(**golden, "b", hashed(0, 7)), Answer::kDiffers);
  EXPECT_EQ(compare(**golden, "a", hashed(0, 2)), Answer::kDiffers) << "it has two calls there";
  EXPECT_EQ(compare(**golden, "c", hashed(0, 0)), Answer::kDiffers) << "no such module";
  ASSERT_TRUE((*golden)->begin_step(1).ok());
  EXPECT_EQ(compare(**golden, "b", hashed(1, 4)), Answer::kEqual);
}

TEST_F(GoldenHashesTest, WithoutAHashOnOneSideThereIsNothingToCompare) {
  auto golden = GoldenHashes::open(path_);
  ASSERT_TRUE(golden.ok());
  ASSERT_TRUE((*golden)->begin_step(2).ok());
  EXPECT_EQ(compare(**golden, "a", hashed(9, 9)), Answer::kEqual) << "golden without a digest";
  ASSERT_TRUE((*golden)->begin_step(3).ok());
  EXPECT_EQ(compare(**golden, "b", {0, 1, 0, {}}), Answer::kEqual) << "the run without one";
}

TEST_F(GoldenHashesTest, StepsMayBeLeftOutAndAStepPastTheEndHasNoCalls) {
  auto golden = GoldenHashes::open(path_);
  ASSERT_TRUE(golden.ok());
  ASSERT_TRUE((*golden)->begin_step(3).ok());
  EXPECT_NE(compare(**golden, "b", hashed(9, 9)), Answer::kEqual);
  ASSERT_TRUE((*golden)->begin_step(4).ok());
  EXPECT_EQ(compare(**golden, "a", hashed(0, 0)), Answer::kDiffers);
}

TEST_F(GoldenHashesTest, ATraceWithoutCallsAndAFileThatIsNoneAreRefused) {
  auto sink = create_file(folder_.file("empty.fb"));
  ASSERT_TRUE(sink.ok());
  auto writer = TraceWriter::create(std::move(*sink), {}, {});
  ASSERT_TRUE((*writer)->close({}).ok());
  EXPECT_THAT(GoldenHashes::open(folder_.file("empty.fb")).status().message(),
              HasSubstr("holds no calls"));
  EXPECT_FALSE(GoldenHashes::open(folder_.file("nothing.fb")).ok());
}

}  // namespace
}  // namespace goldentrace
