#include "src/format/trace_writer.h"

#include <algorithm>
#include <utility>

namespace goldentrace {
namespace {

// Planes are those of the numbers inside: a complex number is two.
std::size_t gathered_kind(std::size_t item_size) {
  if (item_size <= 1) return 0;
  if (item_size <= 2) return 1;
  return item_size <= 4 ? 2 : 3;
}

}  // namespace

Result<std::unique_ptr<TraceWriter>> TraceWriter::create(std::unique_ptr<ByteSink> sink,
                                                         Header header, WriterOptions options) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(sink), options));
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  GOLDENTRACE_RETURN_IF_ERROR(writer->write_bytes(encode_file_header(kFormatMinor)));
  GOLDENTRACE_RETURN_IF_ERROR(writer->write_header(header));
  return writer;
}

Result<std::unique_ptr<TraceWriter>> TraceWriter::create_copy(std::unique_ptr<ByteSink> sink,
                                                              std::uint16_t minor) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(sink), {}));
  GOLDENTRACE_RETURN_IF_ERROR(writer->write_bytes(encode_file_header(minor)));
  return writer;
}

Status TraceWriter::write_header(const Header& header) {
  return write_chunk(ChunkKind::kHeader, encode_header(header), 0, 0);
}

Status TraceWriter::write_program(const ProgramChunk& chunk) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_values());
  const auto calls = static_cast<std::uint32_t>(chunk.calls.size());
  GOLDENTRACE_RETURN_IF_ERROR(
      write_chunk(ChunkKind::kProgram, encode_program(chunk), chunk.base.calls, calls));
  return chunk.timings.empty() ? Status() : write_timing(chunk);
}

Status TraceWriter::write_timing(const ProgramChunk& chunk) {
  return write_chunk(ChunkKind::kTiming, encode_timing(chunk), chunk.base.calls,
                     static_cast<std::uint32_t>(chunk.timings.size()));
}

Status TraceWriter::write_parameters(std::span<const Parameter> parameters) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_values());
  return write_chunk(ChunkKind::kParameters, encode_parameters(parameters), 0, 0);
}

Status TraceWriter::write_text(const Text& text) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_values());
  return write_chunk(ChunkKind::kText, encode_text(text), 0, 0);
}

Status TraceWriter::write_bands(const Bands& bands) {
  return write_chunk(ChunkKind::kBands, encode_bands(bands), 0, 0);
}

Status TraceWriter::write_value(const Hash128& hash, std::span<const std::byte> bytes,
                                std::size_t item_size) {
  if (!status_.ok()) return status_;
  if (!kept_.insert(hash).second) return {};
  const std::size_t kind = gathered_kind(item_size);
  if (bytes.size() < options_.alone || bytes.empty()) {
    Gathered& gathered = gathered_[kind];
    gathered.parts.push_back({hash, bytes.size(), 0, bytes.size()});
    gathered.data.insert(gathered.data.end(), bytes.begin(), bytes.end());
    return gathered.data.size() < options_.gather ? Status() : flush_gathered(kind);
  }
  for (std::uint64_t offset = 0; offset < bytes.size(); offset += options_.max_part) {
    const std::uint64_t length = std::min(bytes.size() - offset, options_.max_part);
    const ValuePart part{hash, bytes.size(), offset, length};
    GOLDENTRACE_RETURN_IF_ERROR(
        write_values({&part, 1}, bytes.subspan(offset, length), std::size_t{1} << kind));
  }
  return {};
}

Status TraceWriter::flush_gathered(std::size_t kind) {
  Gathered& gathered = gathered_[kind];
  if (gathered.parts.empty()) return status_;
  const Status status = write_values(gathered.parts, gathered.data, std::size_t{1} << kind);
  gathered.parts.clear();
  gathered.data.clear();
  return status;
}

Status TraceWriter::flush_values() {
  for (std::size_t kind = 0; kind < gathered_.size(); ++kind) {
    GOLDENTRACE_RETURN_IF_ERROR(flush_gathered(kind));
  }
  return status_;
}

Status TraceWriter::close(const Summary& summary) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_values());
  GOLDENTRACE_RETURN_IF_ERROR(write_chunk(ChunkKind::kSummary, encode_summary(summary), 0, 0));
  return close_copied();
}

