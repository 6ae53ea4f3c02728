#include "src/format/trace_reader.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "src/digest/digest.h"

namespace goldentrace {
namespace {

// Buffers of chunks larger than this, which are few, are given back.
constexpr std::size_t kKeptBuffer = 16u << 20;

// What tells a part of a value from every other.
template <typename Part>
std::tuple<Hash128, std::uint64_t, std::uint64_t> place_of(const Part& part) {
  return {part.hash, part.offset, part.length};
}

}  // namespace

Result<std::unique_ptr<TraceReader>> TraceReader::open(const std::string& path) {
  auto source = open_file(path);
  if (!source.ok()) return source.status();
  return open(std::move(*source));
}

Result<std::unique_ptr<TraceReader>> TraceReader::open(std::unique_ptr<ByteSource> source) {
  std::unique_ptr<TraceReader> reader(new TraceReader(std::move(source)));
  GOLDENTRACE_RETURN_IF_ERROR(reader->open_footer());
  reader->checked_.resize(reader->index_.chunks.size());
  GOLDENTRACE_RETURN_IF_ERROR(reader->open_header_and_summary());
  return reader;
}

Status TraceReader::open_footer() {
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
  GOLDENTRACE_RETURN_IF_ERROR(source_->read(size - kFooterSize, footer));
  const auto index_offset = decode_footer(footer);
  return index_offset.ok() ? open_index(*index_offset) : open_cut();
}

Status TraceReader::open_index(std::uint64_t index_offset) {
  const auto found = read_chunk_at(*source_, index_offset);
  if (!found.ok()) {
    return {found.status().code(), at_offset(name(), index_offset, found.status().message())};
  }
  if (found->header.kind != ChunkKind::kIndex || found->end() != source_->size() - kFooterSize) {
    return {Code::kCorrupt, at_offset(name(), index_offset, "this is not the index chunk")};
  }
  if (!KeptSize().add(ChunkKind::kIndex, found->header.raw_size, found->end())) {
    return {Code::kCorrupt, at_offset(name(), index_offset, kTooMuchKept)};
  }
  Bytes raw;
  if (Status status = decompress(found->header, found->stored, raw); !status.ok()) {
    return {status.code(), at_offset(name(), index_offset, status.message())};
  }
  auto index = decode_index(raw);
  if (!index.ok()) {
    return {Code::kCorrupt, at_offset(name(), index_offset, index.status().message())};
  }
  index_ = std::move(*index);
  index_entry_ = {found->offset,     found->header.stored_size, found->header.raw_size, {}, 0, 0,
                  ChunkKind::kIndex, found->header.codec};
  return check_index(index_offset, found->header.sequence);
}

Status TraceReader::check_index(std::uint64_t index_offset, std::uint32_t sequence) const {
  const auto refuse = [&](const char* why) {
    return Status(Code::kCorrupt, at_offset(name(), index_offset, why));
  };
  // Chunks stand one after the other and fill the file up to the index.
  std::uint64_t expected = kFileHeaderSize;
  KeptSize kept;
  for (const ChunkEntry& chunk : index_.chunks) {
    const bool counted = chunk.kind == ChunkKind::kProgram || chunk.kind == ChunkKind::kTiming;
    const bool unknown = !is_known(chunk.kind);
    if (chunk.offset != expected || chunk.offset > index_offset ||
        !sizes_are_possible(chunk.kind, chunk.codec, chunk.stored_size, chunk.raw_size) ||
        (!counted && !unknown && (chunk.first_call != 0 || chunk.calls != 0))) {
      return refuse("index does not match the file");
    }
    expected += kChunkHeaderSize + chunk.stored_size;
    if (!kept.add(chunk.kind, chunk.raw_size, expected)) return refuse(kTooMuchKept);
  }
  if (!kept.add(ChunkKind::kIndex, index_entry_.raw_size,
                expected + kChunkHeaderSize + index_entry_.stored_size)) {
    return refuse(kTooMuchKept);
  }
  if (expected != index_offset || sequence != index_.chunks.size()) {
    return refuse("index does not match the file");
  }
  const auto count = [&](ChunkKind kind) {
    return std::count_if(index_.chunks.begin(), index_.chunks.end(),
                         [&](const ChunkEntry& chunk) { return chunk.kind == kind; });
  };
  if (count(ChunkKind::kIndex) > 0) return refuse("a trace has one index");
  if (index_.chunks.empty() || index_.chunks.front().kind != ChunkKind::kHeader ||
      count(ChunkKind::kHeader) != 1 || count(ChunkKind::kSummary) != 1) {
    return refuse("a trace begins with its only header chunk and has one summary");
  }
  return {};
}

// What a recorder that died has left: whole chunks in a row.
Status TraceReader::open_cut() {
  Indexer indexer;
  Continuity continuity;
  KeptSize kept;
  std::uint64_t offset = kFileHeaderSize;
  std::string why = "the file ends there";
  bool summary = false;
  std::uint32_t sequence = 0;
  for (; offset < source_->size(); ++sequence) {
    const auto found = read_chunk_at(*source_, offset);
    Status status = found.status();
    if (!found.ok() && status.code() != Code::kCorrupt) return status;
    if (found.ok()) {
      const ChunkKind kind = found->header.kind;
      if (found->header.sequence != sequence || (kind == ChunkKind::kHeader) != (sequence == 0) ||
          (summary && kind == ChunkKind::kSummary)) {
        status = {Code::kCorrupt, "this chunk does not follow the one before"};
      } else if (kind == ChunkKind::kIndex) {
        offset = found->end();
        status = {Code::kCorrupt, "the footer is missing"};
      } else if (!kept.add(kind, found->header.raw_size, found->end())) {
        status = {Code::kCorrupt, kTooMuchKept};
      } else {
        status = continuity.add(*found);
        if (status.ok()) status = indexer.add(*found);
        if (status.code() == Code::kUnsupported && !is_known(kind)) status = {};
        if (status.code() == Code::kUnsupported) {
          return {status.code(), at_offset(name(), offset, status.message())};
        }
        summary |= kind == ChunkKind::kSummary;
      }
    }
    if (!status.ok()) {
      why = status.message();
      break;
    }
    offset = found->end();
  }
  if (sequence == 0) return {Code::kCorrupt, at_offset(name(), offset, "no whole chunk: " + why)};
  index_ = indexer.finish();
  cut_at_ = offset;
  summary_.counters.push_back({"trace_cut", CounterSeverity::kError, CounterOrigin::kReading, 1,
                               "at offset " + std::to_string(offset) + ": " + why});
  return {};
}

Status TraceReader::open_header_and_summary() {
  const auto header = read_chunk(0);
  if (!header.ok()) return header.status();
  auto decoded = decode_header(*header);
  if (!decoded.ok()) return at_chunk(0, decoded.status());
  header_ = std::move(*decoded);
  // The file header has no checksum; the header chunk states the version once more.
  FileHeaderBytes bytes{};
  GOLDENTRACE_RETURN_IF_ERROR(source_->read(0, bytes));
  const auto word = [&](std::size_t at) {
    return std::to_integer<unsigned>(bytes[at]) | (std::to_integer<unsigned>(bytes[at + 1]) << 8);
  };
  if (word(8) != header_.major || word(10) != header_.minor) {
    return {Code::kCorrupt, at_offset(name(), 8, "version differs from header's")};
  }
  const auto found = std::ranges::find(index_.chunks, ChunkKind::kSummary, &ChunkEntry::kind);
  if (found == index_.chunks.end()) {
    for (const ChunkEntry& chunk : index_.chunks) {
      if (chunk.kind == ChunkKind::kProgram) summary_.calls += chunk.calls;
    }
    return {};
  }
  const auto at = static_cast<std::size_t>(found - index_.chunks.begin());
  const auto raw = read_chunk(at);
  if (!raw.ok()) return raw.status();
  auto summary = decode_summary(*raw);
  if (!summary.ok()) return at_chunk(at, summary.status());
  const std::vector<Counter> of_reading = std::move(summary_.counters);
  summary_ = std::move(*summary);
  summary_.counters.insert(summary_.counters.end(), of_reading.begin(), of_reading.end());
  return {};
}

Status TraceReader::read_stored(std::size_t i, FoundChunk& found) const {
  const ChunkEntry& entry = i < index_.chunks.size() ? index_.chunks[i] : index_entry_;
  if (Status status = read_chunk_at(*source_, entry.offset, found); !status.ok()) {
    return {status.code(), at_offset(name(), entry.offset, status.message())};
  }
  const ChunkHeader& header = found.header;
  if (header.kind != entry.kind || header.codec != entry.codec ||
      header.stored_size != entry.stored_size || header.raw_size != entry.raw_size ||
      header.sequence != i) {
    return {Code::kCorrupt, at_offset(name(), entry.offset, "chunk is not the one in the index")};
  }
  if (i < checked_.size()) checked_[i] = true;
  return {};
}

Result<FoundChunk> TraceReader::read_stored(std::size_t i) const {
  FoundChunk found;
  GOLDENTRACE_RETURN_IF_ERROR(read_stored(i, found));
  return found;
}

Status TraceReader::check_bytes() const {
  FoundChunk found;
  for (std::size_t i = 0; i < index_.chunks.size(); ++i) {
    if (!checked_[i]) GOLDENTRACE_RETURN_IF_ERROR(read_stored(i, found));
  }
  return {};
}

Result<Bytes> TraceReader::read_chunk(std::size_t i) const {
  auto found = read_stored(i);
  if (!found.ok()) return found.status();
  const ChunkHeader& header = found->header;
  // Who reads large chunks as they stand is not to have another one's content beside them.
  if (header.raw_size > kKeptBuffer) loaded_ = {};
  Bytes raw;
  if (header.codec == Codec::kNone && header.item_size == 0 &&
      found->stored.size() == header.raw_size) {
    raw = std::move(found->stored);
  } else if (Status status = decompressor_.decode(header, found->stored, raw); !status.ok()) {
    return Status(status.code(),
                  at_offset(name(), found->offset + kChunkHeaderSize, status.message()));
  }
  const Hash128 content = i < index_.chunks.size() ? index_.chunks[i].content : Hash128();
  if (content != Hash128() && content_hash(raw) != content) {
    return at_chunk(i, {Code::kCorrupt, "chunk does not match its content hash in the index"});
  }
  return raw;
}

Status TraceReader::at_chunk(std::size_t i, const Status& status) const {
  const ChunkEntry& entry = i < index_.chunks.size() ? index_.chunks[i] : index_entry_;
  return {status.code(), at_offset(name(), entry.offset, status.message())};
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
  std::map<std::uint32_t, std::size_t> places;  // of requests, by id; ids may be made to collide
  for (std::size_t i = 0; i < index_.chunks.size(); ++i) {
    if (index_.chunks[i].kind != ChunkKind::kText) continue;
    const auto raw = read_chunk(i);
    if (!raw.ok()) return raw.status();
    auto some = decode_text(*raw);
    if (!some.ok()) return at_chunk(i, some.status());
    for (Request& request : some->requests) {
      // The last entry of a request counts.
      const auto [place, is_new] = places.try_emplace(request.id, all.requests.size());
      if (is_new) all.requests.emplace_back();
      all.requests[place->second] = std::move(request);
    }
    all.steps.insert(all.steps.end(), some->steps.begin(), some->steps.end());
  }
  return all;
}

Result<Bands> TraceReader::bands_of(std::size_t i) const {
  const auto raw = read_chunk(i);
  if (!raw.ok()) return raw.status();
  auto bands = decode_bands(*raw);
  return bands.ok() ? std::move(bands) : at_chunk(i, bands.status());
}

Status BandReader::load() {
  const auto chunks = reader_.chunks();
  while (!loaded_ && next_chunk_ < chunks.size()) {
    const std::size_t i = next_chunk_++;
    if (chunks[i].kind != ChunkKind::kBands) continue;
    auto bands = reader_.bands_of(i);
    if (!bands.ok()) return bands.status();
    if (first_ && bands->base_calls <= *first_) {
      return reader_.at_chunk(i, {Code::kCorrupt, "bands are not in the order of their calls"});
    }
    ahead_ = std::move(*bands);
    first_ = ahead_.base_calls;
    loaded_ = true;
  }
  return {};
}

Result<BandReader::Band> BandReader::next(std::uint64_t call) {
  GOLDENTRACE_RETURN_IF_ERROR(load());
  if (loaded_ && ahead_.base_calls <= call) {
    current_ = std::move(ahead_);
    at_ = 0;
    loaded_ = false;
    GOLDENTRACE_RETURN_IF_ERROR(load());
  }
  if (at_ >= current_.typical.size()) return Band();
  const Band band = {current_.typical[at_], current_.largest[at_]};
  ++at_;
  return band;
}

Result<std::vector<Timing>> TraceReader::timings_of(std::size_t i) const {
  const auto raw = read_chunk(i);
  if (!raw.ok()) return raw.status();
  std::uint64_t first = 0;
  auto timings = decode_timing(*raw, first);
  if (!timings.ok()) return at_chunk(i, timings.status());
  if (first != index_.chunks[i].first_call || timings->size() != index_.chunks[i].calls) {
    return at_chunk(i, {Code::kCorrupt, "chunk does not hold the timings that the index says"});
  }
  return timings;
}

Result<std::vector<Timing>> TraceReader::timings() const {
  std::vector<Timing> all;
  for (std::size_t i = 0; i < index_.chunks.size(); ++i) {
    if (index_.chunks[i].kind != ChunkKind::kTiming) continue;
    const auto some = timings_of(i);
    if (!some.ok()) return some.status();
    if (index_.chunks[i].first_call != all.size()) {
      return at_chunk(i, {Code::kCorrupt, "timings do not continue those before"});
    }
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

std::span<const ValueEntry> TraceReader::parts_of(const Hash128& hash) const {
  const auto first = std::ranges::lower_bound(index_.values, hash, {}, &ValueEntry::hash);
  auto end = first;
  while (end != index_.values.end() && end->hash == hash) ++end;  // most often one
  return {first, end};
}

std::optional<std::uint64_t> TraceReader::value_size(const Hash128& hash) const {
  const auto parts = parts_of(hash);
  if (parts.empty()) return {};
  return parts.back().offset + parts.back().length;
}

Result<Bytes> TraceReader::value(const Hash128& hash) const {
  const auto size = value_size(hash);
  if (!size) return Status(Code::kNotFound, name() + ": no value is kept under " + to_hex(hash));
  Bytes bytes(*size);
  GOLDENTRACE_RETURN_IF_ERROR(read_value(hash, bytes));
  return bytes;
}

Status TraceReader::load_values(std::uint32_t chunk) const {
  LoadedValues& loaded = loaded_;
  if (loaded.chunk == chunk) return {};
  loaded.chunk.reset();
  loaded.parts.clear();
  Bytes& stored = loaded.found.stored;
  for (Bytes* buffer : {&stored, &loaded.raw, &loaded.joined}) {
    if (buffer->size() > kKeptBuffer) *buffer = Bytes();
  }
  GOLDENTRACE_RETURN_IF_ERROR(read_stored(chunk, loaded.found));
  const ChunkHeader& header = loaded.found.header;
  // Not held against the chunk's content hash: what is taken of it is proven by hashes of its own.
  if (header.codec == Codec::kNone && header.item_size == 0 && stored.size() == header.raw_size) {
    stored.swap(loaded.raw);
  } else if (Status status = decompressor_.decode(header, stored, loaded.raw); !status.ok()) {
    return {status.code(),
            at_offset(name(), loaded.found.offset + kChunkHeaderSize, status.message())};
  }
  if (stored.size() > kKeptBuffer) stored = Bytes();
  auto values = decode_values(loaded.raw);
  if (!values.ok()) return at_chunk(chunk, values.status());
  loaded.data = values->data;
  std::uint64_t at = 0;
  for (const ValuePart& part : values->parts) {
    loaded.parts.push_back({part, at});
    at += part.length;
  }
  std::ranges::sort(loaded.parts, {}, place_of<LoadedPart>);
  loaded.chunk = chunk;
  return {};
}

// The part that the index tells of, in a value of `size` bytes of which `done` came before.
Result<std::span<const std::byte>> TraceReader::load_part(const ValueEntry& entry,
                                                          std::uint64_t done,
                                                          std::uint64_t size) const {
  GOLDENTRACE_RETURN_IF_ERROR(load_values(entry.chunk));
  const auto found =
      std::ranges::lower_bound(loaded_.parts, place_of(entry), {}, place_of<LoadedPart>);
  if (found == loaded_.parts.end() || place_of(*found) != place_of(entry)) {
    return at_chunk(entry.chunk, {Code::kCorrupt, "value is not where the index says"});
  }
  // Parts that follow one another and add up to their total fit into `size`.
  if (found->offset != done || found->total != size) {
    return Status(Code::kCorrupt,
                  name() + ": parts of value " + to_hex(entry.hash) + " are missing");
  }
  return loaded_.data.subspan(found->at, found->length);
}

Result<std::span<const std::byte>> TraceReader::view_value(const Hash128& hash) const {
  const auto entries = parts_of(hash);
  if (entries.size() != 1) {
    auto bytes = value(hash);
    if (!bytes.ok()) return bytes.status();
    loaded_.joined = std::move(*bytes);
    return std::span<const std::byte>(loaded_.joined);
  }
  const auto bytes = load_part(entries[0], 0, entries[0].length);
  if (bytes.ok() && hash_bytes(*bytes) != hash) return wrong_hash(hash);
  return bytes;
}

Status TraceReader::read_value(const Hash128& hash, std::span<std::byte> out) const {
  if (const auto size = value_size(hash); size && *size != out.size()) {
    return {Code::kCorrupt, name() + ": parts of value " + to_hex(hash) + " are missing"};
  }
  auto at = out.begin();
  return visit_value(hash, [&](std::span<const std::byte> bytes) {
    at = std::ranges::copy(bytes, at).out;
    return Status();
  });
}

Status TraceReader::visit_value(const Hash128& hash, const TakeBytes& take) const {
  const auto entries = parts_of(hash);
  const auto size = value_size(hash);
  if (!size) return {Code::kNotFound, name() + ": no value is kept under " + to_hex(hash)};
  std::uint64_t done = 0;
  HashStream digest;
  for (const ValueEntry& entry : entries) {
    const auto bytes = load_part(entry, done, *size);
    if (!bytes.ok()) return bytes.status();
    digest.add(*bytes);
    GOLDENTRACE_RETURN_IF_ERROR(take(*bytes));
    done += bytes->size();
  }
  return digest.finish() == hash ? Status() : wrong_hash(hash);
}

Status TraceReader::wrong_hash(const Hash128& hash) const {
  return {Code::kCorrupt, name() + ": value " + to_hex(hash) + " does not hash to its name"};
}

Result<bool> ProgramReader::next() {
  if (!failed_.ok()) return failed_;
  auto more = read_next();
  if (!more.ok()) failed_ = more.status();
  return more;
}

Result<bool> ProgramReader::read_next() {
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
  if (Status status = dictionary_.absorb(*chunk); !status.ok()) return reader_.at_chunk(at, status);
  chunk_ = std::move(*chunk);
  return true;
}

}  // namespace goldentrace
