// The one thread that encodes, compresses and writes. Memory is bounded: push() blocks when
// kMaxQueuedBytes wait, because a program with a dropped call is not a program. Waits for devices.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "recorder/handover.h"
#include "recorder/pending.h"
#include "recorder/value_buffer.h"
#include "src/base/status.h"
#include "src/format/trace_writer.h"

namespace goldentrace {

inline constexpr std::uint64_t kMaxQueuedBytes = 128u << 20;

class WriterThread {
 public:
  struct Value {
    Hash128 hash;
    ValueBuffer bytes;
    std::size_t item_size = 1;
  };
  // A chunk, and what of it is not known yet.
  struct Program {
    std::unique_ptr<ProgramChunk> chunk;
    std::vector<PendingDigest> pending;
  };
  using Item = std::variant<Program, Value, std::vector<Parameter>, Text>;

  explicit WriterThread(std::unique_ptr<TraceWriter> writer);
  ~WriterThread();  // without close() the file has no footer
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // In order of pushing; one thread at a time. `bytes` is the item's rough size, for the bound.
  // After a write error items are taken and thrown away: the model goes on, close() tells.
  void push(Item item, std::uint64_t bytes) { queue_.bring(std::move(item), bytes); }
  // Memory for values.
  ValueBuffers& buffers() { return buffers_; }
  // A chunk that was written, with its memory; a new one when none is there.
  std::unique_ptr<ProgramChunk> spare();
  // Writes what is queued, then summary, index and footer. The first error of all.
  Status close(const Summary& summary);

 private:
  void run();
  Status write(Item& item);
  Status write(Program& program);
  void give_back(std::unique_ptr<ProgramChunk> chunk);

  std::unique_ptr<TraceWriter> writer_;
  Handover<Item> queue_{kMaxQueuedBytes};
  Status status_;  // of the thread, until it is joined
  ValueBuffers buffers_;
  // Written chunks: never more than wait to be written.
  std::mutex spares_mutex_;
  std::vector<std::unique_ptr<ProgramChunk>> spares_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace goldentrace
