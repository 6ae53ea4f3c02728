// What is given to a writer is what a reader of the format finds in the file.
#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "src/digest/digest.h"
#include "src/format/trace_reader.h"
#include "tests/src/capi/capi.h"

extern "C" int write_and_read_in_c99(const char* path);

namespace goldentrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the helpers of capi.h

TEST(CapiWriter, TheHeaderServesAPlainC99Program) {
  const TempFolder folder;
  EXPECT_EQ(write_and_read_in_c99(folder.file("c99.fb").c_str()), 0);
}

// A batch of many requests: rows are most of what is written.
TEST(CapiWriter, AsManyRowsAsABatchHasAreKept) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  const std::vector<std::int64_t> sizes = {1};
  const float number = 1;
  std::vector<goldentrace_row> rows;
  for (std::uint32_t i = 0; i < 256; ++i) rows.push_back({i, i, 1, 0, i});
  goldentrace_tensor tensor = tensor_of("x", GOLDENTRACE_FLOAT32, sizes, &number);
  tensor.rows = rows.data();
  tensor.rows_count = static_cast<std::uint32_t>(rows.size());
  constexpr int kTensors = 3000;
  for (int i = 0; i < kTensors; ++i) {
    ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  }
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  const auto trace = TraceReader::open(path);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  ProgramReader program(**trace);
  std::size_t kept = 0;
  while (*program.next()) kept += program.chunk().rows.size();
  EXPECT_EQ(kept, kTensors * rows.size());
}

TEST(CapiWriter, LongPromptsAreKeptInSeveralChunks) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  const std::vector<std::int64_t> ids(100'000, 7);
  goldentrace_request request;
  goldentrace_request_init(&request);
  request.prompt_ids = ids.data();
  request.prompt_count = ids.size();
  for (request.id = 0; request.id < 40; ++request.id) {
    ASSERT_DONE(goldentrace_writer_request(writer.get(), &request));
  }
  const std::vector<std::int64_t> far_too_many(9'000'000);
  request.prompt_ids = far_too_many.data();
  request.prompt_count = far_too_many.size();
  EXPECT_EQ(goldentrace_writer_request(writer.get(), &request), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_STREQ(goldentrace_message(), "the request is too large for a trace");
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  const auto trace = TraceReader::open(path);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  const auto text = (*trace)->text();
  ASSERT_TRUE(text.ok()) << text.status().message();
  ASSERT_EQ(text->requests.size(), 40u);
  EXPECT_EQ(text->requests[39].prompt_ids, ids);
}

TEST(CapiWriter, ATensorIsAForeignCallWithItsNotes) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  const std::vector<float> numbers = {1, -2, 0, 4, 5, std::numeric_limits<float>::infinity()};
  const std::vector<std::int64_t> sizes = {2, 3};
  goldentrace_tensor tensor = tensor_of("blk.0.attn_q", GOLDENTRACE_FLOAT32, sizes, numbers.data());
  tensor.op = "GGML_OP_MUL_MAT";
  tensor.layout = "query and gate in turns";
  tensor.placement = {GOLDENTRACE_SHARD, 1, 2, 4};
  const goldentrace_row rows[] = {{7, 0, 1, 0, 12}, {8, 1, 1, 0, 3}};
  tensor.rows = rows;
  tensor.rows_count = 2;
  ASSERT_DONE(goldentrace_writer_step(writer.get(), 3));
  std::uint64_t first = 0;
  ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, &first));
  goldentrace_tensor next = tensor_of("blk.0.out", GOLDENTRACE_FLOAT32, sizes, numbers.data());
  next.inputs = &first;
  next.inputs_count = 1;
  next.step = 9;
  next.flags = GOLDENTRACE_TENSOR_NO_VALUE | GOLDENTRACE_TENSOR_NO_STATS;
  ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &next, nullptr));
  ASSERT_DONE(goldentrace_writer_close(writer.get()));

  const auto trace = TraceReader::open(path);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ((*trace)->header().engine, "ggml");
  EXPECT_EQ((*trace)->header().device, "cpu");
  EXPECT_EQ((*trace)->summary().calls, 2u);
  EXPECT_GT((*trace)->header().started_unix_ns, 0);
  ProgramReader program(**trace);
  const auto more = program.next();
  ASSERT_TRUE(more.ok() && *more) << more.status().message();
  const ProgramChunk& chunk = program.chunk();
  const Dictionary& names = program.dictionary();
  ASSERT_EQ(chunk.calls.size(), 2u);
  EXPECT_EQ(chunk.calls[0].flags, kCallForeign);
  EXPECT_EQ(names.scope(chunk.calls[0].scope), "blk.0.attn_q");
  EXPECT_EQ(names.describe_op(chunk.calls[0].op), "GGML_OP_MUL_MAT");
  EXPECT_EQ(names.describe_op(chunk.calls[1].op), "tensor");
  EXPECT_EQ(chunk.calls[0].step, 3u);
  EXPECT_EQ(chunk.calls[1].step, 9u);
  EXPECT_EQ(names.describe_tensor(0), "float32 [2, 3]");
  EXPECT_THAT(names.geometry_of(0).strides, ElementsAre(3, 1));
  EXPECT_EQ(chunk.calls[1].arguments, 1u);
  EXPECT_EQ(chunk.nodes[chunk.calls[1].first_node], (Node{NodeKind::kTensor, 1, 0}));
  EXPECT_EQ(chunk.writes[0].flags, kWriteHashed | kWriteStats | kWriteValue);
  EXPECT_EQ(chunk.writes[1].flags, kWriteHashed);
  const auto bytes = std::as_bytes(std::span(numbers));
  EXPECT_EQ(chunk.writes[0].hash, hash_bytes(bytes));
  EXPECT_EQ(chunk.stats[0].count, 6u);
  EXPECT_EQ(chunk.stats[0].positive_infinity, 1u);
  EXPECT_THAT(chunk.placements, ElementsAre(TensorPlacement{0, {PlacementKind::kShard, 1, 2, 4}}));
  ASSERT_EQ(chunk.layouts.size(), 1u);
  EXPECT_EQ(names.string(chunk.layouts[0].text), "query and gate in turns");
  EXPECT_THAT(chunk.rows, ElementsAre(TensorRow{0, {7, 0, 1, 12}}, TensorRow{0, {8, 1, 1, 3}}));
  const auto timings = (*trace)->timings();
  ASSERT_TRUE(timings.ok());
  ASSERT_EQ(timings->size(), 2u);
  EXPECT_LE((*timings)[0].start_ns, (*timings)[1].start_ns);
}

