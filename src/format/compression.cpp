#include "src/format/compression.h"

#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_c_literalCompressionMode
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <string>

namespace goldentrace {
namespace {

constexpr std::size_t kMaxItemSize = 8;
// So far below zero, zstd looks for almost no matches; what is left is its Huffman coder.
constexpr int kHuffmanLevel = -10'000;
constexpr int kFastMatchLevel = 1;
constexpr int kSmallLevel = 9;
constexpr std::size_t kMinSample = 8u << 10;
constexpr std::size_t kMaxSample = 64u << 10;
// Matches must beat Huffman coding by this much to be worth their time.
constexpr double kMatchesPay = 0.95;
// A plane whose bytes look this random is stored as it is.
constexpr double kRandom = 0.985;

bool known_item_size(std::size_t size) {
  return size == 1 || size == 2 || size == 4 || size == kMaxItemSize;
}

// Bytes of plane `p`: p, p + width, p + 2 width, ...
std::size_t plane_size(std::size_t raw, std::size_t width, std::size_t p) {
  return raw > p ? (raw - p + width - 1) / width : 0;
}

template <std::size_t kWidth>
void split_planes(const std::byte* raw, std::size_t items,
                  const std::array<std::byte*, kMaxItemSize>& planes) {
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t p = 0; p < kWidth; ++p) planes[p][i] = raw[i * kWidth + p];
  }
}

template <std::size_t kWidth>
void join_planes(std::byte* raw, std::size_t items,
                 const std::array<const std::byte*, kMaxItemSize>& planes) {
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t p = 0; p < kWidth; ++p) raw[i * kWidth + p] = planes[p][i];
  }
}

std::size_t sample_size(std::size_t size) {
  return std::min(size, std::clamp(size / 32, kMinSample, kMaxSample));
}

// What ideal coding of the single bytes first, first + step, ... would need.
double order0_size(std::span<const std::byte> bytes, std::size_t first, std::size_t step) {
  std::array<std::uint32_t, 256> count{};
  double total = 0;
  for (std::size_t i = first; i < bytes.size(); i += step, ++total) {
    ++count[std::to_integer<std::size_t>(bytes[i])];
  }
  double bits = 0;
  for (const std::uint32_t n : count) {
    if (n > 0) bits -= n * std::log2(n / total);
  }
  return bits / 8;
}

Status corrupt(const char* what) { return {Code::kCorrupt, what}; }

std::uint32_t get32(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

// What can be known of a frame before memory is taken for what it decodes to. Only frames of zstd
// itself: the library also reads forms of older versions, and skips frames without content.
Status check_frame(std::span<const std::byte> stored, std::size_t raw_size) {
  const std::size_t frame = ZSTD_findFrameCompressedSize(stored.data(), stored.size());
  if (ZSTD_isError(frame) != 0U || frame != stored.size() || stored.size() < 4 ||
      get32(stored, 0) != ZSTD_MAGICNUMBER) {
    return corrupt("stored bytes are not one zstd frame");
  }
  const unsigned long long own = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (raw_size > stored.size() * kMaxExpansion ||
      (own != ZSTD_CONTENTSIZE_UNKNOWN && own != raw_size)) {
    return corrupt("zstd data does not decode to the promised size");
  }
  return {};
}

void put32(std::byte* at, std::size_t value) {
  for (std::size_t i = 0; i < 4; ++i) at[i] = static_cast<std::byte>((value >> (8 * i)) & 0xffu);
}

}  // namespace

struct Compressor::Context {
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
};

Compressor::Compressor() : context_(new Context) {
  if (context_->zstd != nullptr) return;
  delete context_;
  throw std::bad_alloc();
}

Compressor::~Compressor() {
  ZSTD_freeCCtx(context_->zstd);
  delete context_;
}

Result<std::size_t> Compressor::frame(std::span<const std::byte> raw, int level, bool huffman_only,
                                      std::span<std::byte> out) {
  ZSTD_CCtx* zstd = context_->zstd;
  ZSTD_CCtx_reset(zstd, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level);
  if (huffman_only) {
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman);
  }
  const std::size_t size = ZSTD_compress2(zstd, out.data(), out.size(), raw.data(), raw.size());
  if (ZSTD_isError(size) != 0U) {
    return Status(Code::kInternal, std::string("zstd: ") + ZSTD_getErrorName(size));
  }
  return size;
}

