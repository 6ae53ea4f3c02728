// What `record hf` takes from files: prompts, and a file to follow.
#include "recorder/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/run_trace.h"
#include "tests/support/temp_folder.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::MadeRun;
using testing::sample_run;
using testing::TempFolder;
using testing::write_run;
using Ids = std::vector<std::int64_t>;

Result<std::vector<RunInput>> prompts(const TempFolder& folder, const std::string& text) {
  return read_prompts(folder.write("prompts.jsonl", text));
}

TEST(ParseTokenIds, TakesCommasAndWhiteSpaceAlike) {
  EXPECT_EQ(*parse_token_ids("1,2 , 3\n4\t5,", "x"), (Ids{1, 2, 3, 4, 5}));
  for (const char* text : {"", " ,\n", "1,x", "-3", "1.5", "+1", "99999999999999999999"}) {
    const auto ids = parse_token_ids(text, "ids.txt");
    ASSERT_FALSE(ids.ok()) << text;
    EXPECT_THAT(ids.status().message(), HasSubstr("ids.txt: "));
  }
}

TEST(ReadPrompts, EachLineIsARunWithAFileOfItsOwn) {
  const TempFolder folder;
  const auto runs = prompts(folder,
                            "{\"prompt\": \"Hi\\nthere\"}\n"
                            "\n"
                            "{\"token_ids\": [1, 2], \"id\": \"a b\", \"max_new_tokens\": 5}\r\n"
                            "{\"prompt_token_ids\": [3], \"id\": 17, \"output_ids\": [4, 5]}\n"
                            "{\"prompt_ids\": [6], \"output_text\": \"yes\"}");
  ASSERT_TRUE(runs.ok()) << runs.status().message();
  ASSERT_EQ(runs->size(), 4u);
  EXPECT_EQ((*runs)[0].prompt, "Hi\nthere");
  EXPECT_EQ((*runs)[0].id, "001");
  EXPECT_EQ((*runs)[0].origin, folder.file("prompts.jsonl") + ":1");
  EXPECT_EQ((*runs)[1].prompt_ids, (Ids{1, 2}));
  EXPECT_EQ((*runs)[1].id, "a b");
  EXPECT_EQ((*runs)[1].max_new_tokens, 5);
  EXPECT_EQ((*runs)[2].id, "17");
  EXPECT_EQ((*runs)[2].output_ids, (Ids{4, 5}));
  EXPECT_EQ((*runs)[3].id, "005");
  EXPECT_EQ((*runs)[3].output_text, "yes");
}

TEST(ReadPrompts, RefusesALineThatIsUnclearAndNamesIt) {
  const struct {
    const char* line;
    const char* message;
  } cases[] = {
      {"hello", "is not JSON"},
      {"{\"prompt\": \"a\"", "is not JSON"},
      {"[1, 2]", "is no JSON object"},
      {"{}", "neither 'prompt' nor 'prompt_ids'"},
      {R"({"promt": "a"})", "neither 'prompt'"},
      {R"({"prompt": "a", "temperature": 1})", "unknown key 'temperature'"},
      {R"({"prompt": "a", "prompt_ids": [1]})", "both a prompt"},
      {R"({"prompt": "a", "output_text": "b", "output_ids": [1]})", "both an output"},
      {R"({"token_ids": [1], "prompt_ids": [1]})", "under two names"},
      {R"({"prompt": "a", "prompt": "b"})", "'prompt' twice"},
      {R"({"prompt": ""})", "'prompt' is empty"},
      {R"({"prompt": 5})", "'prompt' is no text"},
      {R"({"prompt_ids": []})", "'prompt_ids' is empty"},
      {R"({"prompt_ids": "1,2"})", "no list"},
      {R"({"prompt_ids": [1, -2]})", "'-2' is not a token id"},
      {R"({"prompt_ids": [1.5]})", "'1.5' is not a token id"},
      {R"({"prompt_ids": [18446744073709551615]})", "is not a token id"},
      {R"({"prompt_ids": [true]})", "'true' is not a token id"},
      {R"({"prompt": "a", "output_ids": []})", "'output_ids' is empty"},
      {R"({"prompt": "a", "max_new_tokens": 0})", "max_new_tokens"},
      {R"({"prompt": "a", "max_new_tokens": 99999999})", "max_new_tokens"},
      {R"({"prompt": "a", "max_new_tokens": "5"})", "max_new_tokens"},
      {R"({"prompt": "a", "id": ""})", "file's name"},
      {R"({"prompt": "a", "id": ".."})", "file's name"},
      {R"({"prompt": "a", "id": "a/b"})", "file's name"},
      {R"({"prompt": "a", "id": "a\u0000b"})", "file's name"},
      {R"({"prompt": "a", "id": "a\nb"})", "file's name"},
      {R"({"prompt": "a", "id": null})", "'id' is neither"},
      {R"({"prompt": "a", "id": "first"})", "'first' is there already"},
      {R"({"prompt": "a", "id": "002"})", nullptr},  // its own number
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.line);
    const TempFolder folder;
    const auto runs =
        prompts(folder, std::string(R"({"prompt": "x", "id": "first"})") + "\n" + c.line + "\n");
    EXPECT_EQ(runs.ok(), c.message == nullptr);
    if (runs.ok()) continue;
    EXPECT_THAT(runs.status().message(), HasSubstr("prompts.jsonl:2: "));
    EXPECT_THAT(runs.status().message(), HasSubstr(c.message));
    EXPECT_EQ(runs.status().message().find('\n'), std::string::npos);
  }
}