TEST(CapiWriter, ASketchStandsInForBytesThatAreNotKept) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  std::vector<float> numbers(100);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1.0F / static_cast<float>(i + 1);
  const std::vector<std::int64_t> sizes = {4, 25};
  const std::uint32_t flags[] = {0, GOLDENTRACE_TENSOR_NO_VALUE,
                                 GOLDENTRACE_TENSOR_NO_VALUE | GOLDENTRACE_TENSOR_NO_STATS};
  const std::vector<float> kept(100, 1.0F);
  goldentrace_tensor tensor = tensor_of("floats", GOLDENTRACE_FLOAT32, sizes, nullptr);
  for (const std::uint32_t flag : flags) {
    tensor.flags = flag;
    tensor.data = flag == 0 ? kept.data() : numbers.data();
    ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  }
  tensor = tensor_of("ints", GOLDENTRACE_INT32, sizes, numbers.data());
  tensor.flags = GOLDENTRACE_TENSOR_NO_VALUE;
  ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  ASSERT_DONE(goldentrace_writer_close(writer.get()));

  const ReaderHandle reader = open_reader(path);
  EXPECT_EQ(next_record(reader)->sketch, nullptr) << "the bytes say more";
  const goldentrace_record* record = next_record(reader);
  EXPECT_EQ(record->value_size, GOLDENTRACE_NO_VALUE);
  EXPECT_NE(record->stats, nullptr);
  ASSERT_NE(record->sketch, nullptr);
  const std::int64_t count[] = {100};
  const std::int64_t stride[] = {1};
  const Digest digest = digest_tensor(
      {reinterpret_cast<const std::byte*>(numbers.data()), DType::kFloat32, count, stride},
      {.sketch = true});
  EXPECT_TRUE(std::equal(digest.sketch.begin(), digest.sketch.end(), record->sketch,
                         record->sketch + GOLDENTRACE_SKETCH_SUMS));
  EXPECT_EQ(next_record(reader)->sketch, nullptr) << "no stats, no sketch";
  EXPECT_EQ(next_record(reader)->sketch, nullptr) << "integers";
}

