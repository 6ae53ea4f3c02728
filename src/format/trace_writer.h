// Writes one trace, chunk by chunk, in order. Owned and called by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/format/codec.h"

namespace goldentrace {

struct WriterOptions {
  int zstd_level = 3;
  // Small values are gathered into one chunk up to this many bytes.
  std::uint64_t gather_values = 1u << 20;
};

// The first error latches: everything after it does nothing and returns it again, so callers may
// check close() alone.
class TraceWriter {
 public:
  // Writes the file header and the header chunk; `header`'s version fields are set here.
  static Result<std::unique_ptr<TraceWriter>> create(std::unique_ptr<ByteSink> sink, Header header,
                                                     WriterOptions options = {});

  // The program chunk, its timings, and before both every value handed over so far.
  Status write_program(const ProgramChunk& chunk);
  Status write_parameters(std::span<const Parameter> parameters);
  Status write_text(const Text& text);
  // Keeps `bytes` under `hash`; bytes already kept are not written again.
  Status write_value(const Hash128& hash, std::span<const std::byte> bytes);
  // Summary, index, footer. The file is whole only when this returns ok.
  Status close(const Summary& summary);

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] std::uint64_t bytes_written() const { return offset_; }

 private:
  TraceWriter(std::unique_ptr<ByteSink> sink, WriterOptions options)
      : sink_(std::move(sink)), options_(options) {}

  Status write_bytes(std::span<const std::byte> bytes);
  Status write_chunk(ChunkKind kind, const Bytes& raw, std::uint64_t first_call,
                     std::uint32_t calls);
  Status flush_values();

  struct HashOfHash {
    std::size_t operator()(const Hash128& hash) const { return hash.low; }
  };

  std::unique_ptr<ByteSink> sink_;
  WriterOptions options_;
  Status status_;
  std::uint64_t offset_ = 0;
  std::uint32_t sequence_ = 0;
  Index index_;
  std::unordered_set<Hash128, HashOfHash> kept_;
  std::vector<ValuePart> pending_parts_;
  Bytes pending_data_;
  Bytes compressed_;  // reused
};

}  // namespace goldentrace
