// libFuzzer's mutations for targets that take traces: they change what is in a chunk, or the row of
// chunks, and put the checksums right, which no search would find. Two traces in a row are two.
#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>

#include "src/format/compression.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/trace_parts.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace goldentrace::fuzz {
namespace {

constexpr std::string_view kEnd = "GTRCEND\n";
constexpr std::size_t kRoom = 512;  // for what one mutation adds

using Random = std::minstd_rand;

std::size_t below(Random& random, std::size_t bound) { return random() % bound; }

Bytes mutated(Bytes bytes) {
  const std::size_t size = bytes.size();
  bytes.resize(size + kRoom);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, bytes.size()));
  return bytes;
}

void compress(Part& part, Random& random) {
  static Compressor compressor;
  const Bytes raw = raw_of(part);
  const std::size_t item_size = std::size_t{1} << below(random, 4);
  const auto stored = below(random, 2) == 0
                          ? compressor.zstd(raw, 3)
                          : compressor.values(raw, item_size, ValueCompression::kSmall);
  if (!stored.ok()) return;
  part.header.codec = stored->codec;
  part.header.item_size = stored->item_size;
  part.header.raw_size = raw.size();
  part.stored.assign(stored->bytes.begin(), stored->bytes.end());
  part.false_raw_size.reset();
}

void mutate_header(Part& part, Random& random) {
  switch (below(random, 4)) {
    case 0:
      part.header.kind = static_cast<ChunkKind>(below(random, 10));
      break;
    case 1:
      part.header.codec = static_cast<Codec>(below(random, 4));
      break;
    case 2:
      part.header.item_size = static_cast<std::uint8_t>(below(random, 10));
      break;
    default:
      part.false_raw_size = random() >> below(random, 31);
      break;
  }
}

void mutate_row(std::vector<Part>& parts, Random& random) {
  const std::size_t one = below(random, parts.size());
  const std::size_t other = below(random, parts.size());
  switch (below(random, 3)) {
    case 0:
      std::swap(parts[one], parts[other]);
      break;
    case 1:
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(one), Part(parts[other]));
      break;
    default:
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(one));
      break;
  }
}

Bytes mutated_trace(const Bytes& file, Random& random) {
  std::vector<Part> parts = take_apart(file);
  if (parts.empty() || below(random, 16) == 0) return mutated(file);
  Part& part = parts[below(random, parts.size())];
  switch (below(random, 10)) {
    case 0:
      mutate_row(parts, random);
      break;
    case 1:
      mutate_header(part, random);
      break;
    case 2:
      compress(part, random);
      break;
    case 3:  // compressed bytes with a right checksum
      part.stored = mutated(part.stored);
      break;
    case 4:
      return put_together(parts, mutated(encode_index(index_of(parts))));
    case 5: {
      Bytes cut = put_together(parts);
      cut.resize(below(random, cut.size()));
      return cut;
    }
    default:
      part = plain_part(part.header.kind, mutated(raw_of(part)));
      break;
  }
  return put_together(parts);
}

// Where the second trace begins; the size when there is one only.
std::size_t second_trace(std::string_view input) {
  const std::size_t end = input.find(kEnd);
  return end == input.npos ? input.size() : end + kEnd.size();
}

std::size_t give_back(const Bytes& bytes, std::uint8_t* data, std::size_t max_size) {
  if (bytes.size() > max_size) return 0;
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace
}  // namespace goldentrace::fuzz

using namespace goldentrace;

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  fuzz::Random random(seed);
  const std::size_t second = fuzz::second_trace({reinterpret_cast<const char*>(data), size});
  Bytes one = fuzz::bytes_of(data, second);
  Bytes other = fuzz::bytes_of(data + second, size - second);
  if (other.empty() || fuzz::below(random, 2) == 0) {
    one = fuzz::mutated_trace(one, random);
  } else {
    other = fuzz::mutated_trace(other, random);
  }
  one.insert(one.end(), other.begin(), other.end());
  const std::size_t result = fuzz::give_back(one, data, max_size);
  return result > 0 ? result : LLVMFuzzerMutate(data, size, max_size);
}

// Chunks of both, from the front of one and the back of the other.
extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* left, std::size_t left_size,
                                                 const std::uint8_t* right, std::size_t right_size,
                                                 std::uint8_t* out, std::size_t max_size,
                                                 unsigned int seed) {
  fuzz::Random random(seed);
  auto parts = fuzz::take_apart(fuzz::bytes_of(left, left_size));
  const auto others = fuzz::take_apart(fuzz::bytes_of(right, right_size));
  if (parts.empty() || others.empty()) return 0;
  parts.resize(fuzz::below(random, parts.size() + 1));
  const std::size_t from = std::min(parts.size(), others.size());
  parts.insert(parts.end(), others.begin() + static_cast<std::ptrdiff_t>(from), others.end());
  return fuzz::give_back(fuzz::put_together(parts), out, max_size);
}
