// The one thread that encodes, compresses and writes. Memory is bounded: push() blocks when the
// queue is full, because a program with a dropped call is not a program. No Torch here.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/format/trace_writer.h"

namespace goldentrace {

class WriterThread {
 public:
  struct Value {
    Hash128 hash;
    std::vector<std::byte> bytes;
    std::size_t item_size = 1;
  };
  using Item = std::variant<ProgramChunk, Value, std::vector<Parameter>, Text>;

  explicit WriterThread(std::unique_ptr<TraceWriter> writer);
  // Joins without closing the file, which then has no footer.
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // In order of pushing. `bytes` is the item's rough size, for the bound. After a write error
  // items are taken and thrown away: the model goes on, close() tells.
  void push(Item item, std::uint64_t bytes);
  // Writes what is queued, then summary, index and footer. The first error of all.
  Status close(const Summary& summary);

 private:
  void run();
  void drain_and_join();

  std::unique_ptr<TraceWriter> writer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Item, std::uint64_t>> queue_;
  std::uint64_t queued_bytes_ = 0;
  bool stopping_ = false;
  Status status_;  // an exception on the writer's thread: out of memory
  std::thread thread_;
};

}  // namespace goldentrace
