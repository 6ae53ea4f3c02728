// Reading traces by the C interface: those of PyTorch, lookup by name, and refusals.
#include <gmock/gmock.h>

#include <fstream>

#include "src/digest/digest.h"
#include "src/format/codec.h"
#include "tests/src/capi/capi.h"
#include "tests/support/run_trace.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the helpers of capi.h

TEST(CapiReader, TellsEverythingOfAGolden) {
  const TempFolder folder;
  MadeRun run = sample_run(3, 6, Keep::kValues);
  run.text.requests[0].sampling.push_back({"forced", "true", "request"});
  run.header.command = {"record", "hf"};
  const std::string path = write_run(folder, "gold.fb", run);
  const ReaderHandle reader = open_reader(path);
  const goldentrace_info* info = goldentrace_reader_info(reader.get());
  ASSERT_NE(info, nullptr);
  EXPECT_STREQ(info->engine, "transformers");
  EXPECT_STREQ(info->model_config, run.header.model_config.c_str());
  ASSERT_EQ(info->environment_count, 2u);
  EXPECT_STREQ(info->environment[0].key, "attention");
  EXPECT_STREQ(info->environment[0].value, "eager");
  ASSERT_EQ(info->command_count, 2u);
  EXPECT_STREQ(info->command[1], "hf");
  EXPECT_EQ(info->calls, 18u);
  EXPECT_EQ(info->world, 1u);
  EXPECT_EQ(goldentrace_reader_whole(reader.get()), 1);

  const goldentrace_request* request = nullptr;
  ASSERT_DONE(goldentrace_reader_request(reader.get(), 0, &request));
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(goldentrace_request_forced(request), 1);
  EXPECT_EQ(request->output_count, 3u);
  EXPECT_EQ(request->output_ids[2], 102);

  int count = 0;
  while (const goldentrace_record* record = next_record(reader)) {
    EXPECT_EQ(record->call, static_cast<std::uint64_t>(count++));
    EXPECT_EQ(record->foreign, 0u);
    EXPECT_NE(record->stats, nullptr);
    EXPECT_EQ(record->value_size, 64u);
    EXPECT_STREQ(record->layout, "");
  }
  EXPECT_EQ(count, 18);
  EXPECT_EQ(next_record(reader), nullptr);  // the end stays the end
  ASSERT_DONE(goldentrace_reader_rewind(reader.get()));
  const goldentrace_record* record = next_record(reader);
  ASSERT_NE(record, nullptr);
  EXPECT_STREQ(record->name, "model.layers.0");
  EXPECT_STREQ(record->op, "aten::linear");
}

TEST(CapiReader, FindsByNameOpStepAndOccurrence) {
  const TempFolder folder;
  const ReaderHandle reader = open_reader(write_run(folder, "gold.fb", sample_run(3, 6)));
  goldentrace_query query;
  goldentrace_query_init(&query);
  const goldentrace_record* record = nullptr;
  const auto call_found = [&]() -> std::int64_t {
    const goldentrace_status status = goldentrace_reader_find(reader.get(), &query, &record);
    if (status != GOLDENTRACE_OK) {
      EXPECT_EQ(record, nullptr);
    }
    return status == GOLDENTRACE_OK ? static_cast<std::int64_t>(record->call) : -1;
  };
  query.name = "model.layers.1";
  EXPECT_EQ(call_found(), 2);
  query.op = "aten::mul";
  EXPECT_EQ(call_found(), 3);
  query.occurrence = 2;
  EXPECT_EQ(call_found(), 15);
  query.occurrence = 0;
  query.step = 1;
  EXPECT_EQ(call_found(), 9);
  EXPECT_EQ(record->value_size, GOLDENTRACE_NO_VALUE);
  query.step = 5;
  EXPECT_EQ(call_found(), -1);
  EXPECT_THAT(goldentrace_message(),
              HasSubstr("no tensor 'model.layers.1' of op aten::mul in step 5"));
  query.step = -1;
  query.name = "other";
  EXPECT_EQ(goldentrace_reader_find(reader.get(), &query, &record), GOLDENTRACE_NOT_FOUND);
  EXPECT_EQ(next_record(reader)->call, 0u);  // find does not move next
}