Status TraceWriter::close_copied() {
  GOLDENTRACE_RETURN_IF_ERROR(status_);
  index_.values = values_.finish();
  const std::uint64_t index_offset = offset_;
  GOLDENTRACE_RETURN_IF_ERROR(write_chunk(ChunkKind::kIndex, encode_index(index_), 0, 0));
  GOLDENTRACE_RETURN_IF_ERROR(write_bytes(encode_footer(index_offset)));
  status_ = sink_->close();
  return status_;
}

Status TraceWriter::write_bytes(std::span<const std::byte> bytes) {
  if (!status_.ok()) return status_;
  status_ = sink_->write(bytes);
  offset_ += bytes.size();
  return status_;
}

Status TraceWriter::write_chunk(ChunkKind kind, const Bytes& raw, std::uint64_t first_call,
                                std::uint32_t calls) {
  if (!status_.ok()) return status_;
  if (raw.size() > max_chunk_size(kind)) {
    status_ = {Code::kInvalidArgument, sink_->name() + ": a chunk of " +
                                           std::to_string(raw.size()) +
                                           " bytes is larger than the format allows"};
    return status_;
  }
  const auto stored = compressor_.zstd(raw, options_.zstd_level);
  if (!stored.ok()) return status_ = stored.status();
  ChunkEntry entry;
  entry.kind = kind;
  entry.raw_size = raw.size();
  entry.content = content_hash(raw);
  entry.first_call = first_call;
  entry.calls = calls;
  return write_stored(entry, *stored);
}

Status TraceWriter::write_values(std::span<const ValuePart> parts, std::span<const std::byte> data,
                                 std::size_t item_size) {
  if (!status_.ok()) return status_;
  for (const ValuePart& part : parts) values_.add(part, index_.chunks.size());
  raw_ = encode_values(parts, data, std::move(raw_));
  const auto stored = compressor_.values(raw_, item_size, options_.values);
  if (!stored.ok()) return status_ = stored.status();
  ChunkEntry entry;
  entry.kind = ChunkKind::kValues;
  entry.raw_size = raw_.size();
  entry.content = content_hash(raw_);
  return write_stored(entry, *stored);
}

Status TraceWriter::copy_chunk(const ChunkEntry& entry, std::uint8_t item_size,
                               std::span<const std::byte> stored,
                               std::span<const ValuePart> parts) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_values());
  for (const ValuePart& part : parts) {
    values_.add(part, index_.chunks.size());
    kept_.insert(part.hash);
  }
  return write_stored(entry, {entry.codec, item_size, stored});
}

// `entry` has kind, raw size, content hash and calls.
Status TraceWriter::write_stored(ChunkEntry entry, Compressor::Stored stored) {
  if (!status_.ok()) return status_;
  const std::uint64_t begin = offset_ + kChunkHeaderSize;
  Bytes raw;
  if (!kept_size_.add(entry.kind, entry.raw_size, begin + stored.bytes.size())) {
    // So much compression could not be told from an attack: these bytes are kept as they are.
    ChunkHeader header;
    header.codec = stored.codec;
    header.item_size = stored.item_size;
    header.raw_size = entry.raw_size;
    status_ = decompress(header, stored.bytes, raw);
    if (!status_.ok()) return status_;
    stored = {Codec::kNone, 0, raw};
    (void)kept_size_.add(entry.kind, entry.raw_size, begin + raw.size());
  }
  entry.offset = offset_;
  entry.codec = stored.codec;
  entry.stored_size = stored.bytes.size();
  ChunkHeader header;
  header.kind = entry.kind;
  header.codec = entry.codec;
  header.item_size = stored.item_size;
  header.stored_size = entry.stored_size;
  header.raw_size = entry.raw_size;
  header.checksum = checksum64(stored.bytes);
  header.sequence = sequence_++;
  index_.chunks.push_back(entry);
  GOLDENTRACE_RETURN_IF_ERROR(write_bytes(encode_chunk_header(header)));
  return write_bytes(stored.bytes);
}

}  // namespace goldentrace
