// Whatever a caller gets wrong is a status and a message, and the writer goes on as if the call had
// not been made.
#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "tests/src/capi/capi.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the helpers of capi.h

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

TEST(CapiArguments, ATensorThatMakesNoSenseIsRefused) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  const WriterHandle writer = open_writer(path);
  const std::vector<std::int64_t> two = {2};
  const float numbers[] = {1, 2};
  const std::uint64_t unknown[] = {1};
  const std::uint64_t zero[] = {0};
  const std::int64_t negative[] = {-1};
  const std::int64_t overflow[] = {std::int64_t{1} << 32, std::int64_t{1} << 32};
  const std::int64_t large[] = {kHuge};
  const std::int64_t large_but_empty[] = {kHuge, kHuge, 0};
  const std::int64_t nothing[] = {5, 0, 7};
  const std::int64_t far[] = {kHuge};
  const std::int64_t far_back[] = {kLowest};
  goldentrace_row one{};
  const auto set_row = [&](goldentrace_tensor& tensor, goldentrace_row row) {
    one = row;
    tensor.rows = &one;
    tensor.rows_count = 1;
  };
  const std::vector<goldentrace_row> many(1'000'000);
  const std::string endless(9 << 20, 'x');
  struct Case {
    const char* why;
    std::function<void(goldentrace_tensor&)> change;
    const char* message;
  };
  const Case cases[] = {
      {"no init", [](auto& t) { t.size = 0; }, "tensor.size is not set"},
      {"garbage size", [](auto& t) { t.size = ~std::size_t{0}; }, "tensor.size is not set"},
      {"no name", [](auto& t) { t.name = nullptr; }, "tensor.name is not given"},
      {"empty name", [](auto& t) { t.name = ""; }, "tensor.name is not given"},
      {"unknown dtype", [](auto& t) { t.dtype = 12; }, "dtype 12 is none"},
      {"dtype that is 8 bits only when cut", [](auto& t) { t.dtype = 0x106; }, "dtype 262 is none"},
      {"rank", [](auto& t) { t.rank = 65; }, "rank 65"},
      {"no sizes", [](auto& t) { t.sizes = nullptr; }, "sizes is NULL"},
      {"negative size", [&](auto& t) { t.sizes = negative; }, "a size is negative"},
      {"large size", [&](auto& t) { t.sizes = large; }, "more bytes than any tensor"},
      {"overflowing product",
       [&](auto& t) {
         t.sizes = overflow;
         t.rank = 2;
       },
       "more bytes than any tensor"},
      {"overflowing product of an empty tensor",
       [&](auto& t) {
         t.sizes = large_but_empty;
         t.rank = 3;
       },
       "more bytes than any tensor"},
      {"no data", [](auto& t) { t.data = nullptr; }, "data is NULL"},
      {"far stride", [&](auto& t) { t.strides = far; }, "further than any memory"},
      {"far negative stride", [&](auto& t) { t.strides = far_back; }, "further than any memory"},
      {"inputs without an array", [](auto& t) { t.inputs_count = 1; }, "inputs is NULL"},
      {"unknown input",
       [&](auto& t) {
         t.inputs = unknown;
         t.inputs_count = 1;
       },
       "input 1 is no tensor of this writer"},
      {"no input",
       [&](auto& t) {
         t.inputs = zero;
         t.inputs_count = 1;
       },
       "input 0 is no tensor"},
      {"too many inputs", [](auto& t) { t.inputs_count = 70000; }, "more inputs"},
      {"rows without an array", [](auto& t) { t.rows_count = 1; }, "rows is NULL"},
      {"a row before its text",
       [&](auto& t) {
         set_row(t, {0, 0, 1, 0, -1});
       },
       "position -1"},
      {"a row past every text",
       [&](auto& t) {
         set_row(t, {0, 0, 1, 0, std::numeric_limits<std::int64_t>::max()});
       },
       "row.position"},
      {"a row of a later version",
       [&](auto& t) {
         set_row(t, {0, 0, 1, 7, 0});
       },
       "row.reserved"},
      {"a million rows",
       [&](auto& t) {
         t.rows = many.data();
         t.rows_count = static_cast<std::uint32_t>(many.size());
       },
       "more rows"},
      {"a name of megabytes", [&](auto& t) { t.name = endless.c_str(); }, "too long"},
      {"flags of a later version", [](auto& t) { t.flags = 8; }, "tensor.flags 8"},
      {"unknown placement", [](auto& t) { t.placement.kind = 3; }, "placement.kind 3"},
      {"shard beyond its count",
       [](auto& t) {
         t.placement = {GOLDENTRACE_SHARD, 0, 2, 2};
       },
       "placement.index"},
      {"negative step", [](auto& t) { t.step = -2; }, "step -2 is none"},
      {"large step", [](auto& t) { t.step = std::int64_t{1} << 32; }, "step 4294967296 is none"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    goldentrace_tensor tensor = tensor_of("x", GOLDENTRACE_FLOAT32, two, numbers);
    c.change(tensor);
    std::uint64_t id = 99;
    EXPECT_EQ(goldentrace_writer_tensor(writer.get(), &tensor, &id), GOLDENTRACE_INVALID_ARGUMENT);
    EXPECT_THAT(goldentrace_message(), HasSubstr(c.message));
    EXPECT_EQ(id, 99u);
  }
  goldentrace_tensor empty = tensor_of("empty", GOLDENTRACE_FLOAT32, two, nullptr);
  empty.sizes = nothing;
  empty.rank = 3;
  EXPECT_DONE(goldentrace_writer_tensor(writer.get(), &empty, nullptr));
  const goldentrace_tensor good = tensor_of("good", GOLDENTRACE_FLOAT32, two, numbers);
  std::uint64_t id = 0;
  EXPECT_DONE(goldentrace_writer_tensor(writer.get(), &good, &id));
  EXPECT_EQ(id, 2u);
  EXPECT_DONE(goldentrace_writer_close(writer.get()));
  EXPECT_EQ(goldentrace_writer_tensor(writer.get(), &good, nullptr), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_writer_close(writer.get()), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_STREQ(goldentrace_message(), "the writer is closed");
  const ReaderHandle reader = open_reader(path);
  EXPECT_STREQ(next_record(reader)->name, "empty");
  EXPECT_STREQ(next_record(reader)->name, "good");
  EXPECT_EQ(next_record(reader), nullptr);
}

TEST(CapiArguments, AStructOfALaterHeaderIsTakenWhenItAsksForNothingNew) {
  struct Later {
    goldentrace_writer_options now;
    std::uint64_t option;
  };
  const TempFolder folder;
  Later later{sample_options(), 0};
  later.now.size = sizeof later;
  goldentrace_writer* writer = nullptr;
  EXPECT_DONE(goldentrace_writer_open(folder.file("t.fb").c_str(), &later.now, &writer));
  EXPECT_DONE(goldentrace_writer_close(writer));
  goldentrace_writer_destroy(writer);
  later.option = 1;
  EXPECT_EQ(goldentrace_writer_open(folder.file("u.fb").c_str(), &later.now, &writer),
            GOLDENTRACE_UNSUPPORTED);
  EXPECT_EQ(writer, nullptr);
}

TEST(CapiArguments, OptionsThatMakeNoSenseAreRefused) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  struct Case {
    const char* why;
    std::function<void(goldentrace_writer_options&)> change;
  };
  const goldentrace_pair half[] = {{"key", nullptr}};
  const Case cases[] = {
      {"no engine", [](auto& o) { o.engine = nullptr; }},
      {"unknown compression", [](auto& o) { o.compression = 3; }},
      {"rank beyond world", [](auto& o) { o.rank = 1; }},
      {"command without an array", [](auto& o) { o.command_count = 1; }},
      {"half a pair",
       [&](auto& o) {
         o.environment = half;
         o.environment_count = 1;
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    goldentrace_writer_options options = sample_options();
    c.change(options);
    goldentrace_writer* writer = nullptr;
    EXPECT_EQ(goldentrace_writer_open(path.c_str(), &options, &writer),
              GOLDENTRACE_INVALID_ARGUMENT);
    EXPECT_STRNE(goldentrace_message(), "");
  }
  const goldentrace_writer_options options = sample_options();
  goldentrace_writer* writer = nullptr;
  EXPECT_EQ(goldentrace_writer_open(folder.file("no/folder").c_str(), &options, &writer),
            GOLDENTRACE_NOT_FOUND);
  EXPECT_EQ(goldentrace_writer_open(nullptr, &options, &writer), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_writer_open(path.c_str(), nullptr, &writer), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_writer_open(path.c_str(), &options, nullptr), GOLDENTRACE_INVALID_ARGUMENT);
}

TEST(CapiArguments, TextThatMakesNoSenseIsRefused) {
  const TempFolder folder;
  const WriterHandle writer = open_writer(folder.file("t.fb"));
  goldentrace_request request;
  goldentrace_request_init(&request);
  request.output_count = 2;
  EXPECT_EQ(goldentrace_writer_request(writer.get(), &request), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_STREQ(goldentrace_message(), "output_ids is NULL");
  goldentrace_request_init(&request);
  request.prompt.size = 3;
  EXPECT_EQ(goldentrace_writer_request(writer.get(), &request), GOLDENTRACE_INVALID_ARGUMENT);
  const goldentrace_setting nameless[] = {{nullptr, "1", nullptr}};
  goldentrace_request_init(&request);
  request.sampling = nameless;
  request.sampling_count = 1;
  EXPECT_EQ(goldentrace_writer_request(writer.get(), &request), GOLDENTRACE_INVALID_ARGUMENT);

  goldentrace_result result;
  goldentrace_result_init(&result);
  const goldentrace_row rows[] = {{0, 0, 1, 0, 0}, {1, 1, 1, 0, 0}};
  result.rows = rows;
  result.rows_count = 2;
  EXPECT_EQ(goldentrace_writer_result(writer.get(), &result), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_THAT(goldentrace_message(), HasSubstr("one result a request"));
  goldentrace_result_init(&result);
  result.top_count = 1;
  EXPECT_EQ(goldentrace_writer_result(writer.get(), &result), GOLDENTRACE_INVALID_ARGUMENT);
  goldentrace_result_init(&result);
  result.logprob_kind = 2;
  EXPECT_EQ(goldentrace_writer_result(writer.get(), &result), GOLDENTRACE_INVALID_ARGUMENT);

  const float numbers[] = {1, 2};
  goldentrace_logits logits;
  const auto refused = [&](const std::function<void()>& change) {
    goldentrace_logits_init(&logits);
    logits.data = numbers;
    logits.count = 2;
    logits.dtype = GOLDENTRACE_FLOAT32;
    change();
    return goldentrace_writer_logits(writer.get(), &logits) == GOLDENTRACE_INVALID_ARGUMENT;
  };
  EXPECT_TRUE(refused([&] { logits.count = 0; }));
  EXPECT_TRUE(refused([&] { logits.count = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refused([&] { logits.chosen = 2; }));
  EXPECT_TRUE(refused([&] { logits.dtype = GOLDENTRACE_INT32; }));
  EXPECT_TRUE(refused([&] { logits.data = nullptr; }));
  EXPECT_FALSE(refused([] {}));
  EXPECT_DONE(goldentrace_writer_close(writer.get()));
}

TEST(CapiArguments, AParameterThatMakesNoSenseIsRefused) {
  const TempFolder folder;
  const WriterHandle writer = open_writer(folder.file("t.fb"));
  const float numbers[] = {1, 2};
  const std::int64_t sizes[] = {2};
  const goldentrace_hash128 hash = {1, 2};
  const char* const sources[] = {"w", nullptr};
  goldentrace_parameter parameter;
  const auto refused = [&](const std::function<void()>& change) {
    goldentrace_parameter_init(&parameter);
    parameter.name = "w";
    parameter.dtype = GOLDENTRACE_FLOAT32;
    parameter.rank = 1;
    parameter.sizes = sizes;
    parameter.data = numbers;
    change();
    return goldentrace_writer_parameter(writer.get(), &parameter, nullptr) ==
           GOLDENTRACE_INVALID_ARGUMENT;
  };
  EXPECT_TRUE(refused([&] { parameter.name = nullptr; }));
  EXPECT_TRUE(refused([&] { parameter.kind = 2; }));
  EXPECT_TRUE(refused([&] { parameter.hash = &hash; }));
  EXPECT_TRUE(refused([&] { parameter.data = nullptr; }));
  EXPECT_TRUE(refused([&] { parameter.recipe = GOLDENTRACE_RECIPE_COMPUTED; }));
  EXPECT_TRUE(refused([&] { parameter.recipe = GOLDENTRACE_RECIPE_SAME; }));
  EXPECT_TRUE(refused([&] {
    parameter.recipe = GOLDENTRACE_RECIPE_STACK;
    parameter.sources = sources;
    parameter.sources_count = 2;
  }));
  EXPECT_FALSE(refused([] {}));
  EXPECT_DONE(goldentrace_writer_close(writer.get()));
}

TEST(CapiArguments, NullHandlesAreRefused) {
  EXPECT_EQ(goldentrace_writer_close(nullptr), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_writer_tensor(nullptr, nullptr, nullptr), GOLDENTRACE_INVALID_ARGUMENT);
  const TempFolder folder;
  const WriterHandle writer = open_writer(folder.file("t.fb"));
  EXPECT_EQ(goldentrace_writer_tensor(writer.get(), nullptr, nullptr),
            GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_writer_request(writer.get(), nullptr), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_writer_result(writer.get(), nullptr), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_writer_logits(writer.get(), nullptr), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_writer_parameter(writer.get(), nullptr, nullptr),
            GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_DONE(goldentrace_writer_cut_short(writer.get(), nullptr));
  EXPECT_DONE(goldentrace_writer_close(writer.get()));
  goldentrace_writer_destroy(nullptr);
  goldentrace_reader_destroy(nullptr);
  EXPECT_EQ(goldentrace_reader_info(nullptr), nullptr);
  EXPECT_EQ(goldentrace_reader_whole(nullptr), 0);
  EXPECT_EQ(goldentrace_request_forced(nullptr), 0);
  const goldentrace_record* record = nullptr;
  EXPECT_EQ(goldentrace_reader_next(nullptr, &record), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_reader_next(nullptr, nullptr), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_reader_rewind(nullptr), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_reader_value(nullptr, nullptr, nullptr, 0), GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_EQ(goldentrace_hash_bytes(nullptr, 1, nullptr), GOLDENTRACE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace goldentrace
