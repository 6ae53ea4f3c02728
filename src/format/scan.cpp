#include "src/format/scan.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "src/format/compression.h"

namespace goldentrace {
namespace {

constexpr std::string_view kMarker = "GTCK";
constexpr std::size_t kFirstWindow = 4u << 10;
constexpr std::size_t kMaxWindow = 1u << 20;
// More parts of values than an index chunk can list, at 32 bytes each; in memory they take more.
constexpr std::size_t kMaxParts = kMaxChunkSize / 32;

// Finds markers from front to back, reading every byte of the file once.
class MarkerFinder {
 public:
  explicit MarkerFinder(const ByteSource& source) : source_(source) {}

  // Offset of the next marker at `from` or later, which never goes back; the file's size when there
  // is none.
  Result<std::uint64_t> next(std::uint64_t from) {
    while (from + kMarker.size() <= source_.size()) {
      if (from + kMarker.size() > begin_ + window_.size()) GOLDENTRACE_RETURN_IF_ERROR(load(from));
      const std::string_view text(reinterpret_cast<const char*>(window_.data()), window_.size());
      const auto at = text.find(kMarker, from - begin_);
      if (at != std::string_view::npos) return begin_ + at;
      from = begin_ + window_.size() - (kMarker.size() - 1);
    }
    return source_.size();
  }

 private:
  Status load(std::uint64_t from) {
    // Often the marker is near; a large window would be read in vain.
    const std::size_t size = std::clamp(2 * window_.size(), kFirstWindow, kMaxWindow);
    window_.resize(std::min<std::uint64_t>(size, source_.size() - from));
    begin_ = from;
    return source_.read(from, window_);
  }

