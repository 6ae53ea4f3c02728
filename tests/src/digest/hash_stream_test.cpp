// Bytes that come in pieces have the hash that they have at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/digest/digest.h"

namespace goldentrace {
namespace {

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

TEST(HashStream, GivesTheHashOfTheWholeWhateverThePieces) {
  for (const std::size_t size : {0u, 1u, 4095u, 4096u, 4097u, 8192u, 528389u}) {
    const auto bytes = pattern(size);
    for (const std::size_t piece : {1u, 7u, 1000u, 4095u, 4096u, 4097u, 100000u}) {
      if (piece == 1 && size > 10000) continue;
      SCOPED_TRACE(std::to_string(size) + " in pieces of " + std::to_string(piece));
      HashStream stream;
      for (std::size_t at = 0; at < size; at += piece) {
        stream.add(std::span(bytes).subspan(at, std::min(piece, size - at)));
        stream.add({});
      }
      EXPECT_EQ(stream.finish(), hash_bytes(bytes));
    }
  }
}

}  // namespace
}  // namespace goldentrace
