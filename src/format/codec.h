// Between plain structs and a chunk's raw bytes (FlatBuffers, see schema/trace.fbs). Decoding
// trusts nothing: the FlatBuffers verifier first, then lengths, enums and limits; ids are checked
// by Dictionary, which knows the chunks before. `raw` lies at a multiple of 8, as any allocation
// does.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/event/program.h"
#include "src/event/run.h"
#include "src/format/container.h"

namespace goldentrace {

struct Text {
  std::vector<Request> requests;
  std::vector<Step> steps;
};

// Part of a value: bytes [offset, offset + length) of the `total` bytes that hash to `hash`.
struct ValuePart {
  Hash128 hash;
  std::uint64_t total = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool operator==(const ValuePart&) const = default;
};

struct Values {
  std::vector<ValuePart> parts;
  std::span<const std::byte> data;  // the parts' bytes, one after the other, in the chunk's own
};

struct ChunkEntry {
  std::uint64_t offset = 0;
  std::uint64_t stored_size = 0;
  std::uint64_t raw_size = 0;
  Hash128 content;
  std::uint64_t first_call = 0;
  std::uint32_t calls = 0;
  ChunkKind kind = ChunkKind::kHeader;
  Codec codec = Codec::kNone;
  bool operator==(const ChunkEntry&) const = default;
};

struct ValueEntry {
  Hash128 hash;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t chunk = 0;
  bool operator==(const ValueEntry&) const = default;
};

struct Index {
  std::vector<ChunkEntry> chunks;
  std::vector<ValueEntry> values;  // sorted by hash, then offset
  bool operator==(const Index&) const = default;
};

using Bytes = std::vector<std::byte>;

Bytes encode_header(const Header& header);
Bytes encode_program(const ProgramChunk& chunk);
Bytes encode_timing(const ProgramChunk& chunk);
Bytes encode_bands(const Bands& bands);
Bytes encode_parameters(std::span<const Parameter> parameters);
Bytes encode_text(const Text& text);
// `reuse` is memory that the answer may take over.
Bytes encode_values(std::span<const ValuePart> parts, std::span<const std::byte> data,
                    Bytes reuse = {});
Bytes encode_summary(const Summary& summary);
Bytes encode_index(const Index& index);

Result<Header> decode_header(std::span<const std::byte> raw);
// `timings` stays empty: they have their own chunk.
Result<ProgramChunk> decode_program(std::span<const std::byte> raw);
// `first_call` receives the number of the call that the first timing belongs to.
Result<std::vector<Timing>> decode_timing(std::span<const std::byte> raw,
                                          std::uint64_t& first_call);
Result<Bands> decode_bands(std::span<const std::byte> raw);
Result<std::vector<Parameter>> decode_parameters(std::span<const std::byte> raw);
Result<Text> decode_text(std::span<const std::byte> raw);
// The answer points into `raw`.
Result<Values> decode_values(std::span<const std::byte> raw);
Result<Summary> decode_summary(std::span<const std::byte> raw);
Result<Index> decode_index(std::span<const std::byte> raw);

// Numbers of Node kinds that exist on the wire only.
inline constexpr std::uint8_t kWireTensorBack = 64;  // value: running highest tensor id - id
inline constexpr std::uint8_t kWireIntWide = 65;     // an int that does not fit in 32 bits

}  // namespace goldentrace
