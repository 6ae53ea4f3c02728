// Reads one trace. Opening costs the footer, the index and two small chunks; everything else is
// read when asked for, one chunk at a time. A file without footer, of a recording that was cut off,
// is read through when it is opened; what it holds up to the first damage is there. Every message
// names the file and the offset.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/event/dictionary.h"
#include "src/format/codec.h"
#include "src/format/compression.h"
#include "src/format/scan.h"

namespace goldentrace {

class TraceReader {
 public:
  // kNotFound, kIo, kCorrupt (not a trace, truncated, damaged) or kUnsupported (newer version).
  static Result<std::unique_ptr<TraceReader>> open(const std::string& path);
  static Result<std::unique_ptr<TraceReader>> open(std::unique_ptr<ByteSource> source);

  [[nodiscard]] const std::string& name() const { return source_->name(); }
  [[nodiscard]] std::uint64_t file_size() const { return source_->size(); }
  [[nodiscard]] const Header& header() const { return header_; }
  // Of a file without footer: the counters that it has, and `trace_cut`.
  [[nodiscard]] const Summary& summary() const { return summary_; }
  [[nodiscard]] std::span<const ChunkEntry> chunks() const { return index_.chunks; }
  // Where values are, sorted by hash, then offset.
  [[nodiscard]] std::span<const ValueEntry> values() const { return index_.values; }

  // Where the readable part of a file without footer ends; none when the file is whole.
  [[nodiscard]] std::optional<std::uint64_t> cut_at() const { return cut_at_; }

  // Checks the stored bytes of every chunk against their checksums, at reading speed; those of
  // chunks that have been read were checked then.
  Status check_bytes() const;

  // Chunk `i` as it is stored, checked against its checksum, its index entry and its number. The
  // index chunk is the one after the last, where there is one.
  Result<FoundChunk> read_stored(std::size_t i) const;
  // Raw bytes of chunk `i`, checked against its content hash too.
  Result<Bytes> read_chunk(std::size_t i) const;
  // `status` with the file's name and chunk `i`'s offset put before its message.
  [[nodiscard]] Status at_chunk(std::size_t i, const Status& status) const;

  Result<std::vector<Parameter>> parameters() const;
  // All text chunks joined.
  Result<Text> text() const;
  // Chunk `i`, a bands chunk.
  Result<Bands> bands_of(std::size_t i) const;
  // Timings of the calls of chunk `i`, a timing chunk, in order.
  Result<std::vector<Timing>> timings_of(std::size_t i) const;
  // Of all calls.
  Result<std::vector<Timing>> timings() const;

  [[nodiscard]] bool has_value(const Hash128& hash) const { return value_size(hash).has_value(); }
  // In bytes, by the index alone.
  [[nodiscard]] std::optional<std::uint64_t> value_size(const Hash128& hash) const;
  // kNotFound when no bytes are kept under `hash`.
  Result<Bytes> value(const Hash128& hash) const;
  // The bytes where this reader has them, proven to have this hash; until it is next asked for a
  // value.
  Result<std::span<const std::byte>> view_value(const Hash128& hash) const;
  // Into memory of the caller's, value_size(hash) bytes. The bytes are proven to have this hash.
  Status read_value(const Hash128& hash, std::span<std::byte> out) const;
  // Hands the value's bytes to `take` part by part, so that memory is that of one part. The first
  // status that is not ok ends it and is returned; kCorrupt may come after the last part, when the
  // bytes prove not to have this hash.
  using TakeBytes = std::function<Status(std::span<const std::byte>)>;
  Status visit_value(const Hash128& hash, const TakeBytes& take) const;

 private:
  explicit TraceReader(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  Status open_footer();
  Status open_index(std::uint64_t index_offset);
  Status check_index(std::uint64_t index_offset, std::uint32_t sequence) const;
  Status open_cut();
  Status open_header_and_summary();
  [[nodiscard]] std::span<const ValueEntry> parts_of(const Hash128& hash) const;
  Status read_stored(std::size_t i, FoundChunk& found) const;
  Status load_values(std::uint32_t chunk) const;
  Result<std::span<const std::byte>> load_part(const ValueEntry& entry, std::uint64_t done,
                                               std::uint64_t size) const;
  [[nodiscard]] Status wrong_hash(const Hash128& hash) const;

  std::unique_ptr<ByteSource> source_;
  Index index_;
  ChunkEntry index_entry_;  // of the index chunk itself
  std::optional<std::uint64_t> cut_at_;
  Header header_;
  Summary summary_;
  mutable std::vector<bool> checked_;  // chunks that match their checksums
  // The values chunk decoded last: neighbouring small values share one.
  struct LoadedPart : ValuePart {
    std::uint64_t at = 0;  // in `data`
  };
  struct LoadedValues {
    std::optional<std::uint32_t> chunk;
    FoundChunk found;
    Bytes raw;
    std::span<const std::byte> data;  // into raw
    std::vector<LoadedPart> parts;    // by hash, offset and length
    Bytes joined;                     // a value of several parts
  };
  mutable LoadedValues loaded_;
  mutable Decompressor decompressor_;

  friend class ProgramReader;
};

// Streams the bands, write by write in the program's order.
class BandReader {
 public:
  // `reader` must outlive this.
  explicit BandReader(const TraceReader& reader) : reader_(reader) {}

  struct Band {
    float typical = std::numeric_limits<float>::quiet_NaN();  // see Bands
    float largest = std::numeric_limits<float>::quiet_NaN();
  };
  // Of the next write, which call `call` makes. To be asked for every write, in order.
  Result<Band> next(std::uint64_t call);

 private:
  Status load();

  const TraceReader& reader_;
  std::size_t next_chunk_ = 0;
  std::optional<std::uint64_t> first_;  // call of the last chunk that was loaded
  bool loaded_ = false;                 // ahead_ is the chunk that follows
  Bands ahead_;
  Bands current_;
  std::size_t at_ = 0;  // in current_
};

// Streams the program: one decoded chunk at a time plus the definitions so far.
//   while (true) { auto more = program.next(); if (!more.ok() || !*more) break; ...chunk()... }
class ProgramReader {
 public:
  // `reader` must outlive this.
  explicit ProgramReader(const TraceReader& reader) : reader_(reader) {}

  // Moves to the next program chunk; false after the last one. After a failure, that one again.
  Result<bool> next();
  [[nodiscard]] const ProgramChunk& chunk() const { return chunk_; }
  [[nodiscard]] const Dictionary& dictionary() const { return dictionary_; }

 private:
  Result<bool> read_next();

  const TraceReader& reader_;
  Status failed_;
  std::size_t next_chunk_ = 0;
  ProgramChunk chunk_;
  Dictionary dictionary_;
};

}  // namespace goldentrace
