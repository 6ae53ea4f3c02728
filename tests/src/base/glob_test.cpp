#include "src/base/glob.h"

#include <gtest/gtest.h>

namespace goldentrace {
namespace {

TEST(Glob, MatchesWholeDottedPaths) {
  struct Case {
    const char* why;
    const char* pattern;
    const char* text;
    bool matches;
  };
  const Case cases[] = {
      {"empty matches empty", "", "", true},
      {"empty matches nothing else", "", "a", false},
      {"text without stars is itself", "model.norm", "model.norm", true},
      {"no match by prefix", "model", "model.norm", false},
      {"no match by suffix", "norm", "model.norm", false},
      {"star is one level", "model.layers.*.mlp", "model.layers.11.mlp", true},
      {"star stops at a dot", "model.*.mlp", "model.layers.0.mlp", false},
      {"star may be empty", "a*", "a", true},
      {"star in a name", "*_proj", "q_proj", true},
      {"star tries again", "*ab", "aab", true},
      {"two stars in one name", "*.q*j", "attn.q_proj", true},
      {"double star crosses dots", "model.**", "model.layers.0.mlp", true},
      {"double star may be empty", "model**", "model", true},
      {"double star needs the dot before it", "model.**", "model", false},
      {"double star in the middle", "**.mlp", "model.layers.0.mlp", true},
      {"star after double star", "**.*_proj", "model.layers.0.mlp.up_proj", true},
      {"double star alone matches the empty path", "**", "", true},
      {"question mark is one character", "layers.?", "layers.7", true},
      {"question mark is not two", "layers.?", "layers.77", false},
      {"question mark is no dot", "a?b", "a.b", false},
      {"question mark needs a character", "a?", "a", false},
      {"a dot is only a dot", "a.b", "axb", false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    EXPECT_EQ(glob_match(c.pattern, c.text), c.matches) << c.pattern << " on " << c.text;
  }
}

}  // namespace
}  // namespace goldentrace
