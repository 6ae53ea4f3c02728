// Writes one trace, chunk by chunk, in order. Owned and called by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/format/codec.h"
#include "src/format/compression.h"
#include "src/format/value_index.h"

namespace goldentrace {

struct WriterOptions {
  int zstd_level = 3;  // of all chunks but values
  ValueCompression values = ValueCompression::kFast;
  // A value of at least `alone` bytes has a chunk of its own, so that it is read without decoding
  // others; smaller ones share a chunk of about `gather` bytes.
  std::uint64_t alone = 32u << 10;
  std::uint64_t gather = 64u << 10;
  std::uint64_t max_part = kMaxValuePart;
};

// Everything handed over is in the file when write_program, write_parameters or write_text returns:
// a process that is killed loses only what it had not handed over. The first error latches:
// everything after it does nothing and returns it again, so callers may check close() alone.
class TraceWriter {
 public:
  // Writes the file header and the header chunk; `header`'s version fields are set here.
  static Result<std::unique_ptr<TraceWriter>> create(std::unique_ptr<ByteSink> sink, Header header,
                                                     WriterOptions options = {});

  // The program chunk, its timings, and before both every value handed over so far.
  Status write_program(const ProgramChunk& chunk);
  Status write_parameters(std::span<const Parameter> parameters);
  Status write_text(const Text& text);
  Status write_bands(const Bands& bands);
  // Keeps `bytes`, numbers of `item_size` bytes each, under `hash`; bytes already kept are not
  // written again.
  Status write_value(const Hash128& hash, std::span<const std::byte> bytes, std::size_t item_size);
  // A trace whose chunks are copied from another's, the header chunk first; `minor` is its version.
  static Result<std::unique_ptr<TraceWriter>> create_copy(std::unique_ptr<ByteSink> sink,
                                                          std::uint16_t minor);
  Status write_header(const Header& header);
  Status write_timing(const ProgramChunk& chunk);
  // A chunk as another file holds it, under its next sequence number. `entry` is its row of that
  // file's index; `parts` are what a values chunk holds.
  Status copy_chunk(const ChunkEntry& entry, std::uint8_t item_size,
                    std::span<const std::byte> stored, std::span<const ValuePart> parts);
  // Summary, index, footer. The file is whole only when this returns ok.
  Status close(const Summary& summary);
  // The same when the summary has been copied.
  Status close_copied();

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] std::uint64_t bytes_written() const { return offset_; }

 private:
  // Small values of one item size that wait for their chunk.
  struct Gathered {
    std::vector<ValuePart> parts;
    Bytes data;
  };

  TraceWriter(std::unique_ptr<ByteSink> sink, WriterOptions options)
      : sink_(std::move(sink)), options_(options) {}

  Status write_bytes(std::span<const std::byte> bytes);
  Status write_chunk(ChunkKind kind, const Bytes& raw, std::uint64_t first_call,
                     std::uint32_t calls);
  Status write_values(std::span<const ValuePart> parts, std::span<const std::byte> data,
                      std::size_t item_size);
  Status write_stored(ChunkEntry entry, Compressor::Stored stored);
  Status flush_gathered(std::size_t kind);
  Status flush_values();

  std::unique_ptr<ByteSink> sink_;
  WriterOptions options_;
  Status status_;
  std::uint64_t offset_ = 0;
  std::uint32_t sequence_ = 0;
  KeptSize kept_size_;
  Index index_;
  ValueIndex values_;
  std::set<Hash128> kept_;  // ordered: a file that is copied may hold hashes made to collide
  std::array<Gathered, 4> gathered_;  // items of 1, 2, 4 and 8 bytes
  Compressor compressor_;
  Bytes raw_;  // of the last values chunk; reused
};

}  // namespace goldentrace
