#include "src/digest/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

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

// The elements of dense arrays as doubles, for the compiler to unroll.
template <DType dtype>
constexpr std::size_t sizeof_real() {
  return dtype == DType::kFloat64 ? 8 : dtype == DType::kFloat32 ? 4 : 2;
}

template <typename T>
[[gnu::always_inline]] inline T load(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <DType dtype>
[[gnu::always_inline]] inline double load_real_inline(const std::byte* data, std::size_t i) {
  if constexpr (dtype == DType::kBFloat16) {
    return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(data, i)} << 16);
  } else if constexpr (dtype == DType::kFloat16) {
    return float16_to_float(load<std::uint16_t>(data, i));
  } else if constexpr (dtype == DType::kFloat32) {
    return load<float>(data, i);
  } else {
    return load<double>(data, i);
  }
}

// ---- stats --------------------------------------------------------------------------------------

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One superblock's sums by lane. No fused multiply-add (the build forbids contraction), so that
// every instruction set gives the same answer.
struct Lanes {
  alignas(64) std::array<double, kStatsLanes> sum{};
  alignas(64) std::array<double, kStatsLanes> squares{};
  alignas(64) std::array<double, kStatsLanes> min;
  alignas(64) std::array<double, kStatsLanes> max;
  alignas(64) std::array<double, kStatsLanes> zero{};
  alignas(64) std::array<double, kStatsLanes> ordinary{};

  Lanes() {
    min.fill(kInfinity);
    max.fill(-kInfinity);
  }
};

// Elements [0, count), count <= kStatsLanes, of one row. What is not ordinary adds 0, which changes
// no sum: sums begin at +0.
template <DType dtype>
[[gnu::always_inline]] inline void add_row(const std::byte* data, std::size_t count, Lanes& lanes) {
  alignas(64) std::array<double, kStatsLanes> row;
  for (std::size_t i = 0; i < count; ++i) row[i] = load_real_inline<dtype>(data, i);
  for (std::size_t i = 0; i < count; ++i) {
    const double x = row[i];
    const bool ordinary = std::fabs(x) < kSentinel;  // false for NaN
    const double value = ordinary ? x : 0.0;
    lanes.sum[i] += value;
    lanes.squares[i] += value * value;
    lanes.min[i] = ordinary && x < lanes.min[i] ? x : lanes.min[i];
    lanes.max[i] = ordinary && x > lanes.max[i] ? x : lanes.max[i];
    lanes.zero[i] += x == 0 ? 1.0 : 0.0;
    lanes.ordinary[i] += ordinary ? 1.0 : 0.0;
  }
}

template <DType dtype>
[[gnu::always_inline]] inline void add_rows(const std::byte* data, std::size_t count,
                                            Lanes& lanes) {
  constexpr std::size_t kRowBytes = kStatsLanes * sizeof_real<dtype>();
  for (; count >= kStatsLanes; count -= kStatsLanes, data += kRowBytes) {
    add_row<dtype>(data, kStatsLanes, lanes);
  }
  if (count > 0) add_row<dtype>(data, count, lanes);
}

// One compiled version an instruction set, chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define GOLDENTRACE_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define GOLDENTRACE_CLONES
#endif

using AddRows = void (*)(const std::byte*, std::size_t, Lanes&);
GOLDENTRACE_CLONES void add_bfloat16(const std::byte* data, std::size_t count, Lanes& lanes) {
  add_rows<DType::kBFloat16>(data, count, lanes);
}
GOLDENTRACE_CLONES void add_float16(const std::byte* data, std::size_t count, Lanes& lanes) {
  add_rows<DType::kFloat16>(data, count, lanes);
}
GOLDENTRACE_CLONES void add_float32(const std::byte* data, std::size_t count, Lanes& lanes) {
  add_rows<DType::kFloat32>(data, count, lanes);
}
GOLDENTRACE_CLONES void add_float64(const std::byte* data, std::size_t count, Lanes& lanes) {
  add_rows<DType::kFloat64>(data, count, lanes);
}