TEST(ReadPrompts, AnIdMayNotBeAnotherLinesNumber) {
  const TempFolder folder;
  const auto runs = prompts(folder, "{\"prompt\": \"a\", \"id\": \"002\"}\n{\"prompt\": \"b\"}\n");
  ASSERT_FALSE(runs.ok());
  EXPECT_THAT(runs.status().message(), HasSubstr("jsonl:2: the id '002' is there already"));
}

TEST(ReadPrompts, RefusesAFileWithoutPrompts) {
  const TempFolder folder;
  EXPECT_THAT(prompts(folder, "\n \n").status().message(), HasSubstr("holds no prompt"));
  EXPECT_THAT(prompts(folder, "").status().message(), HasSubstr("holds no prompt"));
  EXPECT_EQ(read_prompts(folder.file("none")).status().code(), Code::kNotFound);
}

TEST(ReadFollow, KnowsEachKindOfFile) {
  const TempFolder folder;
  const auto follow = [&](const std::string& text) {
    const auto run = read_follow(folder.write("f", text));
    if (!run.ok()) throw std::runtime_error(run.status().message());
    return *run;
  };
  EXPECT_EQ(follow(" 1, 2\n3\n").prompt_ids, (Ids{1, 2, 3}));
  EXPECT_EQ(follow("1, 2, or 3?\n").prompt, "1, 2, or 3?\n");  // every byte
  EXPECT_EQ(follow("[INST] Hi").prompt, "[INST] Hi");
  EXPECT_EQ(follow("{\"prompt\": \"a\"}\n").prompt, "a");
  const RunInput wide = follow(
      "{\n  \"prompt_token_ids\": [7],\n  \"model\": \"M\",\n"
      "  \"prompt\": \"a\",\n  \"output_text\": \"b\"\n}\n");
  EXPECT_EQ(wide.prompt_ids, (Ids{7}));  // ids are what runs
  EXPECT_EQ(wide.prompt, "a");
  EXPECT_EQ(wide.output_text, "b");
}

TEST(ReadFollow, TakesPromptAndOutputOfATrace) {
  const TempFolder folder;
  const auto run = read_follow(write_run(folder, "x.fb", sample_run()));
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run->prompt, "Hello");
  EXPECT_EQ(run->prompt_ids, (Ids{1, 2, 3}));
  EXPECT_EQ(run->output_ids, (Ids{100, 101, 102}));
  EXPECT_FALSE(run->max_new_tokens.has_value());
}

TEST(ReadFollow, RefusesWhatHoldsNoRun) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "is empty"},
      {" \n", "is empty"},
      {"1, -2, 3", "'-2' is not a token id"},
      {"1.5", "'1.5' is not a token id"},
      {"caf\xe9", "neither a trace nor UTF-8"},
      {"{\"choices\": []}", "neither 'prompt' nor"},
      {"{\"prompt_ids\": [\"a\"]}", "is not a token id"},
      {"{\"prompt\": \"a\"", "is not JSON"},
      {"{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n", "--prompts"},
      {"\x89GTRC\n\x1a and then nothing of a trace", "offset 0"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const TempFolder folder;
    const auto run = read_follow(folder.write("f", c.text));
    ASSERT_FALSE(run.ok());
    EXPECT_THAT(run.status().message(), HasSubstr(folder.file("f")));
    EXPECT_THAT(run.status().message(), HasSubstr(c.message));
  }
}

// Showing what is wrong must not run the stack out.
TEST(ReadFollow, SurvivesAnEndlesslyNestedValue) {
  const TempFolder folder;
  for (const char* key : {"prompt_ids", "max_new_tokens", "prompt", "other"}) {
    SCOPED_TRACE(key);
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    const std::string text = "{\"" + std::string(key) + "\": [" + deep + "]}";
    EXPECT_FALSE(read_follow(folder.write("f", text)).ok());
    EXPECT_FALSE(read_prompts(folder.write("p", text)).ok());
  }
}

TEST(ReadFollow, RefusesATraceThatIsDamagedOrWithoutAPrompt) {
  const TempFolder folder;
  MadeRun run = sample_run();
  const std::string whole = write_run(folder, "x.fb", run);
  std::ifstream file(whole, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(read_follow(folder.write("cut.fb", bytes.substr(0, 900))).status().message(),
              HasSubstr("no prompt"));
  bytes[bytes.size() / 3] ^= 1;
  EXPECT_EQ(read_follow(folder.write("bad.fb", bytes)).status().code(), Code::kCorrupt);
  run.text.requests.push_back(run.text.requests[0]);
  ++run.text.requests[1].id;
  EXPECT_THAT(read_follow(write_run(folder, "x.fb", run)).status().message(),
              HasSubstr("2 prompts"));
  run.text.requests = {{}};
  EXPECT_THAT(read_follow(write_run(folder, "x.fb", run)).status().message(),
              HasSubstr("no prompt"));
  run.text.requests.clear();
  EXPECT_THAT(read_follow(write_run(folder, "x.fb", run)).status().message(),
              HasSubstr("no prompt"));
}

}  // namespace
}  // namespace goldentrace
