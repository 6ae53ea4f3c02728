// Finds a file's chunks without its index: what a cut or damaged file still holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/event/dictionary.h"
#include "src/format/codec.h"
#include "src/format/value_index.h"

namespace goldentrace {

// A chunk whose header and stored bytes match their checksums.
struct FoundChunk {
  ChunkHeader header;
  std::uint64_t offset = 0;  // of the header in the file
  Bytes stored;
  [[nodiscard]] std::uint64_t end() const { return offset + kChunkHeaderSize + header.stored_size; }
};

// The chunk that begins at `offset`; kCorrupt, without the file's name, where no whole one does.
Result<FoundChunk> read_chunk_at(const ByteSource& source, std::uint64_t offset);
// The same into `found`, whose memory is used again.
Status read_chunk_at(const ByteSource& source, std::uint64_t offset, FoundChunk& found);

// The next whole chunk at `from` or later whose sequence number is at least `sequence`; none when
// there is no more. Reads every byte once at most, but for markers.
Result<std::optional<FoundChunk>> find_chunk(const ByteSource& source, std::uint64_t from,
                                             std::uint32_t sequence);

// Whether chunks, in the order of the file, go with those before them: programs continue, ids are
// defined, timings follow one another, parameters are of known tensors.
class Continuity {
 public:
  // kCorrupt says what does not fit; kUnsupported comes from decoding.
  Status add(const FoundChunk& found);

 private:
  Dictionary dictionary_;
  std::uint64_t timings_ = 0;
  std::optional<std::uint64_t> banded_;  // first call of the last bands chunk
};

// Builds an index from the chunks themselves.
class Indexer {
 public:
  // Appends what the index says of `found`. kUnsupported, with an entry under an unknown content
  // hash, for a chunk of a later version; kCorrupt, with nothing appended, when it breaks a rule.
  Status add(const FoundChunk& found);
  // What the chunk added last holds, when it holds values.
  [[nodiscard]] const std::vector<ValuePart>& parts() const { return parts_; }
  [[nodiscard]] const ChunkEntry& last() const { return index_.chunks.back(); }
  // The index in the order of the format, without values of which a part is missing.
  Index finish();

 private:
  Status add_decoded(std::span<const std::byte> raw, ChunkEntry& entry);

  Index index_;
  ValueIndex values_;
  std::vector<ValuePart> parts_;
};

}  // namespace goldentrace
