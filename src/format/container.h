// The container: file header, chunk framing, footer. Knows no table of the schema.
// Byte tables and reasons: schema/FORMAT.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/digest.h"
#include "src/base/status.h"

namespace goldentrace {

inline constexpr std::uint16_t kFormatMajor = 1;
inline constexpr std::uint16_t kFormatMinor = 2;

inline constexpr std::size_t kFileHeaderSize = 16;
inline constexpr std::size_t kChunkHeaderSize = 40;
inline constexpr std::size_t kFooterSize = 24;
// No chunk may be larger than this, stored or raw; checked before anything is allocated.
inline constexpr std::uint64_t kMaxChunkSize = 256ull << 20;
// Nor of one of these kinds, whose items take more memory than bytes of the file.
inline constexpr std::uint64_t kMaxProgramSize = 16ull << 20;
// A longer value is split over several values chunks.
inline constexpr std::uint64_t kMaxValuePart = 64ull << 20;
// A zstd block of at least 4 bytes decodes to at most 128 KiB: no chunk unfolds further.
inline constexpr std::uint64_t kMaxExpansion = (128u << 10) / 4;
// Chunks that a reader keeps in memory: what those up to any place of the file decode to.
inline constexpr std::uint64_t kMaxKept = 64ull << 20;
inline constexpr std::uint64_t kMaxKeptExpansion = 64;  // and as much more a byte before that place

// Stored: append only.
enum class ChunkKind : std::uint8_t {
  kHeader = 1,
  kProgram = 2,
  kTiming = 3,
  kParameters = 4,
  kText = 5,
  kValues = 6,
  kSummary = 7,
  kIndex = 8,
  kBands = 9,
};

// Not one that a later version added.
constexpr bool is_known(ChunkKind kind) {
  return kind >= ChunkKind::kHeader && kind <= ChunkKind::kBands;
}

// Stored: append only.
enum class Codec : std::uint8_t { kNone = 0, kZstd = 1, kZstdPlanes = 2 };

struct ChunkHeader {
  ChunkKind kind = ChunkKind::kHeader;
  Codec codec = Codec::kNone;
  std::uint8_t item_size = 0;  // bytes of an item of kZstdPlanes; else 0
  std::uint64_t stored_size = 0;
  std::uint64_t raw_size = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of the stored bytes
  std::uint32_t sequence = 0;  // 0, 1, 2, ... in file order
};

// "FILE: at offset 77: what", as all messages about a file.
std::string at_offset(const std::string& name, std::uint64_t offset, const std::string& what);

inline constexpr const char* kTooMuchKept = "chunks decode to more than the format allows";
// Adds up what a reader keeps in memory: the raw sizes of all chunks but values.
class KeptSize {
 public:
  // False when a chunk that ends at offset `end` of the file makes it more than the format allows.
  bool add(ChunkKind kind, std::uint64_t raw_size, std::uint64_t end);

 private:
  std::uint64_t bytes_ = 0;
};

// False when no chunk of this codec can have these sizes, by the limits or by what it can decode
// to.
bool sizes_are_possible(ChunkKind kind, Codec codec, std::uint64_t stored_size,
                        std::uint64_t raw_size);

using FileHeaderBytes = std::array<std::byte, kFileHeaderSize>;
using ChunkHeaderBytes = std::array<std::byte, kChunkHeaderSize>;
using FooterBytes = std::array<std::byte, kFooterSize>;

FileHeaderBytes encode_file_header(std::uint16_t minor = kFormatMinor);
// kCorrupt for another kind of file, kUnsupported for a newer major version.
Status check_file_header(const FileHeaderBytes& bytes);

ChunkHeaderBytes encode_chunk_header(const ChunkHeader& header);
// kCorrupt when marker, checksum or sizes break the rules. Unknown kinds pass: readers skip them.
Result<ChunkHeader> decode_chunk_header(const ChunkHeaderBytes& bytes);

FooterBytes encode_footer(std::uint64_t index_offset);
Result<std::uint64_t> decode_footer(const FooterBytes& bytes);

// The limit of both sizes of a chunk of this kind.
std::uint64_t max_chunk_size(ChunkKind kind);

std::uint64_t checksum64(std::span<const std::byte> bytes);
// What the index keeps of a chunk's raw bytes.
Hash128 content_hash(std::span<const std::byte> bytes);

}  // namespace goldentrace
