// Buffers that are valid FlatBuffers but break the format's rules, made by hand from the generated
// code: our own encoder never writes them.
#include <flatbuffers/flatbuffers.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "src/format/codec.h"
#include "src/format/trace_generated.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;

template <typename Table>
Bytes finish(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<Table> root) {
  builder.Finish(root);
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

// The columns of a program chunk, with one call of one int argument and one plain write.
struct Columns {
  std::vector<std::uint8_t> geometry_rank;
  std::vector<std::int64_t> geometry_extent;
  std::vector<std::uint64_t> storage_bytes;
  std::vector<std::uint32_t> storage_device;
  std::vector<std::uint32_t> tensor_storage;
  std::vector<std::uint32_t> tensor_geometry;
  std::vector<std::uint8_t> tensor_dtype;
  std::vector<std::uint8_t> tensor_flags;
  std::vector<std::int64_t> tensor_offset;
  std::uint8_t autocast_dtype = 0;
  std::uint8_t default_dtype = 0;
  std::vector<std::uint32_t> external_call;
  std::vector<std::uint32_t> external_storage;
  std::vector<std::uint32_t> external_version;
  std::vector<std::uint8_t> external_kind;
  std::size_t external_hashes = 0;
  std::vector<std::uint32_t> call_operator{0};
  std::vector<std::uint32_t> call_scope{0};
  std::vector<std::uint32_t> call_step{0};
  std::vector<std::uint32_t> call_ambient{0};
  std::vector<std::uint8_t> call_flags{0};
  std::vector<std::uint16_t> call_arguments{1};
  std::vector<std::uint16_t> call_results{0};
  std::vector<std::uint16_t> call_writes{1};
  std::vector<std::uint8_t> node_kind{3};
  std::vector<std::int32_t> node_value{1};
  std::vector<std::int64_t> node_wide;
  std::vector<std::uint32_t> node_version;
  std::vector<std::int32_t> write_tensor{0};
  std::vector<std::uint32_t> write_version{1};
  std::vector<std::uint8_t> write_flags{0};
  std::size_t write_hashes = 0;
  std::vector<std::uint64_t> stats_count;
  std::vector<std::uint64_t> stats_counts;  // every other integer column
  std::vector<double> stats_figures;        // min, max, sum
  std::vector<double> stats_squares;
  std::vector<float> write_sketch;
};

Bytes encode(const Columns& c) {
  flatbuffers::FlatBufferBuilder b;
  const std::vector<wire::Hash128> external_hash(c.external_hashes);
  const std::vector<wire::Hash128> write_hash(c.write_hashes);
  const std::vector<flatbuffers::Offset<wire::Ambient>> ambients = {
      wire::CreateAmbient(b, false, false, false, false, c.autocast_dtype, c.default_dtype, 0, 1)};
  const auto* n = &c.stats_counts;
  const auto* f = &c.stats_figures;
  return finish(
      b, wire::CreateProgramDirect(
             b, 0, 0, 0, 0, 0, 0, 0, 0, nullptr, nullptr, nullptr, &c.geometry_rank,
             &c.geometry_extent, &c.storage_bytes, &c.storage_device, &c.tensor_storage,
             &c.tensor_geometry, &c.tensor_dtype, &c.tensor_flags, &c.tensor_offset, &ambients,
             &c.external_call, &c.external_storage, &c.external_version, &c.external_kind,
             &external_hash, &c.call_operator, &c.call_scope, &c.call_step, &c.call_ambient,
             &c.call_flags, &c.call_arguments, &c.call_results, &c.call_writes, &c.node_kind,
             &c.node_value, &c.node_wide, &c.node_version, &c.write_tensor, &c.write_version,
             &c.write_flags, &write_hash, &c.stats_count, n, n, n, n, n, f, f, f, &c.stats_squares,
             nullptr, nullptr, nullptr, &c.write_sketch));
}

using Damage = std::function<void(Columns&)>;

struct Case {
  const char* why;
  Damage damage;
  const char* says;
  Code code = Code::kCorrupt;
};

void expect_refused(std::span<const Case> cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    Columns columns;
    c.damage(columns);
    const auto chunk = decode_program(encode(columns));
    ASSERT_FALSE(chunk.ok());
    EXPECT_EQ(chunk.status().code(), c.code);
    EXPECT_THAT(chunk.status().message(), HasSubstr(c.says));
  }
}