AddRows add_rows_of(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return add_bfloat16;
    case DType::kFloat16:
      return add_float16;
    case DType::kFloat32:
      return add_float32;
    default:
      return add_float64;
  }
}

// Rare: says what kind the elements are that are not ordinary.
void count_extraordinary(DType dtype, const std::byte* data, std::size_t count, Stats& stats) {
  for (std::size_t i = 0; i < count; ++i) {
    const double x = load_real(dtype, data, i);
    if (std::fabs(x) < kSentinel) continue;
    if (std::isnan(x)) {
      ++stats.nan;
    } else if (std::isinf(x)) {
      ++(x > 0 ? stats.positive_infinity : stats.negative_infinity);
    } else {
      ++stats.sentinel;
    }
  }
}

void add_superblock(DType dtype, const std::byte* data, std::size_t count, Stats& stats) {
  const bool first = stats.count == stats.nan + stats.positive_infinity + stats.negative_infinity +
                                        stats.sentinel;  // no ordinary element yet
  Lanes lanes;
  add_rows_of(dtype)(data, count, lanes);
  double ordinary = 0;
  double zero = 0;
  double sum = 0;
  double squares = 0;
  double min = kInfinity;
  double max = -kInfinity;
  for (std::size_t lane = 0; lane < kStatsLanes; ++lane) {
    ordinary += lanes.ordinary[lane];
    zero += lanes.zero[lane];
    sum += lanes.sum[lane];
    squares += lanes.squares[lane];
    min = std::min(min, lanes.min[lane]);
    max = std::max(max, lanes.max[lane]);
  }
  stats.count += count;
  stats.zero += static_cast<std::uint64_t>(zero);
  if (static_cast<std::size_t>(ordinary) != count) count_extraordinary(dtype, data, count, stats);
  if (ordinary == 0) return;
  // Adding +0 turns -0 into +0, so that the answer does not depend on which zero came first.
  stats.min = (first ? min : std::min(stats.min, min)) + 0.0;
  stats.max = (first ? max : std::max(stats.max, max)) + 0.0;
  stats.sum += sum;
  stats.sum_squares += squares;
}

void add_stats(DType dtype, std::span<const std::byte> dense, Stats& stats) {
  const std::size_t size = item_size(dtype);
  const std::size_t count = dense.size() / size;
  for (std::size_t at = 0; at < count; at += kStatsSuperblock) {
    add_superblock(dtype, dense.data() + at * size, std::min(kStatsSuperblock, count - at), stats);
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

struct HashStream::State {
  TreeHash tree;
  std::array<std::byte, kHashBlock> block;  // the beginning of one that is not full yet
  std::size_t filled = 0;
};

HashStream::HashStream() : state_(std::make_unique<State>()) {}
HashStream::~HashStream() = default;
HashStream::HashStream(HashStream&&) noexcept = default;
HashStream& HashStream::operator=(HashStream&&) noexcept = default;

void HashStream::add(std::span<const std::byte> bytes) {
  State& state = *state_;
  if (state.filled > 0) {
    const std::size_t taken = std::min(bytes.size(), kHashBlock - state.filled);
    std::copy_n(bytes.begin(), taken,
                state.block.begin() + static_cast<std::ptrdiff_t>(state.filled));
    state.filled += taken;
    bytes = bytes.subspan(taken);
    if (state.filled < kHashBlock) return;
    state.tree.add(state.block);
    state.filled = 0;
  }
  const std::size_t whole = bytes.size() / kHashBlock * kHashBlock;
  state.tree.add(bytes.first(whole));
  std::ranges::copy(bytes.subspan(whole), state.block.begin());
  state.filled = bytes.size() - whole;
}

Hash128 HashStream::finish() {
  state_->tree.add(std::span(state_->block).first(state_->filled));
  return state_->tree.finish();
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

void write_dense(const TensorView& tensor, std::span<std::byte> out) {
  walk(tensor, [&](std::span<const std::byte> dense) {
    std::memcpy(out.data(), dense.data(), dense.size());
    out = out.subspan(dense.size());
  });
}

}  // namespace goldentrace
