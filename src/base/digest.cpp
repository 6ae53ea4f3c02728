#include "src/base/digest.h"

namespace goldentrace {

std::string to_hex(const Hash128& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint64_t half = i < 8 ? hash.high : hash.low;
    const auto byte = static_cast<unsigned>((half >> (8 * (7 - i % 8))) & 0xffu);
    text[2 * i] = kDigits[byte >> 4];
    text[2 * i + 1] = kDigits[byte & 0xfu];
  }
  return text;
}

}  // namespace goldentrace
