#include "replayer/align/align.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace goldentrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using Calls = std::vector<StepCall>;

// One call a letter: the letter is what the call is (operator and shapes), `scope` where it is.
Calls program(const std::string& letters, std::uint32_t scope = 1) {
  Calls calls;
  for (const char letter : letters) {
    StepCall call;
    call.number = calls.size();
    call.scope = scope;
    call.key = static_cast<std::uint64_t>(letter);
    calls.push_back(call);
  }
  return calls;
}

Calls operator+(Calls left, const Calls& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST(Align, MatchesEveryCallOfTheSameProgram) {
  const Calls calls = program("abc", 1) + program("ab", 2) + program("c", 1);
  const Alignment alignment = align(calls, calls);
  EXPECT_THAT(alignment.matched,
              ElementsAre(Pair(0, 0), Pair(1, 1), Pair(2, 2), Pair(3, 3), Pair(4, 4), Pair(5, 5)));
  EXPECT_THAT(alignment.only_oracle, IsEmpty());
  EXPECT_THAT(alignment.only_candidate, IsEmpty());
}

TEST(Align, LeavesTheNeighboursOfADifferenceMatched) {
  using List = std::vector<std::uint32_t>;
  struct Case {
    const char* why;
    Calls oracle, candidate;
    std::size_t matched;
    List only_oracle, only_candidate;
  };
  const Case cases[] = {
      {"one call missing", program("abcde"), program("abde"), 4, {2}, {}},
      {"one call inserted", program("abde"), program("abcde"), 4, {}, {2}},
      {"missing at the ends", program("abcd"), program("bc"), 2, {0, 3}, {}},
      {"one call replaced", program("abc"), program("axc"), 2, {1}, {1}},
      {"two calls swapped: one of them stays", program("abcd"), program("acbd"), 3, {1}, {2}},
      {"a repeated call made once less", program("aaaa"), program("aaa"), 3, {3}, {}},
      {"another operator or shape never matches",
       program("aaa"),
       program("bbb"),
       0,
       {0, 1, 2},
       {0, 1, 2}},
      {"the same call in another module never matches",
       program("a", 1),
       program("a", 2),
       0,
       {0},
       {0}},
      {"no calls in the candidate", program("ab"), {}, 0, {0, 1}, {}},
      {"no calls in the oracle", {}, program("ab"), 0, {}, {0, 1}},
      {"no calls at all", {}, {}, 0, {}, {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Alignment alignment = align(c.oracle, c.candidate);
    EXPECT_EQ(alignment.matched.size(), c.matched);
    EXPECT_EQ(alignment.only_oracle, c.only_oracle);
    EXPECT_EQ(alignment.only_candidate, c.only_candidate);
  }
}

// Branches that run side by side may be scheduled in any order.
TEST(Align, FollowsModulesThatRunInAnotherOrder) {
  const Alignment alignment =
      align(program("ab", 1) + program("cd", 2), program("cd", 2) + program("ab", 1));
  EXPECT_THAT(alignment.matched, ElementsAre(Pair(0, 2), Pair(1, 3), Pair(2, 0), Pair(3, 1)));
}

TEST(Align, FollowsModulesThatInterleave) {
  const Alignment alignment =
      align(program("a", 1) + program("x", 2) + program("b", 1) + program("y", 2),
            program("ab", 1) + program("xy", 2));
  EXPECT_THAT(alignment.matched, ElementsAre(Pair(0, 0), Pair(1, 2), Pair(2, 1), Pair(3, 3)));
}

// The table would take 3,000 x 3,000 cells: what can't be decided is left unmatched, the equal ends
// are not.
TEST(Align, EndsOnAHugeModuleAndKeepsItsEqualEnds) {
  std::string left = "begin";
  std::string right = "begin";
  for (int i = 0; i < 3000; ++i) {
    left += static_cast<char>('A' + i % 7);
    right += static_cast<char>('A' + i % 5);
  }
  const Calls oracle = program(left + "end");
  const Calls candidate = program(right + "end");
  const Alignment alignment = align(oracle, candidate);
  ASSERT_GT(alignment.matched.size(), 8u);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(alignment.matched[i], std::pair(i, i));
  const auto last = static_cast<std::uint32_t>(oracle.size() - 1);
  EXPECT_EQ(alignment.matched.back(), std::pair(last, last));
  EXPECT_EQ(alignment.matched.size() + alignment.only_oracle.size(), oracle.size());
}

std::size_t brute_force_length(const Calls& left, const Calls& right) {
  std::vector<std::vector<std::size_t>> best(left.size() + 1,
                                             std::vector<std::size_t>(right.size() + 1, 0));
  for (std::size_t i = 1; i <= left.size(); ++i) {
    for (std::size_t j = 1; j <= right.size(); ++j) {
      best[i][j] = left[i - 1].key == right[j - 1].key ? best[i - 1][j - 1] + 1
                                                       : std::max(best[i - 1][j], best[i][j - 1]);
    }
  }
  return best[left.size()][right.size()];
}

TEST(Align, IsSortedOneToOneAndAsLongAsItCanBe) {
  std::mt19937 generator(7);
  const auto random_program = [&] {
    Calls calls;
    const std::size_t size = generator() % 25;
    for (std::size_t i = 0; i < size; ++i) {
      calls = std::move(calls) + program(std::string(1, static_cast<char>('a' + generator() % 4)),
                                         static_cast<std::uint32_t>(1 + generator() % 3));
    }
    return calls;
  };
  const auto in_scope = [](const Calls& calls, std::uint32_t scope) {
    Calls some;
    for (const StepCall& call : calls) {
      if (call.scope == scope) some.push_back(call);
    }
    return some;
  };
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const Calls oracle = random_program();
    const Calls candidate = random_program();
    const Alignment alignment = align(oracle, candidate);

    std::vector<int> oracle_uses(oracle.size(), 0);
    std::vector<int> candidate_uses(candidate.size(), 0);
    std::map<std::uint32_t, std::int64_t> last_of_scope;
    EXPECT_TRUE(std::is_sorted(alignment.matched.begin(), alignment.matched.end()));
    for (const auto& [left, right] : alignment.matched) {
      EXPECT_EQ(oracle[left].key, candidate[right].key);
      ASSERT_EQ(oracle[left].scope, candidate[right].scope);
      auto& last = last_of_scope.try_emplace(oracle[left].scope, -1).first->second;
      EXPECT_GT(static_cast<std::int64_t>(right), last) << "order inside a module is kept";
      last = right;
      ++oracle_uses[left];
      ++candidate_uses[right];
    }
    for (const std::uint32_t i : alignment.only_oracle) ++oracle_uses[i];
    for (const std::uint32_t i : alignment.only_candidate) ++candidate_uses[i];
    EXPECT_TRUE(std::all_of(oracle_uses.begin(), oracle_uses.end(), [](int n) { return n == 1; }));
    EXPECT_TRUE(
        std::all_of(candidate_uses.begin(), candidate_uses.end(), [](int n) { return n == 1; }));
    std::size_t longest = 0;
    for (std::uint32_t scope = 1; scope <= 3; ++scope) {
      longest += brute_force_length(in_scope(oracle, scope), in_scope(candidate, scope));
    }
    EXPECT_EQ(alignment.matched.size(), longest);
  }
}

}  // namespace
}  // namespace goldentrace