// A trace of one program chunk; `value` is kept under its hash.
ReaderHandle open_program(const TempFolder& folder, const ProgramChunk& chunk, const Bytes& value) {
  FileBuilder builder;
  Header header = sample_header();
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  builder.add(ChunkKind::kHeader, encode_header(header));
  builder.index().values.push_back(
      {hash_bytes(value), 0, static_cast<std::uint32_t>(value.size()), 1});
  const std::vector<ValuePart> parts = {{hash_bytes(value), value.size(), 0, value.size()}};
  builder.add(ChunkKind::kValues, encode_values(parts, value));
  builder.add(ChunkKind::kProgram, encode_program(chunk), 0, 3);
  builder.add(ChunkKind::kSummary, encode_summary({}));
  const Bytes file = builder.finish();
  return open_reader(
      folder.write("program.fb", {reinterpret_cast<const char*>(file.data()), file.size()}));
}

TEST(CapiReader, WhatWasRefusedIsRefusedAgain) {
  const TempFolder folder;
  ProgramChunk chunk = rich_chunk();
  chunk.nodes[0].value = 6;  // no tensor
  const ReaderHandle reader = open_program(folder, chunk, to_bytes("x"));
  for (int i = 0; i < 3; ++i) {
    const goldentrace_record* record = nullptr;
    EXPECT_EQ(goldentrace_reader_next(reader.get(), &record), GOLDENTRACE_CORRUPT);
    EXPECT_EQ(record, nullptr);
  }
}

TEST(CapiReader, AValueOfAnotherSizeThanItsTensorIsDamage) {
  const TempFolder folder;
  const Bytes value = to_bytes("x");
  ProgramChunk chunk = rich_chunk();
  for (Write& write : chunk.writes) write.hash = hash_bytes(value);
  const ReaderHandle reader = open_program(folder, chunk, value);
  const goldentrace_record* record = nullptr;
  EXPECT_EQ(goldentrace_reader_next(reader.get(), &record), GOLDENTRACE_CORRUPT);
  EXPECT_THAT(goldentrace_message(), HasSubstr("has 1 bytes"));
}

TEST(CapiReader, RefusesWhatIsNoTrace) {
  const TempFolder folder;
  goldentrace_reader* reader = nullptr;
  EXPECT_EQ(goldentrace_reader_open(folder.file("none").c_str(), &reader), GOLDENTRACE_NOT_FOUND);
  EXPECT_EQ(reader, nullptr);
  EXPECT_EQ(goldentrace_reader_open(folder.write("text", "not a trace").c_str(), &reader),
            GOLDENTRACE_CORRUPT);
  EXPECT_THAT(goldentrace_message(), HasSubstr("text"));
  EXPECT_EQ(goldentrace_reader_open(nullptr, &reader), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_reader_open("x", nullptr), GOLDENTRACE_INVALID_ARGUMENT);
}

TEST(CapiReader, RefusesTheWrongSizeAndAHashThatIsNotKept) {
  const TempFolder folder;
  const ReaderHandle reader =
      open_reader(write_run(folder, "gold.fb", sample_run(1, 1, Keep::kValues)));
  const goldentrace_record* record = next_record(reader);
  char bytes[64];
  EXPECT_EQ(goldentrace_reader_value(reader.get(), record->hash, bytes, 63),
            GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_STREQ(goldentrace_message(), "the value has 64 bytes, not 63");
  const goldentrace_hash128 other = {1, 2};
  EXPECT_EQ(goldentrace_reader_value(reader.get(), &other, bytes, 64), GOLDENTRACE_NOT_FOUND);
  EXPECT_EQ(goldentrace_reader_value(reader.get(), record->hash, nullptr, 64),
            GOLDENTRACE_INVALID_ARGUMENT);
}

TEST(CapiReader, SurvivesAFileCutAnywhere) {
  const TempFolder folder;
  const std::string whole = write_run(folder, "gold.fb", sample_run(2, 2, Keep::kValues));
  std::ifstream file(whole, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  int opened = 0;
  for (std::size_t size = 0; size < bytes.size(); size += 17) {
    const std::string path = folder.write("cut.fb", std::string_view(bytes).substr(0, size));
    goldentrace_reader* raw = nullptr;
    if (goldentrace_reader_open(path.c_str(), &raw) != GOLDENTRACE_OK) continue;
    ++opened;
    const ReaderHandle reader(raw);
    EXPECT_EQ(goldentrace_reader_whole(raw), 0);
    while (next_record(reader) != nullptr) {
    }
    const goldentrace_request* request = nullptr;
    EXPECT_DONE(goldentrace_reader_request(raw, 0, &request));
    const goldentrace_parameter_record* parameter = nullptr;
    EXPECT_DONE(goldentrace_reader_parameter(raw, 0, &parameter));
  }
  EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace goldentrace
