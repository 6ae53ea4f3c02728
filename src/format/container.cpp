#include "src/format/container.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "src/digest/hash.h"

namespace goldentrace {
namespace {

// Like PNG's: a byte over 127 and line ends, so that text-mode transfers are noticed.
constexpr std::array<unsigned char, 8> kFileMagic = {0x89, 'G', 'T', 'R', 'C', '\r', '\n', 0x1a};
constexpr std::array<unsigned char, 8> kFooterMagic = {'G', 'T', 'R', 'C', 'E', 'N', 'D', '\n'};
constexpr std::uint32_t kChunkMarker = 0x4b435447;  // "GTCK" in file order

template <typename T>
void put(std::byte* at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    at[i] = static_cast<std::byte>((static_cast<std::uint64_t>(value) >> (8 * i)) & 0xffu);
  }
}

template <typename T>
T get(const std::byte* at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= std::to_integer<std::uint64_t>(at[i]) << (8 * i);
  }
  return static_cast<T>(value);
}

std::uint32_t header_checksum(const ChunkHeaderBytes& bytes) {
  return static_cast<std::uint32_t>(XXH3_64bits(bytes.data(), kChunkHeaderSize - 4));
}

}  // namespace

bool sizes_are_possible(ChunkKind kind, Codec codec, std::uint64_t stored_size,
                        std::uint64_t raw_size) {
  if (std::max(stored_size, raw_size) > max_chunk_size(kind)) return false;
  switch (codec) {
    case Codec::kNone:
      return stored_size == raw_size;
    case Codec::kZstd:
    case Codec::kZstdPlanes:
      return raw_size <= stored_size * kMaxExpansion;
  }
  return true;  // of a later version
}

std::string at_offset(const std::string& name, std::uint64_t offset, const std::string& what) {
  return name + ": at offset " + std::to_string(offset) + ": " + what;
}

bool KeptSize::add(ChunkKind kind, std::uint64_t raw_size, std::uint64_t end) {
  if (kind == ChunkKind::kValues || !is_known(kind)) return true;
  if (bytes_ + raw_size > kMaxKept + kMaxKeptExpansion * end) return false;
  bytes_ += raw_size;
  return true;
}

FileHeaderBytes encode_file_header(std::uint16_t minor) {
  FileHeaderBytes bytes{};
  std::memcpy(bytes.data(), kFileMagic.data(), kFileMagic.size());
  put<std::uint16_t>(&bytes[8], kFormatMajor);
  put<std::uint16_t>(&bytes[10], minor);
  return bytes;
}

Status check_file_header(const FileHeaderBytes& bytes) {
  if (std::memcmp(bytes.data(), kFileMagic.data(), kFileMagic.size()) != 0) {
    return {Code::kCorrupt, "at offset 0: not a goldentrace file (its first bytes are another's)"};
  }
  const auto major = get<std::uint16_t>(&bytes[8]);
  if (major > kFormatMajor) {
    return {Code::kUnsupported, "at offset 8: format version " + std::to_string(major) + "." +
                                    std::to_string(get<std::uint16_t>(&bytes[10])) +
                                    "; this build reads up to " + std::to_string(kFormatMajor) +
                                    ".x: use a newer goldentrace"};
  }
  if (major == 0) return {Code::kCorrupt, "at offset 8: format version 0 does not exist"};
  if (get<std::uint32_t>(&bytes[12]) != 0) {
    return {Code::kCorrupt, "at offset 12: reserved bytes are not zero"};
  }
  return {};
}

ChunkHeaderBytes encode_chunk_header(const ChunkHeader& header) {
  ChunkHeaderBytes bytes{};
  put<std::uint32_t>(&bytes[0], kChunkMarker);
  put<std::uint8_t>(&bytes[4], static_cast<std::uint8_t>(header.kind));
  put<std::uint8_t>(&bytes[5], static_cast<std::uint8_t>(header.codec));
  put<std::uint8_t>(&bytes[6], header.item_size);
  put<std::uint64_t>(&bytes[8], header.stored_size);
  put<std::uint64_t>(&bytes[16], header.raw_size);
  put<std::uint64_t>(&bytes[24], header.checksum);
  put<std::uint32_t>(&bytes[32], header.sequence);
  put<std::uint32_t>(&bytes[36], header_checksum(bytes));
  return bytes;
}

Result<ChunkHeader> decode_chunk_header(const ChunkHeaderBytes& bytes) {
  if (get<std::uint32_t>(&bytes[0]) != kChunkMarker) {
    return Status(Code::kCorrupt, "no chunk begins here");
  }
  if (get<std::uint32_t>(&bytes[36]) != header_checksum(bytes)) {
    return Status(Code::kCorrupt, "chunk header does not match its checksum");
  }
  if (get<std::uint8_t>(&bytes[7]) != 0) {
    return Status(Code::kCorrupt, "reserved byte of the chunk header is not zero");
  }
  ChunkHeader header;
  header.kind = static_cast<ChunkKind>(get<std::uint8_t>(&bytes[4]));
  header.codec = static_cast<Codec>(get<std::uint8_t>(&bytes[5]));
  header.item_size = get<std::uint8_t>(&bytes[6]);
  header.stored_size = get<std::uint64_t>(&bytes[8]);
  header.raw_size = get<std::uint64_t>(&bytes[16]);
  header.checksum = get<std::uint64_t>(&bytes[24]);
  header.sequence = get<std::uint32_t>(&bytes[32]);
  if (!sizes_are_possible(header.kind, header.codec, header.stored_size, header.raw_size)) {
    return Status(Code::kCorrupt, "chunk is larger than the format or its codec allows");
  }
  return header;
}

FooterBytes encode_footer(std::uint64_t index_offset) {
  FooterBytes bytes{};
  put<std::uint64_t>(&bytes[0], index_offset);
  put<std::uint64_t>(&bytes[8], XXH3_64bits(bytes.data(), 8));
  std::memcpy(&bytes[16], kFooterMagic.data(), kFooterMagic.size());
  return bytes;
}

Result<std::uint64_t> decode_footer(const FooterBytes& bytes) {
  if (std::memcmp(&bytes[16], kFooterMagic.data(), kFooterMagic.size()) != 0) {
    return Status(Code::kCorrupt, "no footer: the recording was cut off (truncated?)");
  }
  if (get<std::uint64_t>(&bytes[8]) != XXH3_64bits(bytes.data(), 8)) {
    return Status(Code::kCorrupt, "footer does not match its checksum");
  }
  return get<std::uint64_t>(&bytes[0]);
}

std::uint64_t max_chunk_size(ChunkKind kind) {
  const bool of_calls =
      kind == ChunkKind::kProgram || kind == ChunkKind::kTiming || kind == ChunkKind::kBands;
  return of_calls ? kMaxProgramSize : kMaxChunkSize;
}

std::uint64_t checksum64(std::span<const std::byte> bytes) { return xxh3_64(bytes); }

Hash128 content_hash(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

}  // namespace goldentrace
