// Traces made in memory, and one function that reads everything of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/event/program.h"
#include "src/event/run.h"
#include "src/format/codec.h"
#include "src/format/container.h"

namespace goldentrace::testing {

Bytes to_bytes(std::string_view text);

// A chunk that uses every kind of node and every flag: 7 definitions tables, 3 calls, 2 externals.
// Without timings it equals what decode_program gives back.
ProgramChunk rich_chunk();
// A chunk that follows `base` and adds one call; it uses tensors of rich_chunk.
ProgramChunk next_chunk(const ProgramBase& base);
Header sample_header();
std::vector<Parameter> sample_parameters();
Text sample_text();
Summary sample_summary(std::uint64_t calls);

// A whole trace of rich_chunk, then `more_chunks` times next_chunk, with parameters, text and
// values.
Bytes make_trace(int more_chunks = 1);

// What came of reading a trace to its last byte.
struct ReadOutcome {
  Status status;            // the first fault met
  std::uint64_t calls = 0;  // read before it
  std::size_t values = 0;
  bool cut = false;  // the file has no footer
};
ReadOutcome read_all(const Bytes& file);

// Files that TraceWriter would not write. `finish` appends index and footer.
class FileBuilder {
 public:
  explicit FileBuilder(std::uint16_t minor = kFormatMinor);
  // Appends a chunk stored as it is, and its entry in the index.
  void add(ChunkKind kind, const Bytes& raw, std::uint64_t first_call = 0, std::uint32_t calls = 0,
           Codec codec = Codec::kNone);
  // The same of bytes that are stored in some way already.
  void add_stored(ChunkKind kind, Codec codec, std::uint8_t item_size, const Bytes& stored,
                  std::uint64_t raw_size);
  Index& index() { return index_; }
  Bytes finish();
  // What finish() makes of the encoded index.
  std::function<Bytes(const Bytes&)> pad_index = [](const Bytes& raw) { return raw; };

 private:
  void add_bytes(const ChunkHeader& header, const Bytes& stored);
  Bytes file_;
  Index index_;
  std::uint32_t sequence_ = 0;
};

}  // namespace goldentrace::testing
