// What `record hf` is asked to run, read from its arguments and files and checked before anything
// is loaded: token ids, a file of prompts, a file to follow. No Torch here, and no tokenizer: text
// stays text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace goldentrace {

// One run. It has a prompt as text, as ids, or as both; then the ids are what runs. The same holds
// for the continuation, which is forced where there is one.
struct RunInput {
  std::string origin;  // what messages call it: "--prompt", "prompts.jsonl:3"
  std::string id;      // of a line of prompts: the trace's file name without ".fb"
  std::optional<std::string> prompt;
  std::optional<std::vector<std::int64_t>> prompt_ids;
  std::optional<std::string> output_text;
  std::optional<std::vector<std::int64_t>> output_ids;
  std::optional<std::int64_t> max_new_tokens;
};

inline constexpr std::int64_t kMaxNewTokens = 1 << 20;

// Ids separated by commas or white space. Messages begin with `origin`.
Result<std::vector<std::int64_t>> parse_token_ids(std::string_view text, const std::string& origin);
// The same, or "@FILE" that holds them.
Result<std::vector<std::int64_t>> parse_token_ids_argument(const std::string& argument);

// JSON lines, one run each; blank lines are skipped. A line has "prompt" or "prompt_ids" (also
// "token_ids", "prompt_token_ids"), and may have "id", "max_new_tokens", and "output_ids" or
// "output_text". An id that is missing is the line's number with leading zeros. Refused, with
// FILE:LINE: unknown keys, two keys of one meaning, ids that are no file name or appear twice.
Result<std::vector<RunInput>> read_prompts(const std::string& path);

// One run from whatever holds one: a trace (prompt and generated ids), a JSON object with the keys
// of a prompts line beside any others, numbers (prompt ids), or text (the prompt, every byte of
// it).
Result<RunInput> read_follow(const std::string& path);

bool is_utf8(std::string_view text);

}  // namespace goldentrace
