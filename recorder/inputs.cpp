#include "recorder/inputs.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "src/base/io.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxFile = 256u << 20;
constexpr std::size_t kMaxId = 200;    // bytes: a file name has 255
constexpr std::size_t kMinDigits = 3;  // of a line's number as an id
// How a trace begins; the line ends that follow may have been spoilt on the way here.
constexpr std::string_view kTraceMagic = "\x89GTRC";

Status refused(const std::string& origin, const std::string& why) {
  return {Code::kInvalidArgument, origin + ": " + why};
}

// For messages: text that may be anything, in quotes and short.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string shown(text.substr(0, kMost));
  if (text.size() > kMost) shown += "..";
  return "'" + shown + "'";
}

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// ---- one JSON object ----------------------------------------------------------------------------

// Parses an object whose keys are all different; the library would silently take the last of two.
// Deeper levels than anything here has are dropped: showing them must not run out of stack.
Result<json> parse_object(std::string_view text, const std::string& origin) {
  constexpr int kMaxDepth = 64;
  std::set<std::string> keys;
  std::string twice;
  const auto look = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1) {
      auto key = value.get<std::string>();
      if (!keys.insert(key).second) twice = std::move(key);
    }
    return depth <= kMaxDepth;
  };
  json object;
  try {
    object = json::parse(text, look);
  } catch (const json::exception&) {
    return refused(origin, "is not JSON: " + in_quotes(trimmed(text)));
  }
  if (!object.is_object()) return refused(origin, "is no JSON object: " + in_quotes(trimmed(text)));
  if (!twice.empty()) return refused(origin, "has the key '" + twice + "' twice");
  return object;
}

Status read_text(const json& value, const std::string& key, const std::string& origin,
                 std::optional<std::string>& text) {
  if (!value.is_string()) return refused(origin, "'" + key + "' is no text");
  text = value.get<std::string>();
  if (text->empty()) return refused(origin, "'" + key + "' is empty");
  return {};
}

bool is_id(const json& value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost;
}

Status read_ids(const json& value, const std::string& key, const std::string& origin,
                std::optional<std::vector<std::int64_t>>& ids) {
  if (!value.is_array()) return refused(origin, "'" + key + "' is no list of token ids");
  if (value.empty()) return refused(origin, "'" + key + "' is empty");
  ids.emplace();
  for (const json& item : value) {
    if (!is_id(item)) {
      return refused(origin, "'" + key + "': " + in_quotes(item.dump()) + " is not a token id");
    }
    ids->push_back(item.get<std::int64_t>());
  }
  return {};
}

Status read_name(const json& value, const std::string& origin, std::string& id) {
  if (value.is_string()) {
    id = value.get<std::string>();
  } else if (value.is_number()) {
    id = value.dump();
  } else {
    return refused(origin, "'id' is neither text nor a number");
  }
  const bool printable =
      std::ranges::none_of(id, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (id.empty() || id == "." || id == ".." || id.find('/') != std::string::npos || !printable ||
      id.size() > kMaxId) {
    return refused(origin, "'id' " + in_quotes(json(id).dump()) + " can't be a file's name");
  }
  return {};
}

constexpr std::string_view kPromptIdKeys[] = {"prompt_ids", "token_ids", "prompt_token_ids"};

// What `object` says of a run. Keys that mean nothing here are told by name in `unknown`.
Status read_run(const json& object, RunInput& run, std::vector<std::string>& unknown) {
  const std::string& origin = run.origin;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(kPromptIdKeys, key) != std::end(kPromptIdKeys)) {
      if (run.prompt_ids) return refused(origin, "has prompt ids under two names");
      GOLDENTRACE_RETURN_IF_ERROR(read_ids(value, key, origin, run.prompt_ids));
    } else if (key == "prompt") {
      GOLDENTRACE_RETURN_IF_ERROR(read_text(value, key, origin, run.prompt));
    } else if (key == "output_ids") {
      GOLDENTRACE_RETURN_IF_ERROR(read_ids(value, key, origin, run.output_ids));
    } else if (key == "output_text") {
      GOLDENTRACE_RETURN_IF_ERROR(read_text(value, key, origin, run.output_text));
    } else if (key == "max_new_tokens") {
      if (!is_id(value) || value.get<std::int64_t>() < 1 ||
          value.get<std::int64_t>() > kMaxNewTokens) {
        return refused(origin, "'max_new_tokens' " + in_quotes(value.dump()) + " is not 1 to " +
                                   std::to_string(kMaxNewTokens));
      }
      run.max_new_tokens = value.get<std::int64_t>();
    } else {
      unknown.push_back(key);
    }
  }
  if (!run.prompt && !run.prompt_ids) {
    return refused(origin, "has neither 'prompt' nor 'prompt_ids'");
  }
  return {};
}

Status read_prompts_line(std::string_view text, RunInput& run) {
  auto object = parse_object(text, run.origin);
  if (!object.ok()) return object.status();
  if (const auto id = object->find("id"); id != object->end()) {
    GOLDENTRACE_RETURN_IF_ERROR(read_name(*id, run.origin, run.id));
    object->erase("id");
  }
  std::vector<std::string> unknown;
  GOLDENTRACE_RETURN_IF_ERROR(read_run(*object, run, unknown));
  if (!unknown.empty()) return refused(run.origin, "unknown key " + in_quotes(unknown.front()));
  if (run.prompt && run.prompt_ids) {
    return refused(run.origin, "has both a prompt as text and as ids");
  }
  if (run.output_text && run.output_ids) {
    return refused(run.origin, "has both an output as text and as ids");
  }
  return {};
}