Result<Compressor::Stored> Compressor::zstd(std::span<const std::byte> raw, int level) {
  if (stored_.size() < ZSTD_compressBound(raw.size()))
    stored_.resize(ZSTD_compressBound(raw.size()));
  const auto size = frame(raw, level, false, stored_);
  if (!size.ok()) return size.status();
  // What does not shrink is stored as it is: reading it costs nothing then.
  if (*size >= raw.size()) return Stored{Codec::kNone, 0, raw};
  return Stored{Codec::kZstd, 0, std::span(stored_).first(*size)};
}

// By a sample: whether zstd, which finds matches, beats the coding of single bytes of planes.
Result<bool> Compressor::matches_pay(std::span<const std::byte> raw, std::size_t item_size) {
  const std::size_t size = sample_size(raw.size());
  const auto sample = raw.subspan((raw.size() - size) / 2 / item_size * item_size, size);
  trial_.resize(std::max(trial_.size(), ZSTD_compressBound(kMaxSample)));
  const auto matched = frame(sample, kFastMatchLevel, false, trial_);
  if (!matched.ok()) return matched.status();
  double coded = 0;
  for (std::size_t p = 0; p < item_size; ++p) coded += order0_size(sample, p, item_size);
  return static_cast<double>(*matched) < kMatchesPay * coded;
}

// Appends the stored form of one plane to stored_.
Status Compressor::add_plane(std::span<const std::byte> plane, ValueCompression how) {
  const std::size_t begin = stored_.size();
  std::size_t best = plane.size();
  const auto attempt = [&](int level) -> Status {
    trial_.resize(std::max(trial_.size(), ZSTD_compressBound(plane.size())));
    const auto size = frame(plane, level, level == kHuffmanLevel, trial_);
    if (!size.ok()) return size.status();
    if (*size >= best) return {};
    best = *size;
    stored_.resize(begin);
    stored_.insert(stored_.end(), trial_.begin(),
                   trial_.begin() + static_cast<std::ptrdiff_t>(best));
    return {};
  };
  if (how == ValueCompression::kSmall) {
    GOLDENTRACE_RETURN_IF_ERROR(attempt(kHuffmanLevel));
    GOLDENTRACE_RETURN_IF_ERROR(attempt(kSmallLevel));
  } else {
    const std::size_t size = sample_size(plane.size());
    const double coded = order0_size(plane.subspan((plane.size() - size) / 2, size), 0, 1);
    if (coded < kRandom * static_cast<double>(size)) {
      GOLDENTRACE_RETURN_IF_ERROR(attempt(kHuffmanLevel));
    }
  }
  if (best == plane.size()) stored_.insert(stored_.end(), plane.begin(), plane.end());
  return {};
}

Result<Compressor::Stored> Compressor::values(std::span<const std::byte> raw, std::size_t item_size,
                                              ValueCompression how) {
  if (!known_item_size(item_size)) item_size = 1;
  if (how == ValueCompression::kNone) return Stored{Codec::kNone, 0, raw};
  if (how == ValueCompression::kFast) {
    const auto matches = matches_pay(raw, item_size);
    if (!matches.ok()) return matches.status();
    if (*matches) return zstd(raw, kFastMatchLevel);
  }
  if (split_.size() < raw.size()) split_.resize(raw.size());
  std::array<std::byte*, kMaxItemSize> planes{};
  std::byte* next = split_.data();
  for (std::size_t p = 0; p < item_size; ++p) {
    planes[p] = next;
    next += plane_size(raw.size(), item_size, p);
  }
  const std::size_t items = raw.size() / item_size;
  switch (item_size) {
    case 1:
      split_planes<1>(raw.data(), items, planes);
      break;
    case 2:
      split_planes<2>(raw.data(), items, planes);
      break;
    case 4:
      split_planes<4>(raw.data(), items, planes);
      break;
    default:
      split_planes<8>(raw.data(), items, planes);
      break;
  }
  for (std::size_t i = items * item_size; i < raw.size(); ++i)
    planes[i % item_size][items] = raw[i];

  stored_.resize(4 * item_size);
  for (std::size_t p = 0; p < item_size; ++p) {
    const std::size_t before = stored_.size();
    GOLDENTRACE_RETURN_IF_ERROR(add_plane({planes[p], plane_size(raw.size(), item_size, p)}, how));
    put32(&stored_[4 * p], stored_.size() - before);
  }
  Stored best{Codec::kZstdPlanes, static_cast<std::uint8_t>(item_size), stored_};
  if (how == ValueCompression::kSmall) {
    trial_.resize(std::max(trial_.size(), ZSTD_compressBound(raw.size())));
    const auto size = frame(raw, kSmallLevel, false, trial_);
    if (!size.ok()) return size.status();
    if (*size < best.bytes.size()) best = {Codec::kZstd, 0, std::span(trial_).first(*size)};
  }
  if (best.bytes.size() >= raw.size()) return Stored{Codec::kNone, 0, raw};
  return best;
}

