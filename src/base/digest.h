// What is kept of a tensor, as plain data. How it is computed: src/digest/; the definitions:
// FORMAT.md.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace goldentrace {

// The `hash` digest: 128 bits over a tensor's dense row-major bytes.
struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  auto operator<=>(const Hash128&) const = default;
};

// 32 lower-case hexadecimal digits, high half first (as XXH3-128's canonical form is printed).
std::string to_hex(const Hash128& hash);

// The `stats` digest of a real float tensor. Elements that are NaN, infinite or sentinels (finite
// with |x| >= 1e30, what attention masks are filled with) are counted apart and left out of the
// four figures.
struct Stats {
  std::uint64_t count = 0;
  std::uint64_t nan = 0;
  std::uint64_t positive_infinity = 0;
  std::uint64_t negative_infinity = 0;
  std::uint64_t sentinel = 0;
  std::uint64_t zero = 0;  // +0 and -0; zeros are part of the four figures too
  double min = 0;          // 0 when no ordinary element exists, like max
  double max = 0;
  double sum = 0;
  double sum_squares = 0;
  bool operator==(const Stats&) const = default;
};

// The `sketch` digest of a real float tensor: 64 sums, linear in the tensor. The squared length of
// the difference of two sketches estimates that of the tensors' difference, with a relative
// standard error of sqrt(2/64) = 18 %.
inline constexpr std::size_t kSketchSums = 64;
using Sketch = std::array<float, kSketchSums>;

}  // namespace goldentrace
