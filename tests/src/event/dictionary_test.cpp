#include "src/event/dictionary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::next_chunk;
using testing::rich_chunk;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Dictionary, KnowsTheDefinitionsOfEveryChunkItAbsorbed) {
  Dictionary dictionary;
  const ProgramChunk first = rich_chunk();
  ASSERT_TRUE(dictionary.absorb(first).ok());
  const ProgramChunk second = next_chunk(first.next_base());
  const Status status = dictionary.absorb(second);
  ASSERT_TRUE(status.ok()) << status.message();

  EXPECT_EQ(dictionary.tensors(), 7u);
  EXPECT_EQ(dictionary.storages(), 6u);
  EXPECT_EQ(dictionary.operators(), 3u);
  EXPECT_EQ(dictionary.scopes(), 3u);
  EXPECT_EQ(dictionary.tensor(6), second.tensors[0]);
  EXPECT_EQ(dictionary.storage(5).bytes, 12u);
  EXPECT_EQ(dictionary.geometry_of(6), first.geometries[1]);
  EXPECT_EQ(dictionary.string(2), "mean");
  EXPECT_EQ(dictionary.scope(1), "model.layers.0.mlp");
  EXPECT_EQ(dictionary.ambient(1), first.ambients[1]);
  EXPECT_EQ(dictionary.describe_tensor(6), "bfloat16 [2, 3]");
  EXPECT_EQ(dictionary.describe_tensor(1), "float32 []");
  EXPECT_EQ(dictionary.describe_op(0), "aten::mul.Tensor");
  EXPECT_EQ(dictionary.describe_op(1), "aten::linear");
}

TEST(Dictionary, RefusesIdsThatNothingDefines) {
  struct Case {
    const char* why;
    std::function<void(ProgramChunk&)> damage;
    const char* says;
  };
  const auto set_node = [](NodeKind kind, std::int64_t value) {
    return [=](ProgramChunk& chunk) { chunk.nodes[0] = {kind, 0, value}; };
  };
  const Case cases[] = {
      {"device", [](auto& c) { c.storages[4].device = 5; }, "undefined device"},
      {"storage", [](auto& c) { c.tensors[5].storage = 5; }, "undefined storage"},
      {"geometry", [](auto& c) { c.tensors[5].geometry = 4; }, "undefined storage or geometry"},
      {"operator", [](auto& c) { c.calls[2].op = 3; }, "undefined operator"},
      {"scope", [](auto& c) { c.calls[2].scope = 3; }, "undefined operator, scope"},
      {"ambient", [](auto& c) { c.calls[2].ambient = 2; }, "ambient state"},
      {"argument", set_node(NodeKind::kTensor, 6), "undefined tensor"},
      {"negative argument", set_node(NodeKind::kTensor, -1), "undefined tensor"},
      {"string", set_node(NodeKind::kString, 5), "undefined string"},
      {"negative string", set_node(NodeKind::kString, -1), "undefined string"},
      {"device argument", set_node(NodeKind::kDevice, 5), "undefined string"},
      {"generator", set_node(NodeKind::kGenerator, 5), "undefined string"},
      {"reason", set_node(NodeKind::kUnstorable, 5), "undefined string"},
      {"storage", set_node(NodeKind::kStorage, 1u << 20), "undefined storage"},
      {"write", [](auto& c) { c.writes[0].tensor = 6; }, "undefined tensor"},
      {"external", [](auto& c) { c.externals[0].storage = 5; }, "external"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    ProgramChunk chunk = rich_chunk();
    c.damage(chunk);
    const Status status = Dictionary().absorb(chunk);
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr(c.says));
  }
}

