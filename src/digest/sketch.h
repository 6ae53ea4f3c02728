// The fixed choices of `sketch` (FORMAT.md, section 11), for host and device code.
//
// A superblock, 4,096 elements, is 64 blocks p of 64 elements l. Its 64 sums: element l of block p
// is added to sum l XOR sketch_place(p), with a minus where bit l of sketch_signs(p XOR mix.first)
// is set. Sum k of superblock s is then added to sum k XOR mix.place of the tensor, with a minus
// where bit k of mix.signs is set; mix is sketch_mix(s).
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define GOLDENTRACE_HOST_DEVICE __host__ __device__
#else
#define GOLDENTRACE_HOST_DEVICE
#endif

namespace goldentrace {

// splitmix64 (Steele, Lea, Flood 2014): number `index` of the sequence that starts with seed 0.
GOLDENTRACE_HOST_DEVICE constexpr std::uint64_t splitmix64(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

GOLDENTRACE_HOST_DEVICE constexpr std::uint64_t sketch_signs(std::uint32_t row) {
  return splitmix64(row);
}

// The six bits of `block` in reverse.
GOLDENTRACE_HOST_DEVICE constexpr std::uint32_t sketch_place(std::uint32_t block) {
  std::uint32_t place = 0;
  for (int bit = 0; bit < 6; ++bit) place |= ((block >> bit) & 1u) << (5 - bit);
  return place;
}

struct SketchMix {
  std::uint64_t signs;
  std::uint32_t place;  // below 64, like `first`
  std::uint32_t first;
};

GOLDENTRACE_HOST_DEVICE constexpr SketchMix sketch_mix(std::uint64_t superblock) {
  const std::uint64_t signs = splitmix64(64 + 2 * superblock);
  const std::uint64_t places = splitmix64(65 + 2 * superblock);
  return {signs, static_cast<std::uint32_t>(places & 63), static_cast<std::uint32_t>(places >> 58)};
}

}  // namespace goldentrace
