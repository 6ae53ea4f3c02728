#include "tests/fuzz/trace_parts.h"

#include <algorithm>
#include <tuple>

#include "src/format/compression.h"
#include "src/format/scan.h"

namespace goldentrace::fuzz {
namespace {

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void append_chunk(Bytes& to, const Part& part, std::uint32_t sequence) {
  ChunkHeader header = part.header;
  header.stored_size = part.stored.size();
  if (header.codec == Codec::kNone) header.raw_size = header.stored_size;
  header.raw_size = part.false_raw_size.value_or(header.raw_size);
  header.checksum = checksum64(part.stored);
  header.sequence = sequence;
  append(to, encode_chunk_header(header));
  append(to, part.stored);
}

// What the index says of a chunk beside its framing; nothing where the chunk is damaged.
void describe(const Bytes& raw, ChunkEntry& entry) {
  if (entry.kind == ChunkKind::kProgram) {
    if (const auto program = decode_program(raw); program.ok()) {
      entry.first_call = program->base.calls;
      entry.calls = static_cast<std::uint32_t>(program->calls.size());
    }
  } else if (entry.kind == ChunkKind::kTiming) {
    if (const auto timings = decode_timing(raw, entry.first_call); timings.ok()) {
      entry.calls = static_cast<std::uint32_t>(timings->size());
    }
  }
}

}  // namespace

Bytes raw_of(const Part& part) {
  Bytes raw;
  ChunkHeader header = part.header;
  header.raw_size = part.false_raw_size.value_or(header.raw_size);
  return decompress(header, part.stored, raw).ok() ? raw : part.stored;
}

Part plain_part(ChunkKind kind, Bytes raw) {
  Part part{{kind, Codec::kNone}, std::move(raw)};
  part.header.raw_size = part.stored.size();
  return part;
}

std::vector<Part> take_apart(std::span<const std::byte> file) {
  const auto source = open_memory("input", {file.begin(), file.end()});
  std::vector<Part> parts;
  for (std::uint64_t offset = kFileHeaderSize; offset < file.size();) {
    auto found = read_chunk_at(*source, offset);
    if (!found.ok() || found->header.kind == ChunkKind::kIndex) break;
    offset = found->end();
    parts.push_back({found->header, std::move(found->stored)});
  }
  return parts;
}

Index index_of(std::span<const Part> parts) {
  Index index;
  std::uint64_t offset = kFileHeaderSize;
  for (const Part& part : parts) {
    const Bytes raw = raw_of(part);
    ChunkEntry entry;
    entry.offset = offset;
    entry.stored_size = part.stored.size();
    entry.raw_size = part.header.codec == Codec::kNone ? entry.stored_size : part.header.raw_size;
    entry.raw_size = part.false_raw_size.value_or(entry.raw_size);
    entry.content = content_hash(raw);
    entry.kind = part.header.kind;
    entry.codec = part.header.codec;
    describe(raw, entry);
    if (entry.kind == ChunkKind::kValues) {
      const auto chunk = static_cast<std::uint32_t>(index.chunks.size());
      if (const auto values = decode_values(raw); values.ok()) {
        for (const ValuePart& value : values->parts) {
          index.values.push_back(
              {value.hash, value.offset, static_cast<std::uint32_t>(value.length), chunk});
        }
      }
    }
    index.chunks.push_back(entry);
    offset += kChunkHeaderSize + entry.stored_size;
  }
  const auto place = [](const ValueEntry& entry) { return std::tie(entry.hash, entry.offset); };
  std::ranges::stable_sort(index.values, {}, place);
  const auto twice =
      std::unique(index.values.begin(), index.values.end(),
                  [&](const auto& one, const auto& other) { return place(one) == place(other); });
  index.values.erase(twice, index.values.end());
  return index;
}

Bytes put_together(std::span<const Part> parts, const Bytes& index) {
  Bytes file;
  append(file, encode_file_header());
  std::uint32_t sequence = 0;
  for (const Part& part : parts) append_chunk(file, part, sequence++);
  const std::uint64_t offset = file.size();
  append_chunk(file, plain_part(ChunkKind::kIndex, index), sequence);
  append(file, encode_footer(offset));
  return file;
}

Bytes put_together(std::span<const Part> parts) {
  return put_together(parts, encode_index(index_of(parts)));
}

}  // namespace goldentrace::fuzz
