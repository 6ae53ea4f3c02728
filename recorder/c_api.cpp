#include "recorder/c_api.h"

#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "recorder/recorder.h"
#include "recorder/scopes.h"
#include "recorder/tensor_facts.h"

namespace goldentrace {
namespace {

using nlohmann::json;

thread_local std::string last_error;
std::unique_ptr<Recorder> recorder;
// The one before. It stays until the next stop, and over the process's end: a thread of the program
// may still be inside a call that it records.
std::unique_ptr<Recorder>& ended = *new std::unique_ptr<Recorder>;
Summary last_summary;

int answer(const Status& status) {
  if (status.ok()) return 0;
  last_error = status.message();
  return 1;
}

// Runs `body`, which returns a Status, and turns exceptions (of the JSON library) into failures.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    return answer(body());
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

Status need_recorder() {
  if (recorder == nullptr) return {Code::kInvalidArgument, "no recording is running"};
  return {};
}

Status refuse_unknown(const json& object, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : object.items()) {
    bool found = false;
    for (const char* name : known) found |= key == name;
    if (!found) return {Code::kInvalidArgument, "unknown field '" + key + "'"};
  }
  return {};
}

Status parse_header(const json& object, Header& header) {
  GOLDENTRACE_RETURN_IF_ERROR(
      refuse_unknown(object, {"engine", "engine_version", "device", "dtype", "model_config",
                              "environment", "command", "rank", "world", "modules", "warnings"}));
  header.engine = object.value("engine", "");
  header.engine_version = object.value("engine_version", "");
  header.device = object.value("device", "");
  header.dtype = object.value("dtype", "");
  header.model_config = object.value("model_config", "");
  header.command = object.value("command", std::vector<std::string>());
  header.rank = object.value("rank", 0u);
  header.world = object.value("world", 1u);
  const json environment = object.value("environment", json::object());
  for (const auto& [key, value] : environment.items()) {
    header.environment.emplace_back(key, value.get<std::string>());
  }
  const json modules = object.value("modules", json::object());
  for (const auto& [path, implementation] : modules.items()) {  // sorted: json's objects are
    header.modules.emplace_back(path, implementation.get<std::string>());
  }
  header.warnings = object.value("warnings", std::vector<std::string>());
  return {};
}

Status parse_options(const json& object, RecorderOptions& options) {
  GOLDENTRACE_RETURN_IF_ERROR(
      refuse_unknown(object, {"keep", "rules", "compress", "fail_at_call", "check_reads",
                              "only_where_differs", "differing_calls"}));
  std::vector<KeepRule> rules;
  for (const std::string& text : object.value("rules", std::vector<std::string>())) {
    auto rule = parse_keep_rule(text);
    if (!rule.ok()) return rule.status();
    rules.push_back(*rule);
  }
  const auto keep = parse_keep(object.value("keep", "golden"));
  if (!keep.ok()) return keep.status();
  options.keep = KeepRules(*keep, std::move(rules));
  const std::string compress = object.value("compress", "values=fast");
  if (compress == "values=none") {
    options.compress = ValueCompression::kNone;
  } else if (compress == "values=small") {
    options.compress = ValueCompression::kSmall;
  } else if (compress != "values=fast") {
    return {Code::kInvalidArgument, "compress is values=none, values=fast or values=small"};
  }
  options.fail_at_call = object.value("fail_at_call", std::uint64_t{0});
  options.check_reads = object.value("check_reads", false);
  options.only_where_differs = object.value("only_where_differs", "");
  options.differing_calls = object.value("differing_calls", options.differing_calls);
  return {};
}

Request parse_request(const json& object) {
  Request request;
  request.id = object.value("id", 0u);
  request.prompt = object.value("prompt", "");
  request.prompt_ids = object.value("prompt_ids", std::vector<std::int64_t>());
  request.prompt_pieces = object.value("prompt_pieces", std::vector<std::string>());
  request.stop_ids = object.value("stop_ids", std::vector<std::int64_t>());
  request.output_ids = object.value("output_ids", std::vector<std::int64_t>());
  request.output_pieces = object.value("output_pieces", std::vector<std::string>());
  request.output = object.value("output", "");
  request.finish_reason = object.value("finish_reason", "");
  for (const json& setting : object.value("sampling", json::array())) {
    request.sampling.push_back(
        {setting.value("name", ""), setting.value("value", ""), setting.value("origin", "")});
  }
  return request;
}

Step parse_step(const json& object) {
  Step step;
  step.step = object.value("step", 0u);
  step.chosen = object.value("chosen", std::int64_t{-1});
  step.top_ids = object.value("top_ids", std::vector<std::int64_t>());
  step.top_logits = object.value("top_logits", std::vector<float>());
  step.gap_ulp = object.value("gap_ulp", step.gap_ulp);
  step.logprob = object.value("logprob", step.logprob);
  step.logits_rms = object.value("logits_rms", 0.0);
  for (const json& row : object.value("rows", json::array())) {
    step.rows.push_back({row.value("request", 0u), row.value("first_row", 0u),
                         row.value("count", 0u), row.value("position", std::int64_t{0})});
  }
  return step;
}

at::Tensor borrow_tensor(void* tensor_impl) {
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
      static_cast<c10::TensorImpl*>(tensor_impl)));
}

}  // namespace
}  // namespace goldentrace

