// The one thread that encodes, compresses and writes. Memory is bounded: push() blocks when the
// queue is full, because a program with a dropped call is not a program. No Torch here.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/base/work_queue.h"
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

  // Destruction without close() leaves a file without footer.
  explicit WriterThread(std::unique_ptr<TraceWriter> writer);

  // In order of pushing. `bytes` is the item's rough size, for the bound. After a write error
  // items are taken and thrown away: the model goes on, close() tells.
  void push(Item item, std::uint64_t bytes);
  // Writes what is queued, then summary, index and footer. The first error of all.
  Status close(const Summary& summary);

 private:
  std::unique_ptr<TraceWriter> writer_;
  WorkQueue<Item> queue_;
};

}  // namespace goldentrace
