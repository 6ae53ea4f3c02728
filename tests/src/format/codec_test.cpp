// What is encoded is decoded again, table by table.
#include "src/format/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "src/event/dictionary.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using testing::next_chunk;
using testing::rich_chunk;

void expect_same(const ProgramChunk& got, const ProgramChunk& want) {
  EXPECT_EQ(got.base, want.base);
  EXPECT_EQ(got.strings, want.strings);
  EXPECT_EQ(got.operators, want.operators);
  EXPECT_EQ(got.scopes, want.scopes);
  EXPECT_EQ(got.geometries, want.geometries);
  EXPECT_EQ(got.storages, want.storages);
  EXPECT_EQ(got.tensors, want.tensors);
  EXPECT_EQ(got.ambients, want.ambients);
  EXPECT_EQ(got.externals, want.externals);
  EXPECT_EQ(got.calls, want.calls);
  EXPECT_EQ(got.nodes, want.nodes);
  EXPECT_EQ(got.writes, want.writes);
  EXPECT_EQ(got.stats, want.stats);
  EXPECT_EQ(got.sketches, want.sketches);
  EXPECT_EQ(got.placements, want.placements);
  EXPECT_EQ(got.layouts, want.layouts);
  EXPECT_EQ(got.rows, want.rows);
}

TEST(Codec, AProgramWithEveryKindOfNodeRoundTrips) {
  const ProgramChunk chunk = rich_chunk();
  std::vector<int> used(static_cast<std::size_t>(NodeKind::kStorage) + 1);
  for (const Node& node : chunk.nodes) ++used[static_cast<std::size_t>(node.kind)];
  ASSERT_THAT(used, ::testing::Not(::testing::Contains(0))) << "a kind of node is not tested";

  const auto back = decode_program(encode_program(chunk));
  ASSERT_TRUE(back.ok()) << back.status().message();
  expect_same(*back, chunk);
  EXPECT_TRUE(back->timings.empty());
}

TEST(Codec, AnEmptyProgramRoundTrips) {
  const auto back = decode_program(encode_program({}));
  ASSERT_TRUE(back.ok()) << back.status().message();
  expect_same(*back, {});
}

TEST(Codec, ChunksThatBuildOnOthersRoundTrip) {
  ProgramChunk chunk = rich_chunk();
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    chunk = next_chunk(chunk.next_base());
    chunk.externals = {{chunk.base.calls, 0, 2, ExternalKind::kHole, {9, 9}}};
    const auto back = decode_program(encode_program(chunk));
    ASSERT_TRUE(back.ok()) << back.status().message();
    expect_same(*back, chunk);
  }
}

// Distances and ids, on both sides of the border between them, and far apart.
TEST(Codec, TensorIdsNearAndFarRoundTrip) {
  ProgramChunk chunk;
  chunk.base.tensors = 1'000'000;
  const std::int64_t ids[] = {1'000'000, 999'999,   0,         995'905, 995'904,      995'903,
                              1'000'500, 1'100'000, 1'100'000, 5,       2'000'000'000};
  Call call;
  for (const std::int64_t id : ids) chunk.nodes.push_back({NodeKind::kTensor, 1, id});
  call.arguments = static_cast<std::uint16_t>(chunk.nodes.size());
  call.first_result = call.end_node = call.arguments;
  for (const std::uint32_t id : {2'000'000'000u, 0u, 2'000'000'001u, 1'999'999'999u}) {
    chunk.writes.push_back({id, 1, 0, {}, 0});
  }
  call.writes = static_cast<std::uint16_t>(chunk.writes.size());
  chunk.calls = {call};
  const auto back = decode_program(encode_program(chunk));
  ASSERT_TRUE(back.ok()) << back.status().message();
  expect_same(*back, chunk);
}

// The reason for storing distances: a step that repeats the last one's code costs few bytes.
TEST(Codec, TheSameCodeRunAgainGivesTheSameNodes) {
  const ProgramChunk first = next_chunk(rich_chunk().next_base());
  const ProgramChunk second = next_chunk(first.next_base());
  const Bytes one = encode_program(first);
  const Bytes two = encode_program(second);
  ASSERT_EQ(one.size(), two.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < one.size(); ++i) different += one[i] != two[i] ? 1u : 0u;
  // base_calls, base_storages, base_tensors, tensor_storage, the hash, and the old tensor's
  // distance.
  EXPECT_LE(different, 6u);
}

TEST(Codec, TimingRoundTrips) {
  ProgramChunk chunk = rich_chunk();
  chunk.base.calls = 77;
  std::uint64_t first_call = 0;
  const auto back = decode_timing(encode_timing(chunk), first_call);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, chunk.timings);
  EXPECT_EQ(first_call, 77u);
}

TEST(Codec, HeaderRoundTrips) {
  Header header = testing::sample_header();
  header.major = 1;
  header.minor = 4;
  header.model_config = std::string("zero \0 byte", 11);
  const auto back = decode_header(encode_header(header));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->major, 1);
  EXPECT_EQ(back->minor, 4);
  EXPECT_EQ(back->engine, header.engine);
  EXPECT_EQ(back->engine_version, header.engine_version);
  EXPECT_EQ(back->device, header.device);
  EXPECT_EQ(back->dtype, header.dtype);
  EXPECT_EQ(back->model_config, header.model_config);
  EXPECT_EQ(back->environment, header.environment);
  EXPECT_EQ(back->command, header.command);
  EXPECT_EQ(back->started_unix_ns, header.started_unix_ns);
  EXPECT_EQ(back->rank, header.rank);
  EXPECT_EQ(back->world, header.world);
  EXPECT_EQ(back->mesh, header.mesh);
  EXPECT_EQ(back->modules, header.modules);
  EXPECT_EQ(back->warnings, header.warnings);
}

