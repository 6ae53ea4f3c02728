// Reads one trace. Opening costs the footer, the index and three small chunks; everything else is
// read when asked for, one chunk at a time. Every message names the file and the offset.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/event/dictionary.h"
#include "src/format/codec.h"

namespace goldentrace {

class TraceReader {
 public:
  // kNotFound, kIo, kCorrupt (not a trace, truncated, damaged) or kUnsupported (newer version).
  static Result<std::unique_ptr<TraceReader>> open(const std::string& path);
  static Result<std::unique_ptr<TraceReader>> open(std::unique_ptr<ByteSource> source);

  [[nodiscard]] const std::string& name() const { return source_->name(); }
  [[nodiscard]] std::uint64_t file_size() const { return source_->size(); }
  [[nodiscard]] const Header& header() const { return header_; }
  [[nodiscard]] const Summary& summary() const { return summary_; }
  [[nodiscard]] std::span<const ChunkEntry> chunks() const { return index_.chunks; }

  // Checks the stored bytes of every chunk against their checksums, at reading speed.
  Status check_bytes() const;

  // Raw bytes of chunk `i`, checked against its checksum and its content hash.
  Result<Bytes> read_chunk(std::size_t i) const;
  Result<std::vector<Parameter>> parameters() const;
  // All text chunks joined.
  Result<Text> text() const;
  // Timings of all calls, in order.
  Result<std::vector<Timing>> timings() const;

  [[nodiscard]] bool has_value(const Hash128& hash) const;
  // kNotFound when no bytes are kept under `hash`.
  Result<Bytes> value(const Hash128& hash) const;

 private:
  explicit TraceReader(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  Status open_index();
  Result<ChunkHeader> read_chunk_header(std::uint64_t offset) const;
  // Replaces `stored` by the chunk's stored bytes, checked against header, index and checksum.
  Status read_stored(const ChunkEntry& entry, std::uint32_t sequence, Bytes& stored) const;
  Result<Bytes> read_raw(const ChunkEntry& entry, std::uint32_t sequence) const;
  Result<Bytes> read_only_chunk(ChunkKind kind) const;
  // Status with the file's name and chunk `i`'s offset put before the message.
  Status at_chunk(std::size_t i, const Status& status) const;

  std::unique_ptr<ByteSource> source_;
  Index index_;
  Header header_;
  Summary summary_;
  // The values chunk decoded last: neighbouring small values share one.
  mutable std::optional<std::pair<std::uint32_t, Values>> values_cache_;

  friend class ProgramReader;
};

// Streams the program: one decoded chunk at a time plus the definitions so far.
//   while (true) { auto more = program.next(); if (!more.ok() || !*more) break; ...chunk()... }
class ProgramReader {
 public:
  // `reader` must outlive this.
  explicit ProgramReader(const TraceReader& reader) : reader_(reader) {}

  // Moves to the next program chunk; false after the last one.
  Result<bool> next();
  [[nodiscard]] const ProgramChunk& chunk() const { return chunk_; }
  [[nodiscard]] const Dictionary& dictionary() const { return dictionary_; }

 private:
  const TraceReader& reader_;
  std::size_t next_chunk_ = 0;
  ProgramChunk chunk_;
  Dictionary dictionary_;
};

}  // namespace goldentrace