TEST(DecodeProgram, TakesTheColumnsThatTheRefusalsStartFrom) {
  const auto chunk = decode_program(encode({}));
  EXPECT_TRUE(chunk.ok()) << chunk.status().message();
}

TEST(DecodeProgram, RefusesColumnsOfUnequalLength) {
  const Case cases[] = {
      {"storages", [](Columns& c) { c.storage_bytes = {1}; }, "storage columns"},
      {"geometry of tensors", [](Columns& c) { c.tensor_storage = {0}; }, "tensor columns"},
      {"offsets of tensors",
       [](Columns& c) {
         c.tensor_storage = c.tensor_geometry = {0};
         c.tensor_dtype = c.tensor_flags = {0};
       },
       "tensor columns"},
      {"externals without hash",
       [](Columns& c) {
         c.external_call = c.external_storage = c.external_version = {0};
         c.external_kind = {0};
       },
       "external input columns"},
      {"scopes", [](Columns& c) { c.call_scope = {}; }, "call columns"},
      {"steps",
       [](Columns& c) {
         c.call_step = {0, 0};
       },
       "call columns"},
      {"flags", [](Columns& c) { c.call_flags = {}; }, "call columns"},
      {"arguments", [](Columns& c) { c.call_arguments = {}; }, "call columns"},
      {"node values", [](Columns& c) { c.node_value = {}; }, "node columns"},
      {"write versions", [](Columns& c) { c.write_version = {}; }, "write columns"},
      {"write flags",
       [](Columns& c) {
         c.write_flags = {0, 0};
       },
       "write columns"},
      {"stats", [](Columns& c) { c.stats_count = {1}; }, "stats columns"},
      {"last stats column",
       [](Columns& c) {
         c.stats_count = c.stats_counts = {1};
         c.stats_figures = {1};
       },
       "stats columns"},
  };
  expect_refused(cases);
}

TEST(DecodeProgram, RefusesColumnsThatRunOutOrAreLeftOver) {
  const Case cases[] = {
      {"nodes run out", [](Columns& c) { c.call_arguments = {2}; }, "nodes run out"},
      {"nodes left over", [](Columns& c) { c.call_arguments = {0}; }, "longer than its calls"},
      {"writes run out", [](Columns& c) { c.call_writes = {2}; }, "writes run out"},
      {"writes left over", [](Columns& c) { c.call_writes = {0}; }, "longer than its calls"},
      {"versions run out", [](Columns& c) { c.node_kind = {1}; }, "versions run out"},
      {"versions left over", [](Columns& c) { c.node_version = {1}; }, "longer than its calls"},
      {"wide values run out", [](Columns& c) { c.node_kind = {kWireIntWide}; }, "wide values"},
      {"wide values left over", [](Columns& c) { c.node_wide = {1}; }, "longer than its calls"},
      {"hashes run out", [](Columns& c) { c.write_flags = {kWriteHashed}; }, "hashes run out"},
      {"hashes left over", [](Columns& c) { c.write_hashes = 1; }, "longer than its calls"},
      {"stats run out", [](Columns& c) { c.write_flags = {kWriteStats}; }, "stats run out"},
      {"stats left over",
       [](Columns& c) {
         c.stats_count = c.stats_counts = {1};
         c.stats_figures = c.stats_squares = {1};
       },
       "longer than its calls"},
      {"sketches run out", [](Columns& c) { c.write_flags = {kWriteSketch}; }, "sketches run out"},
      {"a sketch is cut",
       [](Columns& c) {
         c.write_flags = {kWriteSketch};
         c.write_sketch.resize(63);
       },
       "a sketch is cut"},
      {"a sketch and one number",
       [](Columns& c) {
         c.write_flags = {kWriteSketch};
         c.write_sketch.resize(65);
       },
       "a sketch is cut"},
      {"sketches left over",
       [](Columns& c) {
         c.write_flags = {kWriteSketch};
         c.write_sketch.resize(128);
       },
       "longer than its calls"},
      {"a sketch of nobody", [](Columns& c) { c.write_sketch.resize(64); },
       "longer than its calls"},
      {"extents run out",
       [](Columns& c) {
         c.geometry_rank = {2};
         c.geometry_extent = {1, 1, 1};
       },
       "extents run out"},
      {"extents left over", [](Columns& c) { c.geometry_extent = {1}; }, "extents are left over"},
      {"a list without its items",
       [](Columns& c) {
         c.node_kind = {8};
         c.node_value = {std::numeric_limits<std::int32_t>::max()};
       },
       "nodes run out"},
      {"a complex number without its doubles", [](Columns& c) { c.node_kind = {10}; },
       "nodes run out"},
  };
  expect_refused(cases);
}