TEST(CapiWriter, EveryDtypeComesBack) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  std::vector<unsigned char> bytes(16 * 6);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i % 2);
  std::vector<std::string> names;
  const std::vector<std::int64_t> sizes = {3, 2};
  for (std::uint32_t dtype = 0; dtype < 64; ++dtype) {
    if (goldentrace_dtype_size(dtype) == 0) continue;
    names.emplace_back(goldentrace_dtype_name(dtype));
    const auto tensor = tensor_of(names.back().c_str(), dtype, sizes, bytes.data());
    ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  }
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  EXPECT_EQ(names.size(), 20u);
  EXPECT_STREQ(goldentrace_dtype_name(GOLDENTRACE_BFLOAT16), "bfloat16");
  EXPECT_STREQ(goldentrace_dtype_name(1000), "unknown");

  const ReaderHandle reader = open_reader(path);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const goldentrace_record* record = next_record(reader);
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(record->name, name);
    EXPECT_EQ(goldentrace_dtype_name(record->dtype), name);
    const std::size_t size = 6 * goldentrace_dtype_size(record->dtype);
    EXPECT_EQ(read_values<unsigned char>(reader, *record),
              std::vector<unsigned char>(bytes.begin(), bytes.begin() + static_cast<long>(size)));
  }
  EXPECT_EQ(next_record(reader), nullptr);
}

TEST(CapiWriter, StridesMayTransposeRepeatAndGoBackwards) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  const std::vector<std::int32_t> numbers = {0, 1, 2, 3, 4, 5};
  struct Case {
    const char* name;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    std::size_t first;
    std::vector<std::int32_t> want;
  };
  const Case cases[] = {
      {"dense", {2, 3}, {3, 1}, 0, {0, 1, 2, 3, 4, 5}},
      {"transposed", {3, 2}, {1, 3}, 0, {0, 3, 1, 4, 2, 5}},
      {"every second", {3}, {2}, 0, {0, 2, 4}},
      {"backwards", {3}, {-2}, 5, {5, 3, 1}},
      {"repeated", {2, 2}, {0, 1}, 4, {4, 5, 4, 5}},
      {"one", {1, 1}, {100, -100}, 2, {2}},
      {"scalar", {}, {}, 3, {3}},
      {"empty", {2, 0}, {7, 7}, 0, {}},
  };
  for (const Case& c : cases) {
    goldentrace_tensor tensor =
        tensor_of(c.name, GOLDENTRACE_INT32, c.sizes, numbers.data() + c.first);
    tensor.strides = c.strides.data();
    ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  }
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  const ReaderHandle reader = open_reader(path);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const goldentrace_record* record = next_record(reader);
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(std::vector<std::int64_t>(record->sizes, record->sizes + record->rank), c.sizes);
    EXPECT_EQ(read_values<std::int32_t>(reader, *record), c.want);
  }
}

TEST(CapiWriter, AValueOfSeveralPartsComesBackWhole) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  goldentrace_writer_options options = sample_options();
  options.compression = GOLDENTRACE_COMPRESS_NONE;
  options.max_queued_bytes = 1;  // every tensor passes alone
  const WriterHandle writer = open_writer(path, options);
  std::vector<std::uint32_t> numbers((std::size_t{65} << 20) / 4);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint32_t>(i);
  const std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(numbers.size())};
  const auto tensor = tensor_of("large", GOLDENTRACE_UINT32, sizes, numbers.data());
  ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));  // kept once
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  const ReaderHandle reader = open_reader(path);
  EXPECT_LT(goldentrace_reader_info(reader.get())->file_size, std::uint64_t{66} << 20);
  const goldentrace_record* record = next_record(reader);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(read_values<std::uint32_t>(reader, *record), numbers);
}

