// The digest in small steps, for many threads that work together: what a CUDA kernel runs. A step
// gives on the host the bits that it gives on the device, so that tests need no GPU. The host
// itself uses superblock.h and hash.h, which are made for vectors.
//
// Elements come as 64-bit words, as they lie in little-endian memory, one *unit* at a time: a
// superblock, or half of one where elements have 16 bytes, so that it fits into shared memory. A
// unit is a whole number of hash blocks, padded with zeros where the tensor ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/digest/sketch.h"

namespace goldentrace {

inline constexpr std::size_t kLeafWords = 512;  // 64-bit words of a hash block

GOLDENTRACE_HOST_DEVICE constexpr std::size_t unit_elements(std::size_t item_size) {
  return item_size == 16 ? 2048 : 4096;
}

// ---- leaf: XXH3-64, seed 0, of 4,096 bytes ----------------------------------------------------
//
// Every stripe of eight words goes to eight accumulators. Within a quarter of the block, 16
// stripes, they only add: quarters may be summed up at the same time. Between quarters an
// accumulator is scrambled; at the end the eight are merged.

inline constexpr unsigned kAccumulators = 8;
inline constexpr unsigned kQuarters = 4;
inline constexpr unsigned kStripes = 16;  // of a quarter

// XXH3's default secret, from a byte on.
GOLDENTRACE_HOST_DEVICE inline std::uint64_t leaf_secret(unsigned byte) {
  static constexpr std::uint64_t kWords[24] = {
      0xbe4ba423396cfeb8u, 0x1cad21f72c81017cu, 0xdb979083e96dd4deu, 0x1f67b3b7a4a44072u,
      0x78e5c0cc4ee679cbu, 0x2172ffcc7dd05a82u, 0x8e2443f7744608b8u, 0x4c263a81e69035e0u,
      0xcb00c391bb52283cu, 0xa32e531b8b65d088u, 0x4ef90da297486471u, 0xd8acdea946ef1938u,
      0x3f349ce33f76faa8u, 0x1d4f0bc7c7bbdcf9u, 0x3159b4cd4be0518au, 0x647378d9c97e9fc8u,
      0xc3ebd33483acc5eau, 0xeb6313faffa081c5u, 0x49daf0b751dd0d17u, 0x9e68d429265516d3u,
      0xfca1477d58be162bu, 0xce31d07ad1b8f88fu, 0x280416958f3acb45u, 0x7e404bbbcafbd7afu};
  const unsigned word = byte / 8;
  const unsigned shift = byte % 8 * 8;
  if (shift == 0) return kWords[word];
  return (kWords[word] >> shift) | (kWords[word + 1] << (64 - shift));
}

// Where an accumulator starts.
GOLDENTRACE_HOST_DEVICE inline std::uint64_t leaf_start(unsigned accumulator) {
  static constexpr std::uint64_t kStarts[kAccumulators] = {
      0x00000000c2b2ae3du, 0x9e3779b185ebca87u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
      0x85ebca77c2b2ae63u, 0x0000000085ebca77u, 0x27d4eb2f165667c5u, 0x000000009e3779b1u};
  return kStarts[accumulator];
}

// What a quarter of `block` adds to an accumulator.
GOLDENTRACE_HOST_DEVICE inline std::uint64_t quarter_sum(const std::uint64_t* block,
                                                         unsigned quarter, unsigned accumulator) {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < kStripes; ++i) {
    const std::uint64_t* const stripe = block + (quarter * kStripes + i) * kAccumulators;
    // The last stripe of all has a piece of the secret for itself.
    const bool last = quarter == kQuarters - 1 && i == kStripes - 1;
    const std::uint64_t key =
        stripe[accumulator] ^ leaf_secret(last ? 121 + 8 * accumulator : 8 * (i + accumulator));
    sum += stripe[accumulator ^ 1u] + (key & 0xffffffffu) * (key >> 32);
  }
  return sum;
}

GOLDENTRACE_HOST_DEVICE inline std::uint64_t scramble(std::uint64_t value, unsigned accumulator) {
  return (value ^ (value >> 47) ^ leaf_secret(128 + 8 * accumulator)) * 0x9e3779b1u;
}

