// `--rule` texts: what they mean, and which are refused.
#include "recorder/keep_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace goldentrace {
namespace {

using ::testing::HasSubstr;

struct Good {
  const char* text;
  const char* scope;
  const char* op;
  std::uint32_t first_step, last_step;
  DigestLevel level;
};

constexpr std::uint32_t kLast = 0xffffffffu;

TEST(KeepRule, ParsesEachKey) {
  const Good cases[] = {
      {":values", "**", "**", 0, kLast, DigestLevel::kValues},
      {"scope=model.layers.3.**:hash", "model.layers.3.**", "**", 0, kLast, DigestLevel::kHash},
      {"op=aten::mul:values", "**", "aten::mul", 0, kLast, DigestLevel::kValues},
      {"op=aten::mul.Tensor:stats", "**", "aten::mul.Tensor", 0, kLast, DigestLevel::kStats},
      {"op=aten::*,step=3:stats", "**", "aten::*", 3, 3, DigestLevel::kStats},
      {"step=0..4,scope=m,op=o:values", "m", "o", 0, 4, DigestLevel::kValues},
      {":none", "**", "**", 0, kLast, DigestLevel::kNone},
      {":sketch", "**", "**", 0, kLast, DigestLevel::kSketch},
      {"step=7..7:hash", "**", "**", 7, 7, DigestLevel::kHash},
      {"step=4294967295:hash", "**", "**", kLast, kLast, DigestLevel::kHash},
  };
  for (const Good& want : cases) {
    SCOPED_TRACE(want.text);
    const auto rule = parse_keep_rule(want.text);
    ASSERT_TRUE(rule.ok()) << rule.status().message();
    EXPECT_EQ(rule->scope, want.scope);
    EXPECT_EQ(rule->op, want.op);
    EXPECT_EQ(rule->first_step, want.first_step);
    EXPECT_EQ(rule->last_step, want.last_step);
    EXPECT_EQ(rule->level, want.level);
  }
}

TEST(KeepRule, RefusesEachMistakeByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no digest"},
      {"values", "no digest"},
      {"op=aten::mul", "no digest"},
      {"op=aten::mul:", "unknown digest ''"},
      {"op=aten::mul:Values", "unknown digest 'Values'"},
      {"op=aten::mul:values ", "unknown digest 'values '"},
      {"scope:values", "'scope' is not key=glob"},
      {"scope=a,,op=b:values", "'' is not key=glob"},
      {",scope=a:values", "'' is not key=glob"},
      {"scope=a,:values", "'' is not key=glob"},
      {"module=a:values", "unknown key 'module'"},
      {"Scope=a:values", "unknown key 'Scope'"},
      {"step=:values", "step is not"},
      {"step=x:values", "step is not"},
      {"step=-1:values", "step is not"},
      {"step=1.5:values", "step is not"},
      {"step=3..:values", "step is not"},
      {"step=..3:values", "step is not"},
      {"step=4..3:values", "step is not"},
      {"step=4294967296:values", "step is not"},
  };
  for (const auto& [text, why] : cases) {
    SCOPED_TRACE(text);
    const auto rule = parse_keep_rule(text);
    EXPECT_EQ(rule.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(rule.status().message(), HasSubstr(why));
    EXPECT_THAT(rule.status().message(), HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(KeepRules, TheLastRuleThatMatchesDecides) {
  const KeepRules rules(Keep::kGolden,
                        {*parse_keep_rule("scope=model.**:hash"),
                         *parse_keep_rule("op=aten::mul:values"), *parse_keep_rule("step=2:none")});
  EXPECT_FALSE(rules.uniform());
  const auto level = [&](const char* scope, const char* op, std::uint32_t step) {
    return rules.level(scope, op, std::string(op) + ".Tensor", step).level;
  };
  EXPECT_EQ(level("head", "aten::add", 0), DigestLevel::kSketch) << "what --keep says";
  EXPECT_EQ(level("model.norm", "aten::add", 0), DigestLevel::kHash);
  EXPECT_EQ(level("model.norm", "aten::mul", 0), DigestLevel::kValues);
  EXPECT_EQ(level("model.norm", "aten::mul", 2), DigestLevel::kNone);
  EXPECT_FALSE(rules.level("head", "aten::add", "aten::add.Tensor", 0).by_rule);
  EXPECT_TRUE(rules.level("model.norm", "aten::add", "aten::add.Tensor", 0).by_rule);
}

TEST(KeepRules, AnOperatorGlobMatchesWithAndWithoutTheOverload) {
  for (const char* glob : {"aten::mul", "aten::mul.Tensor", "aten::mul.*", "aten::m*", "**"}) {
    SCOPED_TRACE(glob);
    const KeepRules rules(Keep::kGolden, {*parse_keep_rule("op=" + std::string(glob) + ":values")});
    EXPECT_EQ(rules.level("", "aten::mul", "aten::mul.Tensor", 0).level, DigestLevel::kValues);
    EXPECT_EQ(rules.level("", "aten::add", "aten::add.Tensor", 0).level,
              std::string(glob) == "**" ? DigestLevel::kValues : DigestLevel::kSketch);
  }
}

TEST(KeepRules, EachKeepHasItsLevelAndOnlyGoldenDropsWhatIsBetween) {
  const std::pair<const char*, DigestLevel> cases[] = {{"golden", DigestLevel::kSketch},
                                                       {"cuts", DigestLevel::kStats},
                                                       {"all", DigestLevel::kValues}};
  for (const auto& [name, level] : cases) {
    SCOPED_TRACE(name);
    const auto keep = parse_keep(name);
    ASSERT_TRUE(keep.ok());
    const KeepRules rules(*keep);
    EXPECT_TRUE(rules.uniform());
    EXPECT_EQ(rules.level("a", "b", "b", 9).level, level);
    EXPECT_FALSE(rules.dropped_later(4)) << "the fourth decode step";
    EXPECT_EQ(rules.dropped_later(5), *keep == Keep::kGolden);
  }
  EXPECT_THAT(parse_keep("gold").status().message(), HasSubstr("not 'gold'"));
  EXPECT_EQ(KeepRules().keep(), Keep::kGolden);
}

TEST(KeepRules, ARuleForWholeStepsIsTheSameForAllCalls) {
  EXPECT_TRUE(KeepRules(Keep::kGolden, {*parse_keep_rule("step=1:none")}).uniform());
  EXPECT_FALSE(KeepRules(Keep::kGolden, {*parse_keep_rule("op=aten::mul:none")}).uniform());
}

}  // namespace
}  // namespace goldentrace
