#include "src/format/trace_reader.h"

#include <algorithm>
#include <utility>

namespace goldentrace {
namespace {

std::string at_offset(const std::string& name, std::uint64_t offset, const std::string& what) {
  return name + ": at offset " + std::to_string(offset) + ": " + what;
}

}  // namespace

Result<std::unique_ptr<TraceReader>> TraceReader::open(const std::string& path) {
  auto source = open_file(path);
  if (!source.ok()) return source.status();
  return open(std::move(*source));
}

Result<std::unique_ptr<TraceReader>> TraceReader::open(std::unique_ptr<ByteSource> source) {
  std::unique_ptr<TraceReader> reader(new TraceReader(std::move(source)));
  GOLDENTRACE_RETURN_IF_ERROR(reader->open_index());

  const auto header = reader->read_only_chunk(ChunkKind::kHeader);
  if (!header.ok()) return header.status();
  auto decoded = decode_header(*header);
  if (!decoded.ok()) return reader->at_chunk(0, decoded.status());
  reader->header_ = std::move(*decoded);
  // The file header has no checksum; the header chunk states the version once more.
  FileHeaderBytes bytes{};
  GOLDENTRACE_RETURN_IF_ERROR(reader->source_->read(0, bytes));
  const auto word = [&](std::size_t at) {
    return std::to_integer<unsigned>(bytes[at]) | (std::to_integer<unsigned>(bytes[at + 1]) << 8);
  };
  if (word(8) != reader->header_.major || word(10) != reader->header_.minor) {
    return Status(Code::kCorrupt, at_offset(reader->name(), 8, "version differs from header's"));
  }
  const auto summary = reader->read_only_chunk(ChunkKind::kSummary);
  if (!summary.ok()) return summary.status();
  auto closing = decode_summary(*summary);
  if (!closing.ok()) {
    return Status(closing.status().code(), reader->name() + ": " + closing.status().message());
  }
  reader->summary_ = std::move(*closing);
  return reader;
}

Status TraceReader::open_index() {
  const std::uint64_t size = source_->size();
  if (size == 0) return {Code::kCorrupt, at_offset(name(), 0, "the file is empty")};
  // A file cut inside its header is compared as far as it goes, and refused for its size below.
  FileHeaderBytes file_header = encode_file_header();
  const std::size_t present = std::min<std::uint64_t>(size, kFileHeaderSize);
  GOLDENTRACE_RETURN_IF_ERROR(source_->read(0, std::span(file_header).first(present)));
  if (Status status = check_file_header(file_header); !status.ok()) {
    return {status.code(), name() + ": " + status.message()};
  }
  if (size < kFileHeaderSize + kFooterSize) {
    return {Code::kCorrupt, at_offset(name(), size, "the file ends before its first chunk")};
  }
  FooterBytes footer{};
  const std::uint64_t footer_offset = size - kFooterSize;
  GOLDENTRACE_RETURN_IF_ERROR(source_->read(footer_offset, footer));
  const auto index_offset = decode_footer(footer);
  if (!index_offset.ok()) {
    return {Code::kCorrupt, at_offset(name(), footer_offset, index_offset.status().message())};
  }
  const auto index_header = read_chunk_header(*index_offset);
  if (!index_header.ok()) return index_header.status();
  if (index_header->kind != ChunkKind::kIndex ||
      *index_offset + kChunkHeaderSize + index_header->stored_size != footer_offset) {
    return {Code::kCorrupt, at_offset(name(), *index_offset, "this is not the index chunk")};
  }
  const ChunkEntry entry{
      *index_offset,     index_header->stored_size, index_header->raw_size, {}, 0, 0,
      ChunkKind::kIndex, index_header->codec};
  const auto raw = read_raw(entry, index_header->sequence);
  if (!raw.ok()) return raw.status();
  auto index = decode_index(*raw);
  if (!index.ok()) {
    return {Code::kCorrupt, at_offset(name(), *index_offset, index.status().message())};
  }
  index_ = std::move(*index);

  // Chunks stand one after the other and fill the file up to the index.
  std::uint64_t expected = kFileHeaderSize;
  for (const ChunkEntry& chunk : index_.chunks) {
    if (chunk.offset != expected || chunk.stored_size > kMaxChunkSize ||
        chunk.raw_size > kMaxChunkSize || chunk.offset > *index_offset) {
      return {Code::kCorrupt, at_offset(name(), *index_offset, "index does not match the file")};
    }
    expected += kChunkHeaderSize + chunk.stored_size;
  }
  if (expected != *index_offset || index_header->sequence != index_.chunks.size()) {
    return {Code::kCorrupt, at_offset(name(), *index_offset, "index does not match the file")};
  }
  const auto count = [&](ChunkKind kind) {
    return std::count_if(index_.chunks.begin(), index_.chunks.end(),
                         [&](const ChunkEntry& chunk) { return chunk.kind == kind; });
  };
  if (index_.chunks.empty() || index_.chunks.front().kind != ChunkKind::kHeader ||
      count(ChunkKind::kHeader) != 1 || count(ChunkKind::kSummary) != 1) {
    return {Code::kCorrupt,
            at_offset(name(), *index_offset,
                      "a trace begins with its only header chunk and has one summary")};
  }
  return {};
}

Result<ChunkHeader> TraceReader::read_chunk_header(std::uint64_t offset) const {
  ChunkHeaderBytes bytes{};
  GOLDENTRACE_RETURN_IF_ERROR(source_->read(offset, bytes));
  auto header = decode_chunk_header(bytes);
  if (!header.ok()) {
    return Status(header.status().code(), at_offset(name(), offset, header.status().message()));
  }
  return header;
}

Status TraceReader::read_stored(const ChunkEntry& entry, std::uint32_t sequence,
                                Bytes& stored) const {
  const auto header = read_chunk_header(entry.offset);
  if (!header.ok()) return header.status();
  if (header->kind != entry.kind || header->codec != entry.codec ||
      header->stored_size != entry.stored_size || header->raw_size != entry.raw_size ||
      header->sequence != sequence) {
    return {Code::kCorrupt, at_offset(name(), entry.offset, "chunk is not the one in the index")};
  }
  const std::uint64_t body = entry.offset + kChunkHeaderSize;
  if (body > source_->size() || entry.stored_size > source_->size() - body) {
    return {Code::kCorrupt, at_offset(name(), body, "chunk reaches past the end of the file")};
  }
  stored.resize(entry.stored_size);
  GOLDENTRACE_RETURN_IF_ERROR(source_->read(body, stored));
  if (checksum64(stored) != header->checksum) {
    return {Code::kCorrupt, at_offset(name(), body,
                                      "chunk of " + std::to_string(entry.stored_size) +
                                          " bytes does not match its checksum (damaged)")};
  }
  return {};
}

Result<Bytes> TraceReader::read_raw(const ChunkEntry& entry, std::uint32_t sequence) const {
  Bytes stored;
  GOLDENTRACE_RETURN_IF_ERROR(read_stored(entry, sequence, stored));
  if (entry.codec == Codec::kNone) return stored;
  Bytes raw;
  if (Status status = decompress(entry.codec, stored, entry.raw_size, raw); !status.ok()) {
    return Status(status.code(),
                  at_offset(name(), entry.offset + kChunkHeaderSize, status.message()));
  }
  return raw;
}

Status TraceReader::check_bytes() const {
  Bytes stored;
  for (std::size_t i = 0; i < index_.chunks.size(); ++i) {
    const ChunkEntry& entry = index_.chunks[i];
    GOLDENTRACE_RETURN_IF_ERROR(read_stored(entry, static_cast<std::uint32_t>(i), stored));
  }
  return {};
}

Result<Bytes> TraceReader::read_chunk(std::size_t i) const {
  auto raw = read_raw(index_.chunks[i], static_cast<std::uint32_t>(i));
  if (raw.ok() && content_hash(*raw) != index_.chunks[i].content) {
    return at_chunk(i, {Code::kCorrupt, "chunk does not match its content hash in the index"});
  }
  return raw;
}

Status TraceReader::at_chunk(std::size_t i, const Status& status) const {
  return {status.code(), at_offset(name(), index_.chunks[i].offset, status.message())};
}

Result<Bytes> TraceReader::read_only_chunk(ChunkKind kind) const {
  for (std::size_t i = 0; i < index_.chunks.size(); ++i) {
    if (index_.chunks[i].kind == kind) return read_chunk(i);
  }
  return Status(Code::kCorrupt, name() + ": chunk of kind " +
                                    std::to_string(static_cast<unsigned>(kind)) + " is missing");
}

Result<std::vector<Parameter>> TraceReader::parameters() const {
  std::vector<Parameter> all;
  for (std::size_t i = 0; i < index_.chunks.size(); ++i) {
    if (index_.chunks[i].kind != ChunkKind::kParameters) continue;
    const auto raw = read_chunk(i);
    if (!raw.ok()) return raw.status();
    auto some = decode_parameters(*raw);
    if (!some.ok()) return at_chunk(i, some.status());
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

Result<Text> TraceReader::text() const {
  Text all;
  for (std::size_t i = 0; i < index_.chunks.size(); ++i) {
    if (index_.chunks[i].kind != ChunkKind::kText) continue;
    const auto raw = read_chunk(i);
    if (!raw.ok()) return raw.status();
    auto some = decode_text(*raw);
    if (!some.ok()) return at_chunk(i, some.status());
    all.requests.insert(all.requests.end(), some->requests.begin(), some->requests.end());
    all.steps.insert(all.steps.end(), some->steps.begin(), some->steps.end());
  }
  return all;
}

Result<std::vector<Timing>> TraceReader::timings() const {
  std::vector<Timing> all;
  for (std::size_t i = 0; i < index_.chunks.size(); ++i) {
    if (index_.chunks[i].kind != ChunkKind::kTiming) continue;
    const auto raw = read_chunk(i);
    if (!raw.ok()) return raw.status();
    std::uint64_t first = 0;
    auto some = decode_timing(*raw, first);
    if (!some.ok()) return at_chunk(i, some.status());
    if (first != all.size()) {
      return at_chunk(i, {Code::kCorrupt, "timings do not continue those before"});
    }
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

bool TraceReader::has_value(const Hash128& hash) const {
  return std::binary_search(
      index_.values.begin(), index_.values.end(), ValueEntry{hash, 0, 0},
      [](const ValueEntry& left, const ValueEntry& right) { return left.hash < right.hash; });
}

Result<Bytes> TraceReader::value(const Hash128& hash) const {
  auto entry = std::lower_bound(
      index_.values.begin(), index_.values.end(), hash,
      [](const ValueEntry& left, const Hash128& right) { return left.hash < right; });
  if (entry == index_.values.end() || entry->hash != hash) {
    return Status(Code::kNotFound, name() + ": no value is kept under " + to_hex(hash));
  }
  Bytes bytes;
  std::uint64_t total = 0;
  for (; entry != index_.values.end() && entry->hash == hash; ++entry) {
    if (!values_cache_ || values_cache_->first != entry->chunk) {
      const auto raw = read_chunk(entry->chunk);
      if (!raw.ok()) return raw.status();
      auto values = decode_values(*raw);
      if (!values.ok()) return at_chunk(entry->chunk, values.status());
      values_cache_.emplace(entry->chunk, std::move(*values));
    }
    std::uint64_t at = 0;
    bool found = false;
    for (const ValuePart& part : values_cache_->second.parts) {
      if (part.hash == hash && part.offset == entry->offset && part.offset == bytes.size()) {
        const auto begin = values_cache_->second.data.begin() + static_cast<std::ptrdiff_t>(at);
        bytes.insert(bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(part.length));
        total = part.total;
        found = true;
        break;
      }
      at += part.length;
    }
    if (!found)
      return at_chunk(entry->chunk, {Code::kCorrupt, "value is not where the index says"});
  }
  if (bytes.size() != total) {
    return Status(Code::kCorrupt, name() + ": parts of value " + to_hex(hash) + " are missing");
  }
  return bytes;
}

Result<bool> ProgramReader::next() {
  const auto chunks = reader_.chunks();
  while (next_chunk_ < chunks.size() && chunks[next_chunk_].kind != ChunkKind::kProgram) {
    ++next_chunk_;
  }
  if (next_chunk_ == chunks.size()) return false;
  const std::size_t at = next_chunk_++;
  const auto raw = reader_.read_chunk(at);
  if (!raw.ok()) return raw.status();
  auto chunk = decode_program(*raw);
  if (!chunk.ok()) return reader_.at_chunk(at, chunk.status());
  if (chunk->base.calls != chunks[at].first_call || chunk->calls.size() != chunks[at].calls) {
    return reader_.at_chunk(at,
                            {Code::kCorrupt, "chunk does not hold the calls that the index says"});
  }
  chunk_ = std::move(*chunk);
  if (Status status = dictionary_.absorb(chunk_); !status.ok()) return reader_.at_chunk(at, status);
  return true;
}

}  // namespace goldentrace
