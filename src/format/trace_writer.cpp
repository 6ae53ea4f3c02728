#include "src/format/trace_writer.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace goldentrace {

Result<std::unique_ptr<TraceWriter>> TraceWriter::create(std::unique_ptr<ByteSink> sink,
                                                         Header header, WriterOptions options) {
  std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(sink), options));
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  GOLDENTRACE_RETURN_IF_ERROR(writer->write_bytes(encode_file_header()));
  GOLDENTRACE_RETURN_IF_ERROR(writer->write_chunk(ChunkKind::kHeader, encode_header(header), 0, 0));
  return writer;
}

Status TraceWriter::write_program(const ProgramChunk& chunk) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_values());
  const auto calls = static_cast<std::uint32_t>(chunk.calls.size());
  GOLDENTRACE_RETURN_IF_ERROR(
      write_chunk(ChunkKind::kProgram, encode_program(chunk), chunk.base.calls, calls));
  if (calls == 0) return {};
  return write_chunk(ChunkKind::kTiming, encode_timing(chunk), chunk.base.calls, calls);
}

Status TraceWriter::write_parameters(std::span<const Parameter> parameters) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_values());
  return write_chunk(ChunkKind::kParameters, encode_parameters(parameters), 0, 0);
}

Status TraceWriter::write_text(const Text& text) {
  return write_chunk(ChunkKind::kText, encode_text(text), 0, 0);
}

Status TraceWriter::write_value(const Hash128& hash, std::span<const std::byte> bytes) {
  if (!status_.ok()) return status_;
  if (!kept_.insert(hash).second) return {};
  std::uint64_t offset = 0;
  do {
    const std::uint64_t length = std::min<std::uint64_t>(bytes.size() - offset, kMaxValuePart);
    if (pending_data_.size() + length > options_.gather_values) {
      GOLDENTRACE_RETURN_IF_ERROR(flush_values());
    }
    const auto part = bytes.subspan(offset, length);
    pending_parts_.push_back({hash, bytes.size(), offset, length});
    pending_data_.insert(pending_data_.end(), part.begin(), part.end());
    offset += length;
  } while (offset < bytes.size());
  return {};
}

Status TraceWriter::flush_values() {
  if (pending_parts_.empty()) return status_;
  const auto chunk = static_cast<std::uint32_t>(index_.chunks.size());
  for (const ValuePart& part : pending_parts_) {
    index_.values.push_back({part.hash, part.offset, chunk});
  }
  const Bytes raw = encode_values(pending_parts_, pending_data_);
  pending_parts_.clear();
  pending_data_.clear();
  return write_chunk(ChunkKind::kValues, raw, 0, 0);
}

Status TraceWriter::close(const Summary& summary) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_values());
  GOLDENTRACE_RETURN_IF_ERROR(write_chunk(ChunkKind::kSummary, encode_summary(summary), 0, 0));
  std::sort(index_.values.begin(), index_.values.end(),
            [](const ValueEntry& left, const ValueEntry& right) {
              return std::tie(left.hash, left.offset) < std::tie(right.hash, right.offset);
            });
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
  if (raw.size() > kMaxChunkSize) {
    status_ = {Code::kInvalidArgument, sink_->name() + ": a chunk of " +
                                           std::to_string(raw.size()) +
                                           " bytes is larger than the format allows"};
    return status_;
  }
  status_ = compress(raw, options_.zstd_level, compressed_);
  if (!status_.ok()) return status_;
  ChunkHeader header;
  header.kind = kind;
  // What does not shrink is stored as it is: reading it costs nothing then.
  header.codec = compressed_.size() < raw.size() ? Codec::kZstd : Codec::kNone;
  const Bytes& stored = header.codec == Codec::kZstd ? compressed_ : raw;
  header.stored_size = stored.size();
  header.raw_size = raw.size();
  header.checksum = checksum64(stored);
  header.sequence = sequence_++;
  index_.chunks.push_back({offset_, header.stored_size, header.raw_size, content_hash(raw),
                           first_call, calls, kind, header.codec});
  GOLDENTRACE_RETURN_IF_ERROR(write_bytes(encode_chunk_header(header)));
  return write_bytes(stored);
}

}  // namespace goldentrace