TEST(CapiWriter, TextOfARunComesBack) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  goldentrace_request request;
  goldentrace_request_init(&request);
  const std::int64_t prompt[] = {1, 2};
  const std::int64_t output[] = {30, 40};
  const std::int64_t stop[] = {99};
  const goldentrace_bytes pieces[] = {{"a\0b", 3}, {"", 0}};
  const goldentrace_setting sampling[] = {{"forced", "true", "request"}, {"top_k", "1", nullptr}};
  request.id = 5;
  request.prompt = {"Hi", 2};
  request.prompt_ids = prompt;
  request.prompt_count = 2;
  request.prompt_pieces = pieces;
  request.sampling = sampling;
  request.sampling_count = 2;
  request.stop_ids = stop;
  request.stop_count = 1;
  ASSERT_DONE(goldentrace_writer_request(writer.get(), &request));  // as the run begins
  request.output_ids = output;
  request.output_count = 2;
  request.output = {"so", 2};
  request.finish_reason = "length";
  ASSERT_DONE(goldentrace_writer_request(writer.get(), &request));  // as it ends

  goldentrace_result result;
  goldentrace_result_init(&result);
  const goldentrace_row rows[] = {{5, 0, 2, 0, 0}};
  const std::int64_t top_ids[] = {7, 30, 3};
  const float top_logits[] = {1.5f, 2.5f, 1.5f};
  const goldentrace_bytes top_pieces[] = {{"seven", 5}, {"thirty", 6}, {"three", 5}};
  result.rows = rows;
  result.rows_count = 1;
  result.chosen = 30;
  result.top_ids = top_ids;
  result.top_logits = top_logits;
  result.top_pieces = top_pieces;
  result.top_count = 3;
  result.logprob = -0.5;
  result.logprob_kind = GOLDENTRACE_LOGPROB_PROCESSED;
  ASSERT_DONE(goldentrace_writer_result(writer.get(), &result));
  ASSERT_DONE(goldentrace_writer_close(writer.get()));

  const ReaderHandle reader = open_reader(path);
  const goldentrace_request* read = nullptr;
  ASSERT_DONE(goldentrace_reader_request(reader.get(), 0, &read));
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(goldentrace_request_forced(read), 1);
  EXPECT_EQ(std::vector<std::int64_t>(read->output_ids, read->output_ids + read->output_count),
            (std::vector<std::int64_t>{30, 40}));
  EXPECT_EQ(std::string(read->prompt_pieces[0].data, read->prompt_pieces[0].size),
            std::string("a\0b", 3));
  EXPECT_EQ(read->output_pieces, nullptr);
  EXPECT_STREQ(read->finish_reason, "length");
  EXPECT_STREQ(read->sampling[1].origin, "default");
  ASSERT_DONE(goldentrace_reader_request(reader.get(), 1, &read));
  EXPECT_EQ(read, nullptr);
  const goldentrace_result* step = nullptr;
  ASSERT_DONE(goldentrace_reader_result(reader.get(), 0, &step));
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(std::vector<std::int64_t>(step->top_ids, step->top_ids + 3),
            (std::vector<std::int64_t>{30, 3, 7}));
  EXPECT_EQ(step->top_logits[0], 2.5f);
  EXPECT_EQ(std::string(step->top_pieces[1].data, step->top_pieces[1].size), "three");
  EXPECT_TRUE(std::isnan(step->gap_ulp));
  EXPECT_EQ(step->logprob_kind, GOLDENTRACE_LOGPROB_PROCESSED);
}

