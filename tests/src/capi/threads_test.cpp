// One writer, many threads.
#include <gmock/gmock.h>

#include <map>
#include <thread>

#include "tests/src/capi/capi.h"

namespace goldentrace {
namespace {

using namespace testing;  // NOLINT: the helpers of capi.h

TEST(CapiThreads, EveryThreadsTensorsComeBackInItsOrder) {
  constexpr int kThreads = 8;
  constexpr int kTensors = 200;
  const TempFolder folder;
  const std::string path = folder.file("t.fb");
  goldentrace_writer_options options = sample_options();
  options.max_queued_bytes = 64 << 10;
  const WriterHandle writer = open_writer(path, options);
  const auto work = [&](int thread) {
    const std::string name = "thread" + std::to_string(thread);
    const std::vector<std::int64_t> sizes = {64};
    std::uint64_t last = 0;
    for (int i = 0; i < kTensors; ++i) {
      const std::vector<std::int32_t> numbers(64, thread * 1000 + i);
      goldentrace_tensor tensor = tensor_of(name.c_str(), GOLDENTRACE_INT32, sizes, numbers.data());
      tensor.step = i;
      tensor.inputs = &last;
      tensor.inputs_count = i == 0 ? 0 : 1;
      EXPECT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, &last));
      goldentrace_result result;
      goldentrace_result_init(&result);
      result.step = i;
      result.chosen = thread;
      EXPECT_DONE(goldentrace_writer_result(writer.get(), &result));
      if (i % 50 == 0) {
        EXPECT_DONE(goldentrace_writer_flush(writer.get()));
      }
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  ASSERT_DONE(goldentrace_writer_close(writer.get()));

  const ReaderHandle reader = open_reader(path);
  std::map<std::string, std::pair<int, std::uint64_t>> seen;  // how many, and the last one's id
  while (const goldentrace_record* record = next_record(reader)) {
    auto& [count, id] = seen[record->name];
    EXPECT_EQ(record->step, static_cast<std::uint32_t>(count));
    ASSERT_EQ(record->inputs_count, count == 0 ? 0u : 1u);
    if (count > 0) {
      EXPECT_EQ(record->inputs[0], id);
    }
    const int thread = record->name[6] - '0';
    EXPECT_EQ(read_values<std::int32_t>(reader, *record)[63], thread * 1000 + count);
    id = record->id;
    ++count;
  }
  EXPECT_EQ(seen.size(), std::size_t{kThreads});
  for (const auto& [name, entry] : seen) EXPECT_EQ(entry.first, kTensors) << name;
}

TEST(CapiThreads, EachThreadHasItsOwnMessage) {
  EXPECT_EQ(goldentrace_writer_step(nullptr, 0), GOLDENTRACE_INVALID_ARGUMENT);
  std::thread([] { EXPECT_STREQ(goldentrace_message(), ""); }).join();
  EXPECT_STREQ(goldentrace_message(), "writer is NULL");
  goldentrace_hash128 hash;
  EXPECT_DONE(goldentrace_hash_bytes(nullptr, 0, &hash));
  EXPECT_STREQ(goldentrace_message(), "");
}

}  // namespace
}  // namespace goldentrace