struct Decompressor::Context {
  ZSTD_DCtx* zstd = ZSTD_createDCtx();
};

Decompressor::Decompressor() : context_(new Context) {
  if (context_->zstd != nullptr) return;
  delete context_;
  throw std::bad_alloc();
}

Decompressor::~Decompressor() {
  ZSTD_freeDCtx(context_->zstd);
  delete context_;
}

// A frame that check_frame() has let through.
Status Decompressor::frame(std::span<const std::byte> stored, std::span<std::byte> out) {
  const std::size_t size =
      ZSTD_decompressDCtx(context_->zstd, out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  if (ZSTD_isError(size) != 0U || size != out.size()) {
    return corrupt("zstd data does not decode to the promised size");
  }
  return {};
}

Status Decompressor::planes(std::span<const std::byte> stored, std::size_t width,
                            std::size_t raw_size, std::vector<std::byte>& out) {
  if (!known_item_size(width)) return corrupt("planes of an item size that the format lacks");
  if (stored.size() < 4 * width) return corrupt("planes end before their sizes");
  std::array<std::span<const std::byte>, kMaxItemSize> bodies;
  std::size_t at = 4 * width;
  std::size_t coded = 0;
  for (std::size_t p = 0; p < width; ++p) {
    const std::size_t size = get32(stored, 4 * p);
    const std::size_t want = plane_size(raw_size, width, p);
    if (size > stored.size() - at) return corrupt("plane reaches past the stored bytes");
    if (size > want) return corrupt("plane is larger stored than raw");
    bodies[p] = stored.subspan(at, size);
    at += size;
    if (size == want) continue;
    GOLDENTRACE_RETURN_IF_ERROR(check_frame(bodies[p], want));
    coded += want;
  }
  if (at != stored.size()) return corrupt("bytes are left over after the planes");
  out.resize(raw_size);
  if (planes_.size() < coded) planes_.resize(coded);
  std::span<std::byte> room = planes_;
  std::array<const std::byte*, kMaxItemSize> planes{};
  for (std::size_t p = 0; p < width; ++p) {
    planes[p] = bodies[p].data();
    const std::size_t want = plane_size(raw_size, width, p);
    if (bodies[p].size() == want) continue;
    GOLDENTRACE_RETURN_IF_ERROR(frame(bodies[p], room.first(want)));
    planes[p] = room.data();
    room = room.subspan(want);
  }
  const std::size_t items = raw_size / width;
  switch (width) {
    case 1:
      join_planes<1>(out.data(), items, planes);
      break;
    case 2:
      join_planes<2>(out.data(), items, planes);
      break;
    case 4:
      join_planes<4>(out.data(), items, planes);
      break;
    default:
      join_planes<8>(out.data(), items, planes);
      break;
  }
  for (std::size_t i = items * width; i < raw_size; ++i) out[i] = planes[i % width][items];
  constexpr std::size_t kKept = 16u << 20;  // more is rarely wanted again
  if (planes_.size() > kKept) planes_ = std::vector<std::byte>();
  return {};
}

Status Decompressor::decode(const ChunkHeader& header, std::span<const std::byte> stored,
                            std::vector<std::byte>& out) {
  if (header.codec > Codec::kZstdPlanes) {
    return {Code::kUnsupported, "codec " + std::to_string(static_cast<unsigned>(header.codec)) +
                                    " is not known to this build"};
  }
  if (header.codec != Codec::kZstdPlanes && header.item_size != 0) {
    return corrupt("item size of a codec that has none");
  }
  // A frame's own size may be absent or a lie; the header's, already capped, is what is allocated.
  switch (header.codec) {
    case Codec::kNone:
      if (stored.size() != header.raw_size) return corrupt("stored and raw size differ");
      out.assign(stored.begin(), stored.end());
      return {};
    case Codec::kZstd:
      GOLDENTRACE_RETURN_IF_ERROR(check_frame(stored, header.raw_size));
      out.resize(header.raw_size);
      return frame(stored, out);
    case Codec::kZstdPlanes:
      break;
  }
  return planes(stored, header.item_size, header.raw_size, out);
}

Status decompress(const ChunkHeader& header, std::span<const std::byte> stored,
                  std::vector<std::byte>& out) {
  return Decompressor().decode(header, stored, out);
}

}  // namespace goldentrace