  const ByteSource& source_;
  Bytes window_;
  std::uint64_t begin_ = 0;  // of the window in the file
};

Result<ChunkHeader> read_header_at(const ByteSource& source, std::uint64_t offset) {
  if (offset > source.size() || source.size() - offset < kChunkHeaderSize) {
    return Status(Code::kCorrupt, "the file ends inside a chunk header");
  }
  ChunkHeaderBytes bytes{};
  GOLDENTRACE_RETURN_IF_ERROR(source.read(offset, bytes));
  auto header = decode_chunk_header(bytes);
  if (header.ok() && header->stored_size > source.size() - offset - kChunkHeaderSize) {
    return Status(Code::kCorrupt, "the file ends inside a chunk");
  }
  return header;
}

}  // namespace

Status read_chunk_at(const ByteSource& source, std::uint64_t offset, FoundChunk& found) {
  const auto header = read_header_at(source, offset);
  if (!header.ok()) return header.status();
  found.header = *header;
  found.offset = offset;
  found.stored.resize(header->stored_size);
  GOLDENTRACE_RETURN_IF_ERROR(source.read(offset + kChunkHeaderSize, found.stored));
  if (checksum64(found.stored) != header->checksum) {
    return {Code::kCorrupt, "chunk of " + std::to_string(header->stored_size) +
                                " bytes does not match its checksum (damaged)"};
  }
  return {};
}

Result<FoundChunk> read_chunk_at(const ByteSource& source, std::uint64_t offset) {
  FoundChunk found;
  GOLDENTRACE_RETURN_IF_ERROR(read_chunk_at(source, offset, found));
  return found;
}

Result<std::optional<FoundChunk>> find_chunk(const ByteSource& source, std::uint64_t from,
                                             std::uint32_t sequence) {
  MarkerFinder markers(source);
  while (true) {
    const auto at = markers.next(from);
    if (!at.ok()) return at.status();
    if (*at == source.size()) break;
    from = *at + 1;
    const auto header = read_header_at(source, *at);
    if (!header.ok() && header.status().code() != Code::kCorrupt) return header.status();
    if (!header.ok() || header->sequence < sequence) continue;
    auto found = read_chunk_at(source, *at);
    if (found.ok()) return std::optional(std::move(*found));
    if (found.status().code() != Code::kCorrupt) return found.status();
    // The sizes of a chunk whose header is sound are too; what looks like chunks in it is its own.
    from = *at + kChunkHeaderSize + header->stored_size;
  }
  return std::optional<FoundChunk>();
}

Status Continuity::add(const FoundChunk& found) {
  const ChunkKind kind = found.header.kind;
  if (kind != ChunkKind::kProgram && kind != ChunkKind::kTiming && kind != ChunkKind::kParameters &&
      kind != ChunkKind::kBands) {
    return {};
  }
  Bytes raw;
  GOLDENTRACE_RETURN_IF_ERROR(decompress(found.header, found.stored, raw));
  if (kind == ChunkKind::kProgram) {
    const auto program = decode_program(raw);
    return program.ok() ? dictionary_.absorb(*program) : program.status();
  }
  if (kind == ChunkKind::kTiming) {
    std::uint64_t first = 0;
    const auto timings = decode_timing(raw, first);
    if (!timings.ok()) return timings.status();
    if (first != timings_) return {Code::kCorrupt, "timings do not continue those before"};
    timings_ += timings->size();
    return {};
  }
  if (kind == ChunkKind::kBands) {
    const auto bands = decode_bands(raw);
    if (!bands.ok()) return bands.status();
    if (banded_ && bands->base_calls <= *banded_) {
      return {Code::kCorrupt, "bands are not in the order of their calls"};
    }
    banded_ = bands->base_calls;
    return {};
  }
  const auto parameters = decode_parameters(raw);
  if (!parameters.ok()) return parameters.status();
  for (const Parameter& parameter : *parameters) {
    if (parameter.tensor >= dictionary_.tensors()) {
      return {Code::kCorrupt, "parameter '" + parameter.name + "' is an undefined tensor"};
    }
  }
  return {};
}

Status Indexer::add(const FoundChunk& found) {
  ChunkEntry entry;
  entry.offset = found.offset;
  entry.stored_size = found.header.stored_size;
  entry.raw_size = found.header.raw_size;
  entry.kind = found.header.kind;
  entry.codec = found.header.codec;
  parts_.clear();
  Bytes raw;
  Status status = decompress(found.header, found.stored, raw);
  if (status.ok()) {
    entry.content = content_hash(raw);
    status = add_decoded(raw, entry);
  }
  if (!status.ok() && status.code() != Code::kUnsupported) return status;
  if (parts_.size() > kMaxParts - values_.size()) {
    return {Code::kCorrupt, "more parts of values than an index can list"};
  }
  for (const ValuePart& part : parts_) values_.add(part, index_.chunks.size());
  index_.chunks.push_back(entry);
  return status;
}

Status Indexer::add_decoded(std::span<const std::byte> raw, ChunkEntry& entry) {
  switch (entry.kind) {
    case ChunkKind::kHeader:
      return decode_header(raw).status();
    case ChunkKind::kProgram: {
      const auto program = decode_program(raw);
      if (!program.ok()) return program.status();
      entry.first_call = program->base.calls;
      entry.calls = static_cast<std::uint32_t>(program->calls.size());
      return {};
    }
    case ChunkKind::kTiming: {
      const auto timings = decode_timing(raw, entry.first_call);
      if (timings.ok()) entry.calls = static_cast<std::uint32_t>(timings->size());
      return timings.status();
    }
    case ChunkKind::kParameters:
      return decode_parameters(raw).status();
    case ChunkKind::kBands:
      return decode_bands(raw).status();
    case ChunkKind::kText:
      return decode_text(raw).status();
    case ChunkKind::kValues: {
      auto values = decode_values(raw);
      if (values.ok()) parts_ = std::move(values->parts);
      return values.status();
    }
    case ChunkKind::kSummary:
      return decode_summary(raw).status();
    default:
      return {};
  }
}

Index Indexer::finish() {
  index_.values = values_.finish();
  return std::move(index_);
}

}  // namespace goldentrace