using namespace goldentrace;  // NOLINT: the C functions live outside the namespace

const char* goldentrace_last_error() { return last_error.c_str(); }

int goldentrace_start(const char* path, const char* header_json, const char* options_json) {
  return guarded([&]() -> Status {
    RecorderOptions options;
    options.path = path;
    GOLDENTRACE_RETURN_IF_ERROR(parse_header(json::parse(header_json), options.header));
    GOLDENTRACE_RETURN_IF_ERROR(parse_options(json::parse(options_json), options));
    auto started = Recorder::start(std::move(options));
    if (!started.ok()) return started.status();
    recorder = std::move(*started);
    return {};
  });
}

int goldentrace_stop() {
  return guarded([&]() -> Status {
    GOLDENTRACE_RETURN_IF_ERROR(need_recorder());
    const Status status = recorder->stop();
    last_summary = recorder->summary();
    ended = std::move(recorder);
    return status;
  });
}

const char* goldentrace_summary() {
  thread_local std::string text;
  const Summary summary = recorder != nullptr ? recorder->summary() : last_summary;
  json object = {{"calls", summary.calls}, {"duration_ns", summary.duration_ns}};
  for (const Counter& counter : summary.counters) {
    object["counters"][counter.name] = {{"value", counter.value}, {"first", counter.first}};
  }
  text = object.dump();
  return text.c_str();
}

void goldentrace_pause() { pause_recording(); }
void goldentrace_resume() { resume_recording(); }
void goldentrace_pause_all() { pause_all_recording(); }
void goldentrace_resume_all() { resume_all_recording(); }

int goldentrace_set_step(uint32_t step) {
  return guarded([&]() -> Status {
    GOLDENTRACE_RETURN_IF_ERROR(need_recorder());
    recorder->set_step(step);
    return {};
  });
}

int goldentrace_parameter(const char* name, int kind, void* tensor_impl, int recipe,
                          const char* sources_json, const uint64_t* hash) {
  return guarded([&]() -> Status {
    GOLDENTRACE_RETURN_IF_ERROR(need_recorder());
    const Hash128 known = hash == nullptr ? Hash128() : Hash128{hash[0], hash[1]};
    return recorder
        ->add_parameter(name, static_cast<ParameterKind>(kind), borrow_tensor(tensor_impl),
                        static_cast<Recipe>(recipe),
                        json::parse(sources_json).get<std::vector<std::string>>(),
                        hash == nullptr ? nullptr : &known)
        .status();
  });
}

int goldentrace_cut_short(const char* why) {
  return guarded([&]() -> Status {
    GOLDENTRACE_RETURN_IF_ERROR(need_recorder());
    recorder->cut_short(why);
    return {};
  });
}

int goldentrace_text(const char* text_json) {
  return guarded([&]() -> Status {
    GOLDENTRACE_RETURN_IF_ERROR(need_recorder());
    const json object = json::parse(text_json);
    Text text;
    for (const json& request : object.value("requests", json::array())) {
      text.requests.push_back(parse_request(request));
    }
    for (const json& step : object.value("steps", json::array())) {
      text.steps.push_back(parse_step(step));
    }
    recorder->add_text(text);
    return {};
  });
}

int goldentrace_hash(void* tensor_impl, uint64_t hash[2]) {
  return guarded([&]() -> Status {
    const PauseRecording pause;
    const at::Tensor host = host_tensor(borrow_tensor(tensor_impl));
    const Hash128 digest = digest_tensor(view_of(host), {}).hash;
    hash[0] = digest.low;
    hash[1] = digest.high;
    return {};
  });
}

uint32_t goldentrace_scope(const char* path) {
  return recorder == nullptr ? 0 : recorder->scope(path);
}
uint32_t goldentrace_scope_below(const char* name) {
  return recorder == nullptr ? 0 : recorder->scope_below(name);
}
void goldentrace_scope_enter(uint32_t scope) { scopes::enter(scope); }
void goldentrace_scope_exit(uint32_t scope) { leave_scope(scope); }
uint32_t goldentrace_scope_depth() { return static_cast<uint32_t>(scopes::depth()); }
uint32_t goldentrace_scope_current() { return scopes::current(); }