TEST(Codec, AHeaderKeepsModuleNamesOfAnyLengthAndBytes) {
  Header header;
  header.modules = {{"", ""}, {std::string("a\0b", 3), std::string(100'000, 'x')}};
  header.warnings = {"", "not UTF-8: \xff"};
  const auto back = decode_header(encode_header(header));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->modules, header.modules);
  EXPECT_EQ(back->warnings, header.warnings);
}

TEST(Codec, ParametersRoundTrip) {
  const auto back = decode_parameters(encode_parameters(testing::sample_parameters()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, testing::sample_parameters());
}

TEST(Codec, TextRoundTripsWithZeroBytesAndBytesThatAreNotUtf8) {
  const Text text = testing::sample_text();
  const auto back = decode_text(encode_text(text));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->requests, text.requests);
  EXPECT_EQ(back->steps, text.steps);
}

TEST(Codec, WhatIsUnknownOfAStepStaysUnknown) {
  const auto back = decode_text(encode_text({{}, {Step()}}));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_TRUE(std::isnan(back->steps[0].gap_ulp));
  EXPECT_TRUE(std::isnan(back->steps[0].logprob));
  EXPECT_EQ(back->steps[0].chosen, -1);
}

// Zero-copy readers use the data where it lies.
TEST(Codec, DataOfValuesLiesAtAMultipleOfSixteen) {
  for (std::size_t size = 1; size < 70; ++size) {
    const Bytes data(size, std::byte{1});
    const Bytes raw = encode_values(std::vector<ValuePart>{{{1, 1}, size, 0, size}}, data);
    EXPECT_EQ((decode_values(raw)->data.data() - raw.data()) % 16, 0);
  }
}

TEST(Codec, ValuesRoundTrip) {
  const Bytes data = testing::to_bytes("abcdefgh");
  const ValuePart parts[] = {{{1, 1}, 3, 0, 3}, {{2, 2}, 0, 0, 0}, {{3, 3}, 100, 95, 5}};
  const Bytes raw = encode_values(parts, data);
  const auto back = decode_values(raw);
  ASSERT_TRUE(back.ok()) << back.status().message();
  ASSERT_EQ(back->parts.size(), 3u);
  EXPECT_EQ(back->parts[2].hash, (Hash128{3, 3}));
  EXPECT_EQ(back->parts[2].total, 100u);
  EXPECT_EQ(back->parts[2].offset, 95u);
  EXPECT_EQ(back->parts[2].length, 5u);
  EXPECT_EQ(Bytes(back->data.begin(), back->data.end()), data);
}

TEST(Codec, SummaryRoundTrips) {
  const Summary summary = testing::sample_summary(9);
  const auto back = decode_summary(encode_summary(summary));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->counters, summary.counters);
  EXPECT_EQ(back->calls, 9u);
  EXPECT_EQ(back->duration_ns, summary.duration_ns);
}

TEST(Codec, IndexRoundTrips) {
  const Index index{{{16, 10, 20, {1, 2}, 0, 0, ChunkKind::kHeader, Codec::kZstd},
                     {66, 90, 90, {3, 4}, 7, 9, ChunkKind::kValues, Codec::kNone}},
                    {{{1, 9}, 0, 64, 1}, {{1, 9}, 64, 3, 1}, {{2, 1}, 0, 0, 1}, {{2, 2}, 0, 0, 1}}};
  const auto back = decode_index(encode_index(index));
  ASSERT_TRUE(back.ok()) << back.status().message();
  ASSERT_EQ(back->chunks.size(), 2u);
  EXPECT_EQ(back->chunks[1].offset, 66u);
  EXPECT_EQ(back->chunks[1].stored_size, 90u);
  EXPECT_EQ(back->chunks[0].raw_size, 20u);
  EXPECT_EQ(back->chunks[0].content, (Hash128{1, 2}));
  EXPECT_EQ(back->chunks[1].first_call, 7u);
  EXPECT_EQ(back->chunks[1].calls, 9u);
  EXPECT_EQ(back->chunks[1].kind, ChunkKind::kValues);
  EXPECT_EQ(back->chunks[0].codec, Codec::kZstd);
  ASSERT_EQ(back->values.size(), 4u);
  EXPECT_EQ(back->values[1].offset, 64u);
  EXPECT_EQ(back->values[1].length, 3u);
}

}  // namespace
}  // namespace goldentrace