// ---- a file to follow ---------------------------------------------------------------------------

Result<RunInput> follow_trace(const std::string& path, RunInput run) {
  const auto trace = TraceReader::open(path);
  if (!trace.ok()) return trace.status();
  GOLDENTRACE_RETURN_IF_ERROR((*trace)->check_bytes());
  auto text = (*trace)->text();
  if (!text.ok()) return text.status();
  if (text->requests.empty()) return refused(run.origin, "the trace has no prompt");
  if (text->requests.size() > 1) {
    return refused(run.origin, "the trace has " + std::to_string(text->requests.size()) +
                                   " prompts; only one can be followed");
  }
  Request& request = text->requests.front();
  if (request.prompt.empty() && request.prompt_ids.empty()) {
    return refused(run.origin, "the trace has no prompt");
  }
  if (!is_utf8(request.prompt)) return refused(run.origin, "the trace's prompt is not UTF-8");
  if (!request.prompt.empty()) run.prompt = std::move(request.prompt);
  if (!request.prompt_ids.empty()) run.prompt_ids = std::move(request.prompt_ids);
  if (!request.output_ids.empty()) run.output_ids = std::move(request.output_ids);
  return run;
}

Result<RunInput> follow_json(std::string_view text, RunInput run) {
  // Several lines are one object printed wide, or JSON lines, of which only one can be followed.
  const std::string_view first = text.substr(0, text.find('\n'));
  if (first.size() < text.size() && json::accept(first)) {
    return refused(run.origin, "holds more than one line of JSON; --prompts records each of them");
  }
  const auto object = parse_object(text, run.origin);
  if (!object.ok()) return object.status();
  std::vector<std::string> other_keys;
  GOLDENTRACE_RETURN_IF_ERROR(read_run(*object, run, other_keys));
  return run;
}

}  // namespace

bool is_utf8(std::string_view text) {
  // The library checks what it writes.
  try {
    (void)json(std::string(text)).dump();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

Result<std::vector<std::int64_t>> parse_token_ids(std::string_view text,
                                                  const std::string& origin) {
  std::vector<std::int64_t> ids;
  const auto separates = [](char c) { return c == ',' || is_space(c); };
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if_not(at, text.end(), separates);
    at = std::find_if(begin, text.end(), separates);
    if (begin == at) break;
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(&*begin, &*begin + (at - begin), id);
    if (error != std::errc() || end != &*begin + (at - begin) || id < 0) {
      return refused(origin, in_quotes({&*begin, static_cast<std::size_t>(at - begin)}) +
                                 " is not a token id");
    }
    ids.push_back(id);
  }
  if (ids.empty()) return refused(origin, "no id given");
  return ids;
}

Result<std::vector<std::int64_t>> parse_token_ids_argument(const std::string& argument) {
  if (!argument.starts_with('@')) return parse_token_ids(argument, "--token-ids");
  const auto file = read_text_file(argument.substr(1), kMaxFile);
  if (!file.ok()) return file.status();
  return parse_token_ids(*file, "--token-ids");
}

Result<std::vector<RunInput>> read_prompts(const std::string& path) {
  const auto file = read_text_file(path, kMaxFile);
  if (!file.ok()) return file.status();
  const std::string_view text = *file;
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  const std::size_t digits = std::max(kMinDigits, std::to_string(lines).size());
  std::vector<RunInput> runs;
  std::set<std::string> ids;
  std::size_t end = 0;
  for (std::size_t begin = 0, line = 1; begin < text.size(); begin = end + 1, ++line) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view one = text.substr(begin, end - begin);
    if (trimmed(one).empty()) continue;
    RunInput run;
    run.origin = path + ":" + std::to_string(line);
    GOLDENTRACE_RETURN_IF_ERROR(read_prompts_line(one, run));
    if (run.id.empty()) {
      const std::string number = std::to_string(line);
      run.id = std::string(digits - number.size(), '0') + number;
    }
    if (!ids.insert(run.id).second) {
      return refused(run.origin, "the id " + in_quotes(run.id) + " is there already");
    }
    runs.push_back(std::move(run));
  }
  if (runs.empty()) return refused(path, "holds no prompt");
  return runs;
}

Result<RunInput> read_follow(const std::string& path) {
  const auto source = open_file(path);
  if (!source.ok()) return source.status();
  RunInput run;
  run.origin = path;
  std::string magic(kTraceMagic.size(), '\0');
  if ((*source)->size() >= magic.size()) {
    GOLDENTRACE_RETURN_IF_ERROR((*source)->read(0, std::as_writable_bytes(std::span(magic))));
    if (magic == kTraceMagic) return follow_trace(path, std::move(run));
  }
  auto file = read_text_file(path, kMaxFile);
  if (!file.ok()) return file.status();
  const std::string_view text = trimmed(*file);
  if (text.empty()) return refused(path, "is empty");
  if (!is_utf8(text)) return refused(path, "is neither a trace nor UTF-8 text");
  if (text.front() == '{') return follow_json(text, std::move(run));
  const auto of_numbers = [](char c) {
    return is_space(c) || std::string_view("0123456789,+-.").find(c) != std::string_view::npos;
  };
  if (std::ranges::all_of(text, of_numbers)) {
    auto ids = parse_token_ids(text, path);
    if (!ids.ok()) return ids.status();
    run.prompt_ids = std::move(*ids);
  } else {
    run.prompt = std::move(*file);
  }
  return run;
}

}  // namespace goldentrace