// What accumulators 2 * `pair` and 2 * `pair` + 1 give to the leaf.
GOLDENTRACE_HOST_DEVICE inline std::uint64_t merge_pair(std::uint64_t even, std::uint64_t odd,
                                                        unsigned pair) {
  const auto left = static_cast<unsigned __int128>(even ^ leaf_secret(11 + 16 * pair));
  const unsigned __int128 product = left * (odd ^ leaf_secret(19 + 16 * pair));
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// From the sum of the four pairs.
GOLDENTRACE_HOST_DEVICE inline std::uint64_t finish_leaf(std::uint64_t pairs) {
  std::uint64_t leaf = pairs + kLeafWords * 8 * 0x9e3779b185ebca87u;
  leaf = (leaf ^ (leaf >> 37)) * 0x165667919e3779f9u;
  return leaf ^ (leaf >> 32);
}

// All of it, one after the other.
GOLDENTRACE_HOST_DEVICE inline std::uint64_t leaf_of(const std::uint64_t* block) {
  std::uint64_t at[kAccumulators];
  for (unsigned a = 0; a < kAccumulators; ++a) {
    at[a] = leaf_start(a) + quarter_sum(block, 0, a);
    for (unsigned q = 1; q < kQuarters; ++q) at[a] = scramble(at[a], a) + quarter_sum(block, q, a);
  }
  std::uint64_t pairs = 0;
  for (unsigned p = 0; p < kAccumulators / 2; ++p) pairs += merge_pair(at[2 * p], at[2 * p + 1], p);
  return finish_leaf(pairs);
}

// ---- elements ---------------------------------------------------------------------------------
//
// An element type: its size in bytes, whether it has stats and a sketch, and how its bits become
// the number that they are, as float if it fits.

template <std::size_t kBytes>
struct Opaque {
  static constexpr std::size_t kSize = kBytes;
  static constexpr bool kReal = false;
};

struct BFloat16 {
  static constexpr std::size_t kSize = 2;
  static constexpr bool kReal = true;
  GOLDENTRACE_HOST_DEVICE static float value(std::uint64_t bits) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits << 16));
  }
};

struct Float16 {
  static constexpr std::size_t kSize = 2;
  static constexpr bool kReal = true;
  GOLDENTRACE_HOST_DEVICE static float value(std::uint64_t bits) {
    const auto sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const auto exponent = static_cast<std::uint32_t>(bits >> 10) & 0x1fu;
    const auto fraction = static_cast<std::uint32_t>(bits & 0x3ffu);
    if (exponent == 0) {  // zero and denormals, which are ordinary numbers as float32
      const float size = static_cast<float>(fraction) * 0x1p-24F;
      return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, size) | sign);
    }
    const std::uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
    return __builtin_bit_cast(float, sign | (wide << 23) | (fraction << 13));
  }
};

struct Float32 {
  static constexpr std::size_t kSize = 4;
  static constexpr bool kReal = true;
  GOLDENTRACE_HOST_DEVICE static float value(std::uint64_t bits) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits));
  }
};

struct Float64 {
  static constexpr std::size_t kSize = 8;
  static constexpr bool kReal = true;
  GOLDENTRACE_HOST_DEVICE static double value(std::uint64_t bits) {
    return __builtin_bit_cast(double, bits);
  }
};

// Element `i` of a unit; of 8 bytes at most.
template <class Element>
GOLDENTRACE_HOST_DEVICE auto element_at(const std::uint64_t* unit, std::size_t i) {
  constexpr std::size_t kPerWord = 8 / Element::kSize;
  constexpr std::uint64_t kMask = ~std::uint64_t{0} >> (64 - 8 * Element::kSize);
  return Element::value((unit[i / kPerWord] >> (i % kPerWord * 8 * Element::kSize)) & kMask);
}

enum class ElementClass { kOrdinary, kZero, kSentinel, kPositiveInfinity, kNegativeInfinity, kNan };

// FORMAT.md's table. Zeros are ordinary too.
template <typename Value>
GOLDENTRACE_HOST_DEVICE ElementClass class_of(Value x) {
  // As a float32, 1e30 is rounded up, and no float32 lies between.
  constexpr auto kSentinel = static_cast<Value>(1e30);
  constexpr auto kInfinity = static_cast<Value>(__builtin_huge_val());
  if (x == 0) return ElementClass::kZero;
  if (-kSentinel < x && x < kSentinel) return ElementClass::kOrdinary;
  if (x == kInfinity) return ElementClass::kPositiveInfinity;
  if (x == -kInfinity) return ElementClass::kNegativeInfinity;
  return x == x ? ElementClass::kSentinel : ElementClass::kNan;
}

// ---- arithmetic -------------------------------------------------------------------------------
//
// Each is rounded on its own: nvcc never fuses these, whatever its flags; the host is compiled with
// -ffp-contract=off. Denormal numbers are numbers: neither -ftz=true nor --use_fast_math.

GOLDENTRACE_HOST_DEVICE inline double add(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}
GOLDENTRACE_HOST_DEVICE inline float add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
GOLDENTRACE_HOST_DEVICE inline double square(double x) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(x, x);
#else
  return x * x;
#endif
}

// ---- stats ------------------------------------------------------------------------------------

