#include "src/base/flat_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace goldentrace {
namespace {

TEST(FlatIndex, TellsNumbersOfOneHashApart) {
  FlatIndex index;
  index.insert(7, 1);
  index.insert(7, 2);
  EXPECT_EQ(index.find(7, [](std::uint32_t n) { return n == 2; }), 2u);
  EXPECT_EQ(index.find(7, [](std::uint32_t n) { return n == 3; }), FlatIndex::kNone);
  EXPECT_EQ(index.find(8, [](std::uint32_t) { return true; }), FlatIndex::kNone);
  index.erase(7, 1);
  EXPECT_EQ(index.find(7, [](std::uint32_t) { return true; }), 2u);
  EXPECT_EQ(index.size(), 1u);
}

// Hashes that crowd into few places, so that most searches pass others' numbers.
TEST(FlatIndex, IsAMapWhateverIsInsertedAndErased) {
  FlatIndex index;
  std::map<std::uint32_t, std::uint64_t> expected;  // number -> hash
  std::mt19937 random(3);
  for (std::uint32_t i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 || expected.empty()) {
      const std::uint64_t hash = random() % 50 * 0x100000001;
      index.insert(hash, i);
      expected[i] = hash;
    } else {
      const auto victim =
          std::next(expected.begin(), random() % std::min<std::size_t>(expected.size(), 40));
      index.erase(victim->second, victim->first);
      expected.erase(victim);
    }
    if (i % 500 != 0) continue;
    ASSERT_EQ(index.size(), expected.size());
    for (const auto& [number, hash] : expected) {
      ASSERT_EQ(index.find(hash, [&](std::uint32_t n) { return n == number; }), number);
    }
    ASSERT_EQ(index.find(51 * 0x100000001ull, [](std::uint32_t) { return true; }),
              FlatIndex::kNone);
  }
}

}  // namespace
}  // namespace goldentrace
