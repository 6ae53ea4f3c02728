#include "src/digest/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace goldentrace {
namespace {

// Feeds blocks of dense bytes into the hash tree. Every block but the last is kHashBlock long.
class TreeHash {
 public:
  TreeHash() { XXH3_128bits_reset(&state_); }

  // `bytes` continues the tensor; its length is a multiple of kHashBlock except at the end.
  void add(std::span<const std::byte> bytes) {
    total_ += bytes.size();
    for (std::size_t at = 0; at < bytes.size(); at += kHashBlock) {
      const std::size_t size = std::min(kHashBlock, bytes.size() - at);
      if (size == kHashBlock) {
        leaf(bytes.data() + at);
      } else {
        std::array<std::byte, kHashBlock> padded{};
        std::memcpy(padded.data(), bytes.data() + at, size);
        leaf(padded.data());
      }
    }
  }

  Hash128 finish() {
    push(total_);
    XXH3_128bits_update(&state_, pending_.data(), filled_ * sizeof(std::uint64_t));
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.low64, hash.high64};
  }

 private:
  void leaf(const std::byte* block) { push(XXH3_64bits(block, kHashBlock)); }

  // Little-endian hosts only, as are all that PyTorch runs on (checked at build time below).
  void push(std::uint64_t word) {
    pending_[filled_++] = word;
    if (filled_ == pending_.size()) {
      XXH3_128bits_update(&state_, pending_.data(), filled_ * sizeof(std::uint64_t));
      filled_ = 0;
    }
  }

  XXH3_state_t state_;
  std::array<std::uint64_t, 128> pending_;
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "leaves are hashed as they lie in memory");

template <typename T>
double to_double(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}
struct BFloat16 {};
struct Float16 {};
template <>
double to_double<BFloat16>(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bfloat16_to_float(bits);
}
template <>
double to_double<Float16>(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return float16_to_float(bits);
}

// One superblock: 64 lanes summed in fp64 without fused multiply-add, then lane 0 to 63 in order.
template <typename T>
void add_superblock(const std::byte* data, std::size_t size, std::size_t count, Stats& stats) {
  const bool first = stats.count == stats.nan + stats.positive_infinity + stats.negative_infinity +
                                        stats.sentinel;  // no ordinary element yet
  std::array<double, kStatsLanes> sum{};
  std::array<double, kStatsLanes> squares{};
  double min = INFINITY;
  double max = -INFINITY;
  std::uint64_t ordinary = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = to_double<T>(data + i * size);
    if (!(std::fabs(x) < kSentinel)) {  // NaN too
      if (std::isnan(x)) {
        ++stats.nan;
      } else if (std::isinf(x)) {
        ++(x > 0 ? stats.positive_infinity : stats.negative_infinity);
      } else {
        ++stats.sentinel;
      }
      continue;
    }
    ++ordinary;
    stats.zero += x == 0 ? 1u : 0u;
    min = std::min(min, x);
    max = std::max(max, x);
    sum[i % kStatsLanes] += x;
    squares[i % kStatsLanes] += x * x;
  }
  stats.count += count;
  if (ordinary == 0) return;
  // Adding +0 turns -0 into +0, so that the answer does not depend on which zero came first.
  stats.min = (first ? min : std::min(stats.min, min)) + 0.0;
  stats.max = (first ? max : std::max(stats.max, max)) + 0.0;
  double block_sum = 0;
  double block_squares = 0;
  for (std::size_t lane = 0; lane < kStatsLanes; ++lane) {
    block_sum += sum[lane];
    block_squares += squares[lane];
  }
  stats.sum += block_sum;
  stats.sum_squares += block_squares;
}

void add_stats(DType dtype, std::span<const std::byte> dense, Stats& stats) {
  const std::size_t size = item_size(dtype);
  const std::size_t count = dense.size() / size;
  for (std::size_t at = 0; at < count; at += kStatsSuperblock) {
    const std::byte* data = dense.data() + at * size;
    const std::size_t some = std::min(kStatsSuperblock, count - at);
    switch (dtype) {
      case DType::kBFloat16:
        add_superblock<BFloat16>(data, size, some, stats);
        break;
      case DType::kFloat16:
        add_superblock<Float16>(data, size, some, stats);
        break;
      case DType::kFloat32:
        add_superblock<float>(data, size, some, stats);
        break;
      default:
        add_superblock<double>(data, size, some, stats);
        break;
    }
  }
}

std::size_t element_count(const TensorView& tensor) {
  std::size_t count = 1;
  for (const std::int64_t size : tensor.sizes) count *= static_cast<std::size_t>(size);
  return count;
}

bool is_dense(const TensorView& tensor) {
  std::int64_t expected = 1;
  for (std::size_t d = tensor.sizes.size(); d-- > 0;) {
    if (tensor.sizes[d] == 1) continue;
    if (tensor.strides[d] != expected) return false;
    expected *= tensor.sizes[d];
  }
  return true;
}

// Calls `take(bytes)` with the tensor's dense bytes in order, in pieces that are a multiple of both
// the hash block and the stats superblock, except for the last.
template <typename Take>
void walk(const TensorView& tensor, Take take) {
  const std::size_t count = element_count(tensor);
  const std::size_t size = item_size(tensor.dtype);
  if (count == 0) return;
  if (is_dense(tensor)) {
    // In pieces that stay in the first-level cache between hash and stats.
    const std::size_t piece = kStatsSuperblock * size;
    for (std::size_t at = 0; at < count * size; at += piece) {
      take(std::span(tensor.data + at, std::min(piece, count * size - at)));
    }
    return;
  }
  std::vector<std::byte> gathered(kStatsSuperblock * size);
  std::size_t filled = 0;
  const std::size_t rank = tensor.sizes.size();
  std::vector<std::int64_t> index(rank, 0);
  const std::byte* at = tensor.data;
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(gathered.data() + filled, at, size);
    filled += size;
    if (filled == gathered.size()) {
      take(std::span<const std::byte>(gathered));
      filled = 0;
    }
    for (std::size_t d = rank; d-- > 0;) {
      const auto step = static_cast<std::ptrdiff_t>(size) * tensor.strides[d];
      if (++index[d] < tensor.sizes[d]) {
        at += step;
        break;
      }
      at -= step * (tensor.sizes[d] - 1);
      index[d] = 0;
    }
  }
  if (filled > 0) take(std::span<const std::byte>(gathered).first(filled));
}

}  // namespace

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  TreeHash hash;
  hash.add(bytes);
  return hash.finish();
}

Digest digest_tensor(const TensorView& tensor, bool with_stats) {
  Digest digest;
  TreeHash hash;
  const bool stats = with_stats && is_real_float(tensor.dtype);
  walk(tensor, [&](std::span<const std::byte> dense) {
    hash.add(dense);
    if (stats) add_stats(tensor.dtype, dense, digest.stats);
  });
  digest.hash = hash.finish();
  return digest;
}

std::vector<std::byte> dense_bytes(const TensorView& tensor) {
  std::vector<std::byte> bytes;
  bytes.reserve(element_count(tensor) * item_size(tensor.dtype));
  walk(tensor, [&](std::span<const std::byte> dense) {
    bytes.insert(bytes.end(), dense.begin(), dense.end());
  });
  return bytes;
}

}  // namespace goldentrace