// Of a lane, a superblock, a tensor: each is the sum of those before it, in order. `min` is
// +infinity and `max` is -infinity where no element is ordinary.
struct PartialStats {
  double sum;
  double sum_squares;
  double min;
  double max;
  std::uint64_t nan;
  std::uint64_t positive_infinity;
  std::uint64_t negative_infinity;
  std::uint64_t sentinel;
  std::uint64_t zero;
};

GOLDENTRACE_HOST_DEVICE inline PartialStats no_stats() {
  return {0, 0, __builtin_huge_val(), -__builtin_huge_val(), 0, 0, 0, 0, 0};
}

GOLDENTRACE_HOST_DEVICE inline void add_stats(const PartialStats& next, PartialStats& total) {
  total.sum = add(total.sum, next.sum);
  total.sum_squares = add(total.sum_squares, next.sum_squares);
  total.min = next.min < total.min ? next.min : total.min;
  total.max = next.max > total.max ? next.max : total.max;
  total.nan += next.nan;
  total.positive_infinity += next.positive_infinity;
  total.negative_infinity += next.negative_infinity;
  total.sentinel += next.sentinel;
  total.zero += next.zero;
}

// Lane `lane` of a superblock of `count` elements.
template <class Element>
GOLDENTRACE_HOST_DEVICE PartialStats lane_stats(const std::uint64_t* superblock, std::size_t count,
                                                std::size_t lane) {
  PartialStats stats = no_stats();
  for (std::size_t i = lane; i < count; i += 64) {
    const auto value = element_at<Element>(superblock, i);
    switch (class_of(value)) {
      case ElementClass::kZero:
        ++stats.zero;
        [[fallthrough]];
      case ElementClass::kOrdinary: {
        const double x = value;
        stats.sum = add(stats.sum, x);
        stats.sum_squares = add(stats.sum_squares, square(x));
        if (x < stats.min) stats.min = x;
        if (x > stats.max) stats.max = x;
        break;
      }
      case ElementClass::kSentinel:
        ++stats.sentinel;
        break;
      case ElementClass::kPositiveInfinity:
        ++stats.positive_infinity;
        break;
      case ElementClass::kNegativeInfinity:
        ++stats.negative_infinity;
        break;
      case ElementClass::kNan:
        ++stats.nan;
        break;
    }
  }
  return stats;
}

// ---- sketch -----------------------------------------------------------------------------------

// Sum `k` of a superblock of `count` elements, before it is placed. `signs[row]` is
// sketch_signs(row), of all 64 rows.
template <class Element>
GOLDENTRACE_HOST_DEVICE float sketch_sum(const std::uint64_t* superblock, std::size_t count,
                                         std::uint32_t k, const SketchMix& mix,
                                         const std::uint64_t* signs) {
  float sum = 0;
  for (std::uint32_t p = 0; p < 64 && p * 64 < count; ++p) {
    const std::uint32_t l = k ^ sketch_place(p);
    if (p * 64 + l >= count) continue;
    const auto value = element_at<Element>(superblock, p * 64 + l);
    // What is not ordinary counts as +0, and no zero changes the sum.
    if (class_of(value) != ElementClass::kOrdinary) continue;
    const auto x = static_cast<float>(value);
    sum = add(sum, (signs[p ^ mix.first] >> l) & 1u ? -x : x);
  }
  return sum;
}

// Of a superblock, whose sums are placed; of a tensor.
struct PartialDigest {
  PartialStats stats;
  float sketch[64];
};

// Puts sum `k` of a superblock under the tensor's sum that it is added to.
GOLDENTRACE_HOST_DEVICE inline void place_sum(float sum, std::uint32_t k, const SketchMix& mix,
                                              PartialDigest& superblock) {
  superblock.sketch[k ^ mix.place] = (mix.signs >> k) & 1u ? -sum : sum;
}

// ---- tensors with gaps ------------------------------------------------------------------------

// Where the elements of a tensor lie, outer dimensions first; a kernel gets it by value. Rank 0 is
// for dense tensors of any shape.
struct GatherLayout {
  static constexpr int kMaxRank = 16;

  std::size_t count;
  int rank;
  std::size_t sizes[kMaxRank];
  std::ptrdiff_t steps[kMaxRank];  // in elements
};

// Of element `index` in row-major order, in elements from that with index 0, 0, ...
GOLDENTRACE_HOST_DEVICE inline std::ptrdiff_t offset_of(const GatherLayout& layout,
                                                        std::size_t index) {
  if (layout.rank == 0) return static_cast<std::ptrdiff_t>(index);
  std::ptrdiff_t offset = 0;
  for (int d = layout.rank - 1; d > 0; --d) {
    offset += static_cast<std::ptrdiff_t>(index % layout.sizes[d]) * layout.steps[d];
    index /= layout.sizes[d];
  }
  return offset + static_cast<std::ptrdiff_t>(index) * layout.steps[0];
}

}  // namespace goldentrace