TEST(CapiWriter, ParametersComeFromDataOrAKnownHash) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  const std::vector<float> numbers = {1, 2, 3, 4};
  const std::int64_t sizes[] = {4};
  const char* const sources[] = {"model.norm.weight"};
  goldentrace_parameter parameter;
  goldentrace_parameter_init(&parameter);
  parameter.name = "norm";
  parameter.dtype = GOLDENTRACE_FLOAT32;
  parameter.rank = 1;
  parameter.sizes = sizes;
  parameter.data = numbers.data();
  std::uint64_t id = 0;
  ASSERT_DONE(goldentrace_writer_parameter(writer.get(), &parameter, &id));
  goldentrace_hash128 hash;
  ASSERT_DONE(goldentrace_hash_bytes(numbers.data(), 16, &hash));
  parameter.name = "norm2";
  parameter.data = nullptr;
  parameter.hash = &hash;
  parameter.recipe = GOLDENTRACE_RECIPE_SAME;
  parameter.sources = sources;
  parameter.sources_count = 1;
  ASSERT_DONE(goldentrace_writer_parameter(writer.get(), &parameter, nullptr));
  goldentrace_tensor tensor = tensor_of("y", GOLDENTRACE_FLOAT32, {}, numbers.data());
  tensor.inputs = &id;
  tensor.inputs_count = 1;
  ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  ASSERT_DONE(goldentrace_writer_close(writer.get()));

  const ReaderHandle reader = open_reader(path);
  const goldentrace_parameter_record* read = nullptr;
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_DONE(goldentrace_reader_parameter(reader.get(), i, &read));
    ASSERT_NE(read, nullptr);
    EXPECT_EQ(read->hash.low, hash.low);
    EXPECT_EQ(read->hash.high, hash.high);
    EXPECT_EQ(read->value_size, 16u);
    EXPECT_EQ(read->recipe, i == 0 ? GOLDENTRACE_RECIPE_VALUE : GOLDENTRACE_RECIPE_SAME);
    EXPECT_EQ(read->sources_count, i);
    EXPECT_EQ(read->sizes[0], 4);
  }
  EXPECT_STREQ(read->sources[0], "model.norm.weight");
  const goldentrace_record* record = next_record(reader);
  ASSERT_NE(record, nullptr);
  ASSERT_EQ(record->inputs_count, 1u);
  EXPECT_EQ(record->inputs[0], id);
  const auto trace = TraceReader::open(path);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ((*trace)->summary().counter("parameters_by_value"), 1u);
}

TEST(CapiWriter, WhatWasFlushedSurvivesAWriterThatIsNotClosed) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const std::vector<float> numbers = {1, 2};
  const std::vector<std::int64_t> sizes = {2};
  const auto tensor = tensor_of("x", GOLDENTRACE_FLOAT32, sizes, numbers.data());
  {
    const WriterHandle writer = open_writer(path);
    ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
    ASSERT_DONE(goldentrace_writer_flush(writer.get()));
    const ReaderHandle early = open_reader(path);
    EXPECT_EQ(goldentrace_reader_whole(early.get()), 0);
    ASSERT_NE(next_record(early), nullptr);
  }
  const ReaderHandle reader = open_reader(path);
  EXPECT_EQ(goldentrace_reader_whole(reader.get()), 0);
  const goldentrace_counter* counter = nullptr;
  ASSERT_DONE(goldentrace_reader_counter(reader.get(), 0, &counter));
  ASSERT_NE(counter, nullptr);
  EXPECT_STREQ(counter->name, "trace_cut");
  const goldentrace_record* record = next_record(reader);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(read_values<float>(reader, *record), numbers);
}

TEST(CapiWriter, ARunCutShortSaysSo) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  ASSERT_DONE(goldentrace_writer_cut_short(writer.get(), "the engine ran out of cache"));
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  const ReaderHandle reader = open_reader(path);
  EXPECT_EQ(goldentrace_reader_whole(reader.get()), 0);
  const goldentrace_counter* counter = nullptr;
  ASSERT_DONE(goldentrace_reader_counter(reader.get(), 0, &counter));
  ASSERT_NE(counter, nullptr);
  EXPECT_STREQ(counter->name, "run_cut_short");
  EXPECT_STREQ(counter->first, "the engine ran out of cache");
}

TEST(CapiWriter, AFullDiskLatchesAndCloseReportsIt) {
  const std::vector<float> numbers(1 << 20, 1.5f);
  const std::vector<std::int64_t> sizes = {1 << 20};
  goldentrace_writer_options options = sample_options();
  goldentrace_writer* opened = nullptr;
  options.compression = GOLDENTRACE_COMPRESS_NONE;
  if (goldentrace_writer_open("/dev/full", &options, &opened) != GOLDENTRACE_OK) {
    EXPECT_STRNE(goldentrace_message(), "");
    return;
  }
  const WriterHandle writer(opened);
  const auto tensor = tensor_of("x", GOLDENTRACE_FLOAT32, sizes, numbers.data());
  ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  EXPECT_EQ(goldentrace_writer_flush(writer.get()), GOLDENTRACE_IO);
  EXPECT_EQ(goldentrace_writer_tensor(writer.get(), &tensor, nullptr), GOLDENTRACE_IO);
  EXPECT_EQ(goldentrace_writer_close(writer.get()), GOLDENTRACE_IO);
  EXPECT_THAT(goldentrace_message(), HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace goldentrace
