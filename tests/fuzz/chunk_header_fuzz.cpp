// The container's fixed parts, and the codecs. The input is a chunk header and stored bytes.
#include <algorithm>

#include "src/format/compression.h"
#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

namespace {

void try_file_header_and_footer(const Bytes& input) {
  FileHeaderBytes file_header{};
  if (input.size() < file_header.size()) return;
  std::copy_n(input.begin(), file_header.size(), file_header.begin());
  (void)check_file_header(file_header);
  FooterBytes footer{};
  if (input.size() < footer.size()) return;
  std::copy_n(input.end() - kFooterSize, footer.size(), footer.begin());
  const auto offset = decode_footer(footer);
  fuzz::require(!offset.ok() || encode_footer(*offset) == footer, "a footer says one thing");
}

// The header's checksum is put right: no search would find it.
void put_right(ChunkHeaderBytes& bytes) {
  const std::uint64_t checksum = checksum64(std::span(bytes).first(36));
  for (std::size_t i = 0; i < 4; ++i) bytes[36 + i] = static_cast<std::byte>(checksum >> (8 * i));
}

void try_codecs(const ChunkHeader& header, std::span<const std::byte> stored) {
  Bytes raw;
  if (decompress(header, stored, raw).ok()) {
    fuzz::require(raw.size() == header.raw_size, "a chunk decodes to its raw size");
  }
  static Compressor compressor;
  for (const bool planes : {false, true}) {
    const auto packed = planes
                            ? compressor.values(stored, header.item_size, ValueCompression::kFast)
                            : compressor.zstd(stored, 1);
    fuzz::require(packed.ok(), "any bytes can be stored");
    ChunkHeader of_packed{ChunkKind::kValues, packed->codec, packed->item_size};
    of_packed.raw_size = stored.size();
    fuzz::require(decompress(of_packed, packed->bytes, raw).ok() && std::ranges::equal(raw, stored),
                  "what is stored comes back");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes input = fuzz::bytes_of(data, size);
  try_file_header_and_footer(input);
  ChunkHeaderBytes bytes{};
  if (input.size() < bytes.size()) return 0;
  std::copy_n(input.begin(), bytes.size(), bytes.begin());
  (void)decode_chunk_header(bytes);
  put_right(bytes);
  const auto header = decode_chunk_header(bytes);
  if (!header.ok()) return 0;
  fuzz::require(encode_chunk_header(*header) == bytes, "a chunk header says one thing");
  const Bytes stored(input.begin() + kChunkHeaderSize, input.end());
  try_codecs(*header, stored);
  return 0;
}
