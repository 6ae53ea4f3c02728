#include "replayer/verdict/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace goldentrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Text prompt_text() {
  Request request;
  request.prompt = "Hi there";
  request.prompt_ids = {1, 2, 3};
  request.prompt_pieces = {"<s>", "Hi", " there"};
  request.sampling = {{"do_sample", "false", "request"}, {"max_new_tokens", "8", "request"}};
  request.stop_ids = {2, 5};
  return {{request}, {}};
}

using ChangeText = std::function<void(Text&)>;

TEST(CompareInputs, SaysWhereTheTextsPart) {
  struct Case {
    const char* why;
    ChangeText oracle, candidate;
    RungStatus status;
    const char* text;
    std::vector<std::string> details;
  };
  const ChangeText as_is = [](Text&) {};
  const Case cases[] = {
      {"equal", as_is, as_is, RungStatus::kOk, "prompt text, 3 token ids", {}},
      {"text parts in the middle",
       as_is,
       [](Text& t) { t.requests[0].prompt = "Hi where"; },
       RungStatus::kDiff,
       "prompt text differs after 3 equal bytes",
       {"oracle     \"there\"", "candidate  \"where\""}},
      {"text parts at the start",
       as_is,
       [](Text& t) { t.requests[0].prompt = "\nHi"; },
       RungStatus::kDiff,
       "prompt text differs after 0 equal bytes",
       {"oracle     \"Hi there\"", "candidate  \"\\nHi\""}},
      {"one text goes on",
       as_is,
       [](Text& t) { t.requests[0].prompt += "!"; },
       RungStatus::kDiff,
       "prompt text differs after 8 equal bytes",
       {"oracle     \"\"", "candidate  \"!\""}},
      {"text on one side only: ids decide",
       as_is,
       [](Text& t) { t.requests[0].prompt.clear(); },
       RungStatus::kOk,
       "3 token ids",
       {}},
      {"one id differs",
       as_is,
       [](Text& t) { t.requests[0].prompt_ids[1] = 9; },
       RungStatus::kDiff,
       "token ids 3 / 3, first 1 equal",
       {"oracle     id 2 \"Hi\"", "candidate  id 9 \"Hi\""}},
      {"ids end early",
       as_is,
       [](Text& t) { t.requests[0].prompt_ids.pop_back(); },
       RungStatus::kDiff,
       "token ids 3 / 2, first 2 equal",
       {"oracle     id 3 \" there\"", "candidate  ends there"}},
      {"an id without a piece",
       as_is,
       [](Text& t) {
         t.requests[0].prompt_ids = {1, 2, 4};
         t.requests[0].prompt_pieces.clear();
       },
       RungStatus::kDiff,
       "token ids 3 / 3, first 2 equal",
       {"oracle     id 3 \" there\"", "candidate  id 4 \"\""}},
      {"no request in the candidate",
       as_is,
       [](Text& t) { t.requests.clear(); },
       RungStatus::kNotCompared,
       "prompt not in the evidence",
       {}},
      {"no request in the oracle",
       [](Text& t) { t.requests.clear(); },
       as_is,
       RungStatus::kNotCompared,
       "prompt not in the evidence",
       {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    Text oracle = prompt_text();
    Text candidate = prompt_text();
    c.oracle(oracle);
    c.candidate(candidate);
    const Rung rung = compare_inputs(oracle, candidate);
    EXPECT_EQ(rung.status, c.status);
    EXPECT_EQ(rung.text, c.text);
    EXPECT_EQ(rung.details, c.details);
  }
}

TEST(CompareInputs, ShowsTheBeginningOfALongDifference) {
  Text candidate = prompt_text();
  candidate.requests[0].prompt = std::string(5000, 'x');
  const Rung rung = compare_inputs(prompt_text(), candidate);
  EXPECT_EQ(rung.details[1], "candidate  \"" + std::string(40, 'x') + "..\"");
}

Parameter parameter(const std::string& name, std::uint64_t hash) {
  return {name, ParameterKind::kParameter, 0, {hash, 0}, Recipe::kSame, {name}, {}, 0};
}

TEST(CompareWeights, GoesByNameAndHash) {
  struct Case {
    const char* why;
    std::vector<Parameter> oracle, candidate;
    RungStatus status;
    const char* text;
    std::vector<std::string> details;
  };
  const Parameter a = parameter("a", 1);
  const Parameter b = parameter("b", 2);
  const Case cases[] = {
      {"equal", {a, b}, {a, b}, RungStatus::kOk, "2 of 2 by hash", {}},
      {"in another order", {a, b}, {b, a}, RungStatus::kOk, "2 of 2 by hash", {}},
      {"one differs",
       {a, b},
       {a, parameter("b", 3)},
       RungStatus::kDiff,
       "1 of 2 by hash, 1 differ",
       {"differs: b"}},
      {"only in the oracle",
       {a, b},
       {a},
       RungStatus::kDiff,
       "1 of 2 by hash",
       {"only in the oracle: b"}},
      {"only in the candidate",
       {a},
       {a, b},
       RungStatus::kDiff,
       "1 of 1 by hash",
       {"only in the candidate: b"}},
      {"renamed",
       {a},
       {parameter("A", 1)},
       RungStatus::kDiff,
       "0 of 1 by hash",
       {"only in the oracle: a", "only in the candidate: A"}},
      {"none in the candidate",
       {a},
       {},
       RungStatus::kNotCompared,
       "no parameter dictionary in the evidence",
       {}},
      {"none in the oracle",
       {},
       {a},
       RungStatus::kNotCompared,
       "no parameter dictionary in the evidence",
       {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Rung rung = compare_weights(c.oracle, c.candidate, true);
    EXPECT_EQ(rung.status, c.status);
    EXPECT_EQ(rung.text, c.text);
    EXPECT_EQ(rung.details, c.details);
  }
}

TEST(CompareConfig, ComparesEveryFieldThatSaysWhatTheModelIs) {
  struct Case {
    const char* why;
    const char* oracle;
    const char* candidate;
    RungStatus status;
    const char* text;
    std::vector<std::string> details;
  };
  const Case cases[] = {
      {"equal, keys in another order",
       R"({"a": 1, "b": 2})",
       R"({"b": 2, "a": 1})",
       RungStatus::kOk,
       "2 fields",
       {}},
      {"a nested field",
       R"({"rope": {"theta": 1e4, "type": "x"}})",
       R"({"rope": {"theta": 1e6, "type": "x"}})",
       RungStatus::kDiff,
       "1 of 2 fields differ",
       {"rope.theta: oracle 10000.0, candidate 1000000.0"}},
      {"a list",
       R"({"mixers": ["a", "b"]})",
       R"({"mixers": ["a", "a"]})",
       RungStatus::kDiff,
       "1 of 1 fields differ",
       {R"(mixers: oracle ["a","b"], candidate ["a","a"])"}},
      {"a field on one side",
       R"({"a": 1})",
       R"({"a": 1, "tied": true})",
       RungStatus::kDiff,
       "1 of 2 fields differ",
       {"tied: oracle absent, candidate true"}},
      {"how it is run and where it came from, at every level",
       R"({"a": 1, "_attn_implementation": "eager", "dtype": "float32", "_name_or_path": "x",
           "text": {"dtype": "float32", "transformers_version": "4"}})",
       R"({"a": 1, "_attn_implementation": "sdpa", "dtype": "bfloat16",
           "text": {"dtype": "bfloat16"}})",
       RungStatus::kOk,
       "1 fields",
       {}},
      {"no config",
       "",
       R"({"a": 1})",
       RungStatus::kNotCompared,
       "no model config in the evidence",
       {}},
      {"not JSON",
       R"({"a": 1})",
       "{\"a\": 1",
       RungStatus::kNotCompared,
       "no model config in the evidence",
       {}},
      {"not an object",
       "[1]",
       "[1]",
       RungStatus::kNotCompared,
       "no model config in the evidence",
       {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Rung rung = compare_config(c.oracle, c.candidate);
    EXPECT_EQ(rung.status, c.status);
    EXPECT_EQ(rung.text, c.text);
    EXPECT_EQ(rung.details, c.details);
  }
}

// A config comes from a file that anyone may have written: it must not run the stack out.
TEST(CompareConfig, SurvivesAnEndlesslyNestedConfig) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
  deep += "1" + std::string(100'000, '}');
  EXPECT_NE(compare_config(deep, deep).status, RungStatus::kDiff);
  EXPECT_NE(
      compare_config(R"({"list": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}",
                     R"({"list": 1})")
          .text,
      "");
}

// A long key is a part of the name of every field below it: 200 KB would unfold into 1 GB.
TEST(CompareConfig, DoesNotUnfoldALongKeyOverManyFields) {
  std::string config = "{\"" + std::string(100'000, 'k') + "\": {";
  for (int i = 0; i < 10'000; ++i) config += "\"f" + std::to_string(i) + "\": 1,";
  config += "\"last\": 1}}";
  const Rung rung = compare_config(config, config);
  EXPECT_EQ(rung.status, RungStatus::kNotCompared);
  EXPECT_EQ(rung.text, "a model config too large to be one");
}

TEST(CompareLogits, StepsWithoutLogitsAreNotCompared) {
  Text with;
  Step& step = with.steps.emplace_back();
  for (int i = 0; i < 100; ++i) {
    step.top_ids.push_back(i);
    step.top_logits.push_back(100.0f - static_cast<float>(i));
  }
  step.logits_rms = 1;
  Text without = with;
  without.steps[0].top_logits.clear();
  EXPECT_EQ(compare_logits(with, with, 0.01).status, RungStatus::kOk);
  for (const auto& [oracle, candidate] : {std::pair{with, without}, {without, with}}) {
    EXPECT_EQ(compare_logits(oracle, candidate, 0.01).status, RungStatus::kNotCompared);
  }
}

TEST(ModelType, IsEmptyWhenTheConfigDoesNotSay) {
  EXPECT_EQ(model_type(R"({"model_type": "qwen3"})"), "qwen3");
  for (const char* config : {"", "[]", "{}", R"({"model_type": 3})", "{"}) {
    EXPECT_EQ(model_type(config), "") << config;
  }
}

TEST(CompareSampling, ComparesSettingsAndStopIdsButNotTheLengthAllowed) {
  struct Case {
    const char* why;
    ChangeText candidate;
    RungStatus status;
    const char* text;
    std::vector<std::string> details;
  };
  const Case cases[] = {
      {"equal", [](Text&) {}, RungStatus::kOk, "greedy, 2 stop ids", {}},
      {"another length limit",
       [](Text& t) { t.requests[0].sampling[1].value = "99"; },
       RungStatus::kOk,
       "greedy, 2 stop ids",
       {}},
      {"who chose it does not matter",
       [](Text& t) { t.requests[0].sampling[0].origin = "model"; },
       RungStatus::kOk,
       "greedy, 2 stop ids",
       {}},
      {"a setting differs",
       [](Text& t) { t.requests[0].sampling[0].value = "true"; },
       RungStatus::kDiff,
       "1 settings differ",
       {R"(do_sample: oracle "false", candidate "true")"}},
      {"a setting on one side",
       [](Text& t) {
         t.requests[0].sampling.push_back({"top_k", "20", "model"});
       },
       RungStatus::kDiff,
       "1 settings differ",
       {R"(top_k: oracle "", candidate "20")"}},
      {"a stop id is missing",
       [](Text& t) { t.requests[0].stop_ids = {2}; },
       RungStatus::kDiff,
       "1 settings differ",
       {"stop ids: 2 / 1"}},
      {"fed given tokens: what ends a run says nothing",
       [](Text& t) {
         t.requests[0].sampling.push_back({"forced", "true", "request"});
         t.requests[0].sampling.push_back({"ignore_eos", "true", "request"});
         t.requests[0].stop_ids.clear();
       },
       RungStatus::kOk,
       "greedy; the candidate fed given tokens",
       {}},
      {"fed given tokens, but sampled",
       [](Text& t) {
         t.requests[0].sampling.push_back({"forced", "true", "request"});
         t.requests[0].sampling[0].value = "true";
       },
       RungStatus::kDiff,
       "1 settings differ",
       {R"(do_sample: oracle "false", candidate "true")"}},
      {"no sampling record",
       [](Text& t) { t.requests[0].sampling.clear(); },
       RungStatus::kNotCompared,
       "no sampling record in the evidence",
       {}},
      {"no request",
       [](Text& t) { t.requests.clear(); },
       RungStatus::kNotCompared,
       "no sampling record in the evidence",
       {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    Text candidate = prompt_text();
    c.candidate(candidate);
    const Rung rung = compare_sampling(prompt_text(), candidate);
    EXPECT_EQ(rung.status, c.status);
    EXPECT_EQ(rung.text, c.text);
    EXPECT_EQ(rung.details, c.details);
  }
}

}  // namespace
}  // namespace goldentrace