TEST(DecodeProgram, RefusesValuesThatMeanNothing) {
  const Case cases[] = {
      {"65 dimensions",
       [](Columns& c) {
         c.geometry_rank = {65};
         c.geometry_extent.resize(130);
       },
       "more dimensions"},
      {"a list of negative length",
       [](Columns& c) {
         c.node_kind = {8};
         c.node_value = {-1};
       },
       "negative length"},
      {"nested without end",
       [](Columns& c) {
         c.node_kind.assign(1000, 8);
         c.node_value.assign(1000, 1);
       },
       "nested too deeply"},
      {"a complex number of two ints",
       [](Columns& c) {
         c.node_kind = {10, 3, 3};
         c.node_value = {0, 1, 2};
       },
       "two doubles"},
      {"a complex number of a double and an int",
       [](Columns& c) {
         c.node_kind = {10, 4, 3};
         c.node_value = {0, 0, 2};
         c.node_wide = {0};
       },
       "two doubles"},
      {"a tensor before the first",
       [](Columns& c) {
         c.node_kind = {kWireTensorBack};
         c.node_version = {1};
       },
       "negative"},
      {"a tensor of negative id",
       [](Columns& c) {
         c.node_kind = {1};
         c.node_value = {-1};
         c.node_version = {1};
       },
       "negative"},
      {"a write before the first tensor", [](Columns& c) { c.write_tensor = {1}; }, "negative"},
      {"externals out of order",
       [](Columns& c) {
         c.call_operator = c.call_scope = c.call_step = c.call_ambient = {0, 0};
         c.call_flags = {0, 0};
         c.call_arguments = c.call_writes = {1, 0};
         c.call_results = {0, 0};
         c.external_call = {1, 0};
         c.external_storage = c.external_version = {0, 0};
         c.external_kind = {0, 0};
         c.external_hashes = 2;
       },
       "not in order"},
      {"an external of a call in another chunk",
       [](Columns& c) {
         c.external_call = {2};
         c.external_storage = c.external_version = {0};
         c.external_kind = {0};
         c.external_hashes = 1;
       },
       "another chunk"},
  };
  expect_refused(cases);
}

// A call may be dropped after its inputs were captured: what it would have read then stands at the
// end.
TEST(DecodeProgram, TakesAnExternalAfterTheLastCall) {
  Columns columns;
  columns.external_call = {1};
  columns.external_storage = columns.external_version = {0};
  columns.external_kind = {0};
  columns.external_hashes = 1;
  const auto chunk = decode_program(encode(columns));
  ASSERT_TRUE(chunk.ok()) << chunk.status().message();
  EXPECT_EQ(chunk->externals[0].call, 1u);
}

