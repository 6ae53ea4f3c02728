// A trace file taken apart into its chunks and put together again with everything that hangs on
// them put right: checksums, sequence numbers, index, footer. What mutation needs to get past them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/format/codec.h"
#include "src/format/container.h"

namespace goldentrace::fuzz {

struct Part {
  ChunkHeader header;  // sizes, checksum and sequence number are put right when written
  Bytes stored;
  // The header says this raw size whatever is stored; for chunks that lie.
  std::optional<std::uint64_t> false_raw_size{};
};

// The raw bytes, or the stored ones where those don't decode.
Bytes raw_of(const Part& part);
// A chunk stored as it is.
Part plain_part(ChunkKind kind, Bytes raw);

// Whole chunks from the front on, up to the index or the first damage.
std::vector<Part> take_apart(std::span<const std::byte> file);
// The index of `parts` as they would lie in a file.
Index index_of(std::span<const Part> parts);
// `index` is the raw bytes of the index chunk, right or wrong.
Bytes put_together(std::span<const Part> parts, const Bytes& index);
Bytes put_together(std::span<const Part> parts);

}  // namespace goldentrace::fuzz
