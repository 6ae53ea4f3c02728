// Every allocation fails once, on every thread: the C interface answers with a status and a message
// and leaks nothing. An executable of its own, because it replaces operator new.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/src/capi/capi.h"

namespace {

// Allocations until one fails; negative: none does.
std::atomic<long> allocations_left = -1;

bool fails_now() {
  return allocations_left.load(std::memory_order_relaxed) >= 0 && allocations_left-- == 0;
}

}  // namespace

void* operator new(std::size_t size) {
  void* memory = fails_now() ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace goldentrace {
namespace {

using namespace testing;  // NOLINT: the helpers of capi.h

// Everything once; the first failure ends it.
goldentrace_status write_all(const char* path) {
  const goldentrace_writer_options options = sample_options();
  goldentrace_writer* opened = nullptr;
  if (const auto status = goldentrace_writer_open(path, &options, &opened)) return status;
  const WriterHandle writer(opened);
  static const std::vector<float> numbers = {1, 2, 3, 4};
  static const std::vector<std::int64_t> sizes = {2, 2};
  static const std::int64_t strides[] = {1, 2};
  static const goldentrace_row row = {0, 0, 2, 0, 0};
  goldentrace_tensor tensor =
      tensor_of("a tensor with a name of some length", GOLDENTRACE_FLOAT32, sizes, numbers.data());
  tensor.strides = strides;
  tensor.layout = "a layout that is described in some length";
  tensor.rows = &row;
  tensor.rows_count = 1;
  std::uint64_t id = 0;
  if (const auto status = goldentrace_writer_tensor(opened, &tensor, &id)) return status;
  tensor.inputs = &id;
  tensor.inputs_count = 1;
  if (const auto status = goldentrace_writer_tensor(opened, &tensor, nullptr)) return status;
  goldentrace_logits logits;
  goldentrace_logits_init(&logits);
  logits.data = numbers.data();
  logits.count = 4;
  logits.dtype = GOLDENTRACE_FLOAT32;
  if (const auto status = goldentrace_writer_logits(opened, &logits)) return status;
  goldentrace_request request;
  goldentrace_request_init(&request);
  request.prompt = {"a prompt that is longer than a small string", 43};
  if (const auto status = goldentrace_writer_request(opened, &request)) return status;
  return goldentrace_writer_close(opened);
}

goldentrace_status read_all(const char* path) {
  goldentrace_reader* opened = nullptr;
  if (const auto status = goldentrace_reader_open(path, &opened)) return status;
  const ReaderHandle reader(opened);
  const goldentrace_record* record = nullptr;
  do {
    if (const auto status = goldentrace_reader_next(opened, &record)) return status;
  } while (record != nullptr);
  goldentrace_query query;
  goldentrace_query_init(&query);
  query.name = "a tensor with a name of some length";
  if (const auto status = goldentrace_reader_find(opened, &query, &record)) return status;
  float values[4];
  if (const auto status = goldentrace_reader_value(opened, record->hash, values, sizeof values)) {
    return status;
  }
  const goldentrace_request* request = nullptr;
  if (const auto status = goldentrace_reader_request(opened, 0, &request)) return status;
  const goldentrace_parameter_record* parameter = nullptr;
  return goldentrace_reader_parameter(opened, 0, &parameter);
}

// Runs `work` with the first, the second, ... allocation failing, until none does.
template <typename Work>
void fail_each_allocation(Work work) {
  int failures = 0;
  for (long n = 0;; ++n) {
    ASSERT_LT(n, 100000);
    allocations_left = n;
    const goldentrace_status status = work();
    const bool failed = allocations_left < 0;
    allocations_left = -1;
    if (status != GOLDENTRACE_OK) {
      EXPECT_EQ(status, GOLDENTRACE_INTERNAL) << goldentrace_message();
      EXPECT_STRNE(goldentrace_message(), "");
      ++failures;
    }
    if (!failed) break;
  }
  EXPECT_GT(failures, 20);
}

TEST(CapiOutOfMemory, WritingAnswersWithAStatus) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  fail_each_allocation([&] { return write_all(path.c_str()); });
  EXPECT_DONE(read_all(path.c_str()));  // the last one went through
}

TEST(CapiOutOfMemory, ReadingAnswersWithAStatus) {
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  ASSERT_DONE(write_all(path.c_str()));
  fail_each_allocation([&] { return read_all(path.c_str()); });
}

}  // namespace
}  // namespace goldentrace