TEST(DecodeProgram, NumbersOfALaterVersionAreUnsupportedNotCorrupt) {
  const Case cases[] = {
      {"dtype",
       [](Columns& c) {
         c.tensor_storage = c.tensor_geometry = {0};
         c.tensor_dtype = {200};
         c.tensor_flags = {0};
         c.tensor_offset = {0};
       },
       "dtype 200", Code::kUnsupported},
      {"default dtype", [](Columns& c) { c.default_dtype = 99; }, "dtype 99", Code::kUnsupported},
      {"node kind", [](Columns& c) { c.node_kind = {17}; }, "node kind 17", Code::kUnsupported},
      {"wire kind", [](Columns& c) { c.node_kind = {66}; }, "node kind 66", Code::kUnsupported},
      {"external kind",
       [](Columns& c) {
         c.external_call = c.external_storage = c.external_version = {0};
         c.external_kind = {3};
         c.external_hashes = 1;
       },
       "external kind 3", Code::kUnsupported},
  };
  expect_refused(cases);
}

TEST(DecodeProgram, TakesTheGreatestRankAndNesting) {
  Columns columns;
  columns.geometry_rank = {64};
  columns.geometry_extent.resize(128);
  columns.node_kind.assign(17, 8);
  columns.node_value.assign(17, 1);
  columns.node_value.back() = 0;
  EXPECT_TRUE(decode_program(encode(columns)).ok());
  columns.node_kind.push_back(8);
  columns.node_value = std::vector<std::int32_t>(18, 1);
  columns.node_value.back() = 0;
  EXPECT_FALSE(decode_program(encode(columns)).ok());
}

TEST(Decode, RefusesBytesThatAreNoFlatBuffer) {
  std::uint64_t first_call = 0;
  for (const Bytes& raw : {Bytes(), Bytes(3), Bytes(64), Bytes(64, std::byte{0xff}),
                           testing::to_bytes("a line of text, no more than that")}) {
    SCOPED_TRACE(raw.size());
    EXPECT_EQ(decode_header(raw).status().code(), Code::kCorrupt);
    EXPECT_EQ(decode_program(raw).status().code(), Code::kCorrupt);
    EXPECT_EQ(decode_timing(raw, first_call).status().code(), Code::kCorrupt);
    EXPECT_EQ(decode_parameters(raw).status().code(), Code::kCorrupt);
    EXPECT_EQ(decode_text(raw).status().code(), Code::kCorrupt);
    EXPECT_EQ(decode_values(raw).status().code(), Code::kCorrupt);
    EXPECT_EQ(decode_summary(raw).status().code(), Code::kCorrupt);
    EXPECT_EQ(decode_index(raw).status().code(), Code::kCorrupt);
  }
}

// Chunks are checksummed, but a hostile writer's checksum is right. Nothing may crash.
TEST(Decode, SurvivesEveryByteFlipOfEveryTable) {
  const Bytes tables[] = {encode_header(testing::sample_header()),
                          encode_program(testing::rich_chunk()),
                          encode_timing(testing::rich_chunk()),
                          encode_parameters(testing::sample_parameters()),
                          encode_text(testing::sample_text()),
                          encode_summary(testing::sample_summary(1)),
                          encode_values(std::vector<ValuePart>{{{1, 1}, 3, 0, 3}}, Bytes(3)),
                          encode_index({{{16, 1, 1, {}, 0, 0, ChunkKind::kValues, Codec::kNone}},
                                        {{{1, 1}, 0, 1, 0}}})};
  std::uint64_t first_call = 0;
  for (Bytes raw : tables) {
    for (std::size_t i = 0; i < raw.size(); ++i) {
      for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
        raw[i] ^= static_cast<std::byte>(flip);
        (void)decode_header(raw);
        (void)decode_program(raw);
        (void)decode_timing(raw, first_call);
        (void)decode_parameters(raw);
        (void)decode_text(raw);
        (void)decode_values(raw);
        (void)decode_summary(raw);
        (void)decode_index(raw);
        raw[i] ^= static_cast<std::byte>(flip);
      }
    }
  }
}