TEST(Dictionary, RefusesTensorsOutsideTheirStorage) {
  struct Case {
    const char* why;
    Geometry geometry;
    std::int64_t offset;
    bool inside;  // of a storage of 24 bytes: 6 elements
  };
  const Case cases[] = {
      {"fills it", {{2, 3}, {3, 1}}, 0, true},
      {"one element too far", {{2, 3}, {3, 1}}, 1, false},
      {"last element by strides", {{2, 2}, {4, 1}}, 0, true},
      {"one past by strides", {{2, 2}, {5, 1}}, 0, false},
      {"stride 0 repeats", {{1000, 6}, {0, 1}}, 0, true},
      {"no element reaches nowhere", {{0, 9}, {9, 1}}, 100, true},
      {"negative offset", {{1}, {1}}, -1, false},
      {"negative offset of nothing", {{0}, {1}}, -1, false},
      {"negative size", {{-1}, {1}}, 0, false},
      {"two negative sizes", {{-1, -1}, {1, 1}}, 0, false},
      {"negative stride", {{2}, {-1}}, 5, false},
      {"negative stride of nothing", {{0, 2}, {1, -1}}, 0, false},
      {"sizes overflow", {{kMax, kMax}, {0, 0}}, 0, false},
      {"strides overflow", {{3}, {kMax}}, 0, false},
      {"offset overflows", {{2}, {1}}, kMax, false},
      {"greatest offset of one element", {{1}, {1}}, kMax, false},
      {"bytes overflow", {{2}, {kMax / 2}}, 0, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    ProgramChunk chunk;
    chunk.strings = {"cpu"};
    chunk.storages = {{24, 0}};
    chunk.geometries = {c.geometry};
    chunk.tensors = {{0, 0, DType::kFloat32, 0, c.offset}};
    EXPECT_EQ(Dictionary().absorb(chunk).code(), c.inside ? Code::kOk : Code::kCorrupt);
  }
}

TEST(Dictionary, RefusesAChunkThatDoesNotContinueTheLast) {
  const ProgramChunk first = rich_chunk();
  const ProgramChunk second = next_chunk(first.next_base());
  const ProgramChunk third = next_chunk(second.next_base());
  Dictionary missing_first;
  EXPECT_EQ(missing_first.absorb(second).code(), Code::kCorrupt);
  Dictionary missing_second;
  ASSERT_TRUE(missing_second.absorb(first).ok());
  EXPECT_EQ(missing_second.absorb(third).code(), Code::kCorrupt);
  Dictionary twice;
  ASSERT_TRUE(twice.absorb(first).ok());
  EXPECT_EQ(twice.absorb(first).code(), Code::kCorrupt);
}

TEST(Geometry, CountsElements) {
  EXPECT_EQ(element_count({{}, {}}), 1);
  EXPECT_EQ(element_count({{2, 3}, {3, 1}}), 6);
  EXPECT_EQ(element_count({{2, 0}, {1, 1}}), 0);
  EXPECT_EQ(element_count({{-2}, {1}}), -1);
  EXPECT_EQ(element_count({{kMax, 2}, {1, 1}}), -1);
}

TEST(Geometry, IsDenseWhenTheLogicalBytesAreTheMemorys) {
  struct Case {
    const char* why;
    Geometry geometry;
    bool dense;
  };
  const Case cases[] = {
      {"scalar", {{}, {}}, true},
      {"rows", {{2, 3}, {3, 1}}, true},
      {"columns", {{2, 3}, {1, 2}}, false},
      {"gap between rows", {{2, 3}, {4, 1}}, false},
      {"extent 1 may have any stride", {{2, 1, 3}, {3, 77, 1}}, true},
      {"expanded", {{2, 3}, {0, 1}}, false},
      {"no element", {{0, 3}, {1, 5}}, true},
      {"more elements than there can be", {{kMax, kMax}, {kMax, 1}}, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    EXPECT_EQ(is_dense(c.geometry), c.dense);
  }
}

TEST(SkipNode, PassesANodeWithAllItsChildren) {
  const std::vector<Node> nodes = {
      {NodeKind::kInt, 0, 1},    {NodeKind::kList, 0, 2},    {NodeKind::kTuple, 0, 1},
      {NodeKind::kInt, 0, 2},    {NodeKind::kComplex, 0, 0}, {NodeKind::kDouble, 0, 0},
      {NodeKind::kDouble, 0, 0}, {NodeKind::kList, 0, 0},    {NodeKind::kNone, 0, 0},
  };
  EXPECT_EQ(skip_node(nodes, 0), 1u);
  EXPECT_EQ(skip_node(nodes, 1), 7u);
  EXPECT_EQ(skip_node(nodes, 2), 4u);
  EXPECT_EQ(skip_node(nodes, 4), 7u);
  EXPECT_EQ(skip_node(nodes, 7), 8u);
}

}  // namespace
}  // namespace goldentrace