// 20,000 offsets to one string of 20,000 bytes would be 400 MB out of 100 KB.
TEST(Decode, RefusesOffsetsThatUnfoldIntoMoreThanTheChunk) {
  flatbuffers::FlatBufferBuilder b;
  const auto text = b.CreateString(std::string(20'000, 'x'));
  const std::vector<flatbuffers::Offset<flatbuffers::String>> texts(20'000, text);
  const auto strings = b.CreateVector(texts);
  wire::ProgramBuilder program(b);
  program.add_strings(strings);
  const auto chunk = decode_program(finish(b, program.Finish()));
  ASSERT_FALSE(chunk.ok());
  EXPECT_THAT(chunk.status().message(), HasSubstr("many times over"));

  flatbuffers::FlatBufferBuilder tables;
  const auto counter = wire::CreateCounterDirect(tables, "name");
  const std::vector<flatbuffers::Offset<wire::Counter>> counters(20'000, counter);
  const auto summary = decode_summary(finish(tables, wire::CreateSummaryDirect(tables, &counters)));
  EXPECT_EQ(summary.status().code(), Code::kCorrupt);
}

// A geometry without dimensions costs the chunk one byte and a reader 48.
TEST(Decode, RefusesEntriesThatTakeManyTimesTheChunk) {
  for (const std::size_t count : {20'000u, 200'000u}) {
    SCOPED_TRACE(count);
    flatbuffers::FlatBufferBuilder b;
    const auto ranks = b.CreateVector(std::vector<std::uint8_t>(count, 0));
    wire::ProgramBuilder program(b);
    program.add_geometry_rank(ranks);
    EXPECT_EQ(decode_program(finish(b, program.Finish())).ok(), count == 20'000);

    flatbuffers::FlatBufferBuilder tables;
    std::vector<flatbuffers::Offset<wire::Request>> requests;
    for (std::size_t i = 0; i < count / 10; ++i) {
      requests.push_back(wire::CreateRequest(tables));
    }
    const auto text = decode_text(finish(tables, wire::CreateTextDirect(tables, &requests)));
    EXPECT_EQ(text.ok(), count == 20'000);
  }
}

TEST(Decode, RefusesRowsPastTheLastPosition) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  for (const bool fits : {true, false}) {
    SCOPED_TRACE(fits);
    const Row row{0, 0, 2, fits ? kLast - 2 : kLast - 1};
    Text text;
    text.steps.emplace_back().rows = {row};
    EXPECT_EQ(decode_text(encode_text(text)).ok(), fits);
    ProgramChunk chunk = testing::rich_chunk();
    chunk.rows = {{5, row}};
    EXPECT_EQ(decode_program(encode_program(chunk)).ok(), fits);
  }
}

TEST(DecodeTiming, RefusesColumnsOfUnequalLength) {
  flatbuffers::FlatBufferBuilder b;
  const std::vector<std::uint32_t> thread{0, 0};
  const std::vector<std::uint64_t> times{1};
  std::uint64_t first_call = 0;
  const Bytes raw = finish(b, wire::CreateTimingDirect(b, 0, &thread, &times, &times));
  EXPECT_EQ(decode_timing(raw, first_call).status().code(), Code::kCorrupt);
}

TEST(DecodeParameters, RefusesWhatBreaksTheRules) {
  struct Entry {
    const char* why;
    bool hash;
    wire::Recipe recipe;
    bool source;
    wire::ParameterKind kind;
    wire::PlacementKind placement;
    Code code;
  };
  constexpr auto kParameter = wire::ParameterKind::Parameter;
  constexpr auto kReplicated = wire::PlacementKind::Replicated;
  const Entry entries[] = {
      {"good", true, wire::Recipe::Same, true, kParameter, kReplicated, Code::kOk},
      {"no hash", false, wire::Recipe::Same, true, kParameter, kReplicated, Code::kCorrupt},
      {"computed needs no source", true, wire::Recipe::Computed, false, kParameter, kReplicated,
       Code::kOk},
      {"no source", true, wire::Recipe::Same, false, kParameter, kReplicated, Code::kCorrupt},
      {"new recipe", true, static_cast<wire::Recipe>(7), true, kParameter, kReplicated,
       Code::kUnsupported},
      {"new kind", true, wire::Recipe::Same, true, static_cast<wire::ParameterKind>(2), kReplicated,
       Code::kUnsupported},
      {"new placement", true, wire::Recipe::Same, true, kParameter,
       static_cast<wire::PlacementKind>(3), Code::kUnsupported},
  };
  for (const Entry& e : entries) {
    SCOPED_TRACE(e.why);
    flatbuffers::FlatBufferBuilder b;
    const wire::Hash128 hash(1, 2);
    const wire::Placement placement(e.placement, 0, 0, 1);
    const auto sources = b.CreateVectorOfStrings(e.source ? std::vector<std::string>{"w"}
                                                          : std::vector<std::string>{});
    const auto name = b.CreateString("w");
    const std::vector<flatbuffers::Offset<wire::Parameter>> all = {wire::CreateParameter(
        b, name, e.kind, 0, e.hash ? &hash : nullptr, e.recipe, sources, &placement)};
    const Bytes raw = finish(b, wire::CreateParametersDirect(b, &all));
    EXPECT_EQ(decode_parameters(raw).status().code(), e.code);
  }
}

TEST(DecodeText, RefusesTopIdsWithoutTheirLogits) {
  flatbuffers::FlatBufferBuilder b;
  const std::vector<std::int64_t> ids{1, 2};
  const std::vector<float> logits{1.0f};
  const std::vector<flatbuffers::Offset<wire::Step>> steps = {
      wire::CreateStepDirect(b, 0, nullptr, 1, &ids, &logits)};
  const Bytes raw = finish(b, wire::CreateTextDirect(b, nullptr, &steps));
  EXPECT_EQ(decode_text(raw).status().code(), Code::kCorrupt);
}

TEST(DecodeValues, RefusesPartsThatDoNotFit) {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  struct Row {
    const char* why;
    std::vector<ValuePart> parts;
    bool ok;
  };
  const Row rows[] = {
      {"all bytes are somebody's", {{{}, 8, 0, 8}}, true},
      {"a part in the middle of its value", {{{}, kHuge, kHuge - 8, 8}}, true},
      {"bytes of no value", {{{}, 7, 0, 7}}, false},
      {"no parts at all", {}, false},
      {"more than the chunk has", {{{}, 9, 0, 9}}, false},
      {"lengths that wrap around", {{{}, kHuge, 0, 8}, {{}, kHuge, 0, kHuge}}, false},
      {"past the end of the value", {{{}, 8, 1, 8}}, false},
      {"offset past the end", {{{}, 8, 9, 8}}, false},
      {"offset and length wrap around", {{{}, 8, kHuge, 8}}, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.why);
    const Bytes raw = encode_values(row.parts, Bytes(8));
    EXPECT_EQ(decode_values(raw).ok(), row.ok);
  }
}

// A small header whose modules would unfold into gigabytes: thousands of entries, one long name.
TEST(DecodeHeader, RefusesModulesThatShareMoreThanTheChunkHolds) {
  for (const std::size_t entries : {1u, 2000u}) {
    SCOPED_TRACE(entries);
    flatbuffers::FlatBufferBuilder b;
    const auto name = b.CreateString(std::string(100'000, 'x'));
    const auto entry = wire::CreateKeyValue(b, name, 0);
    const auto modules =
        b.CreateVector(std::vector<flatbuffers::Offset<wire::KeyValue>>(entries, entry));
    wire::HeaderBuilder header(b);
    header.add_modules(modules);
    const auto decoded = decode_header(finish(b, header.Finish()));
    EXPECT_EQ(decoded.ok(), entries == 1);
    if (!decoded.ok()) {
      EXPECT_THAT(decoded.status().message(), HasSubstr("many times over"));
    }
  }
}

TEST(DecodeIndex, RefusesValuesThatNoSearchWouldFind) {
  const ChunkEntry header{16, 1, 1, {}, 0, 0, ChunkKind::kHeader, Codec::kNone};
  const ChunkEntry values{57, 1, 1, {}, 0, 0, ChunkKind::kValues, Codec::kNone};
  struct Row {
    const char* why;
    std::vector<ValueEntry> entries;
    bool ok;
  };
  const Row rows[] = {
      {"in order", {{{1, 9}, 0, 1, 1}, {{2, 0}, 0, 1, 1}, {{2, 1}, 0, 0, 1}}, true},
      {"low halves out of order", {{{2, 0}, 0, 1, 1}, {{1, 1}, 0, 1, 1}}, false},
      {"high halves out of order", {{{1, 2}, 0, 1, 1}, {{1, 1}, 0, 1, 1}}, false},
      {"offsets out of order", {{{1, 1}, 5, 1, 1}, {{1, 1}, 0, 1, 1}}, false},
      {"the same part twice", {{{1, 1}, 0, 1, 1}, {{1, 1}, 0, 1, 1}}, false},
      {"a chunk beyond the index", {{{1, 1}, 0, 1, 2}}, false},
      {"a chunk of another kind", {{{1, 1}, 0, 1, 0}}, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.why);
    EXPECT_EQ(decode_index(encode_index({{header, values}, row.entries})).ok(), row.ok);
  }
}

// A value's size is allocated by what the index says of its parts.
TEST(DecodeIndex, RefusesPartsThatDoNotMakeUpAValueOrDoNotFitTheirChunk) {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  const ChunkEntry small{16, 10, 10, {}, 0, 0, ChunkKind::kValues, Codec::kNone};
  const ChunkEntry other{66, 10, 10, {}, 0, 0, ChunkKind::kValues, Codec::kNone};
  struct Row {
    const char* why;
    std::vector<ValueEntry> entries;
    bool ok;
  };
  const Row rows[] = {
      {"over two chunks", {{{1, 1}, 0, 10, 0}, {{1, 1}, 10, 7, 1}}, true},
      {"twice in one chunk", {{{1, 1}, 0, 5, 0}, {{1, 1}, 5, 5, 0}}, true},
      {"one after the other", {{{1, 1}, 0, 10, 1}, {{2, 1}, 0, 10, 0}}, true},
      {"no beginning", {{{1, 1}, 1, 5, 0}}, false},
      {"a gap", {{{1, 1}, 0, 5, 0}, {{1, 1}, 6, 5, 1}}, false},
      {"an overlap", {{{1, 1}, 0, 5, 0}, {{1, 1}, 4, 5, 1}}, false},
      {"the far end of memory", {{{1, 1}, 0, 5, 0}, {{1, 1}, kHuge, 5, 1}}, false},
      {"larger than its chunk", {{{1, 1}, 0, 11, 0}}, false},
      {"together larger than their chunk", {{{1, 1}, 0, 5, 0}, {{1, 1}, 5, 6, 0}}, false},
      {"back to an earlier chunk", {{{1, 1}, 0, 5, 1}, {{1, 1}, 5, 5, 0}}, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.why);
    EXPECT_EQ(decode_index(encode_index({{small, other}, row.entries})).ok(), row.ok);
  }
}

}  // namespace
}  // namespace goldentrace
