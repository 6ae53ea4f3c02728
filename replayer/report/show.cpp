#include "replayer/report/show.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "replayer/report/dump.h"
#include "replayer/report/format.h"
#include "replayer/verdict/doubts.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kRecipeNames[] = {"value", "same",   "cast",    "tied",
                                        "stack", "concat", "computed"};
constexpr std::size_t kHashDigits = 8;  // of a hash, in text
constexpr std::size_t kMaxDoubts = 20;  // rows of each kind

std::string dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The shortest digits that give the same double back; JSON has no NaN and no infinity.
std::string double_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return json(value).dump();
}

// One argument or result: text such as `%12:bfloat16 [1, 96, 128]`, and moves `node` past it.
std::string node_text(const Dictionary& dictionary, const std::vector<Node>& nodes,
                      std::size_t& node) {
  const Node& at = nodes[node++];
  const auto id = static_cast<std::uint32_t>(at.value);
  switch (at.kind) {
    case NodeKind::kNone:
      return "None";
    case NodeKind::kTensor:
      return "%" + std::to_string(id) + ":" + dictionary.describe_tensor(id);
    case NodeKind::kUndefinedTensor:
      return "undefined";
    case NodeKind::kInt:
    case NodeKind::kWrappedInt:
      return std::to_string(at.value);
    case NodeKind::kDouble:
    case NodeKind::kWrappedDouble:
      return double_text(std::bit_cast<double>(at.value));
    case NodeKind::kBool:
    case NodeKind::kWrappedBool:
      return at.value != 0 ? "True" : "False";
    case NodeKind::kString:
      return dump(dictionary.string(id));
    case NodeKind::kDevice:
      return dictionary.string(id);
    case NodeKind::kGenerator:
      return "generator(" + dictionary.string(id) + ")";
    case NodeKind::kStorage:
      return "storage " + std::to_string(id);
    case NodeKind::kUnstorable:
      return "<not stored: " + dictionary.string(id) + ">";
    case NodeKind::kComplex: {
      const std::string real = node_text(dictionary, nodes, node);
      return real + "+" + node_text(dictionary, nodes, node) + "j";
    }
    case NodeKind::kList:
    case NodeKind::kTuple: {
      std::string text = "[";
      for (std::int64_t i = 0; i < at.value; ++i) {
        if (i > 0) text += ", ";
        text += node_text(dictionary, nodes, node);
      }
      return text + "]";
    }
  }
  return "?";
}

std::vector<std::string> node_texts(const Dictionary& dictionary, const std::vector<Node>& nodes,
                                    std::size_t begin, std::size_t end) {
  std::vector<std::string> texts;
  for (std::size_t node = begin; node < end;) texts.push_back(node_text(dictionary, nodes, node));
  return texts;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

json stats_json(const Stats& stats) {
  return {{"count", stats.count},
          {"nan", stats.nan},
          {"positive_infinity", stats.positive_infinity},
          {"negative_infinity", stats.negative_infinity},
          {"sentinel", stats.sentinel},
          {"zero", stats.zero},
          {"min", stats.min},
          {"max", stats.max},
          {"sum", stats.sum},
          {"sum_squares", stats.sum_squares}};
}

json call_json(const Dictionary& dictionary, const ProgramChunk& chunk, const Call& call,
               std::uint64_t number) {
  json writes = json::array();
  for (std::size_t w = 0; w < call.writes; ++w) {
    const Write& write = chunk.writes[call.first_write + w];
    json object = {{"tensor", write.tensor},
                   {"storage", dictionary.tensor(write.tensor).storage},
                   {"version", write.version},
                   {"type", dictionary.describe_tensor(write.tensor)},
                   {"undefined", (write.flags & kWriteUndefined) != 0},
                   {"decision", (write.flags & kWriteDecision) != 0},
                   {"value_kept", (write.flags & kWriteValue) != 0},
                   {"hash", nullptr},
                   {"stats", nullptr}};
    if ((write.flags & kWriteHashed) != 0) object["hash"] = to_hex(write.hash);
    if ((write.flags & kWriteStats) != 0) {
      object["stats"] = stats_json(chunk.stats[write.stats_index]);
    }
    writes.push_back(std::move(object));
  }
  return {{"call", number},
          {"step", call.step},
          {"scope", dictionary.scope(call.scope)},
          {"op", dictionary.describe_op(call.op)},
          {"arguments", node_texts(dictionary, chunk.nodes, call.first_node, call.first_result)},
          {"results", node_texts(dictionary, chunk.nodes, call.first_result, call.end_node)},
          {"writes", std::move(writes)},
          {"executable", (call.flags & kCallNotExecutable) == 0},
          {"failed", (call.flags & kCallFailed) != 0},
          {"random", (call.flags & kCallRandom) != 0}};
}

void call_line(const Dictionary& dictionary, const ProgramChunk& chunk, const Call& call,
               std::uint64_t number, std::ostream& out) {
  out << number << "  " << call.step << "  " << printable(dictionary.scope(call.scope)) << "  "
      << printable(dictionary.describe_op(call.op) + "(" +
                   joined(node_texts(dictionary, chunk.nodes, call.first_node, call.first_result)) +
                   ") -> " +
                   joined(node_texts(dictionary, chunk.nodes, call.first_result, call.end_node)));
  for (std::size_t w = 0; w < call.writes; ++w) {
    const Write& write = chunk.writes[call.first_write + w];
    out << "  "
        << ((write.flags & kWriteHashed) != 0 ? "#" + to_hex(write.hash).substr(0, kHashDigits)
                                              : "undefined");
  }
  if ((call.flags & kCallNotExecutable) != 0) out << "  not re-executable";
  if ((call.flags & kCallFailed) != 0) out << "  threw";
  out << '\n';
}

Status show_calls(const TraceReader& trace, bool as_json, std::ostream& out) {
  ProgramReader program(trace);
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) return {};
    const ProgramChunk& chunk = program.chunk();
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const std::uint64_t number = chunk.base.calls + i;
      if (as_json) {
        out << dump(call_json(program.dictionary(), chunk, chunk.calls[i], number)) << '\n';
      } else {
        call_line(program.dictionary(), chunk, chunk.calls[i], number, out);
      }
    }
  }
}

Status show_parameters(const TraceReader& trace, bool as_json, std::ostream& out) {
  const auto parameters = trace.parameters();
  if (!parameters.ok()) return parameters.status();
  ProgramReader program(trace);
  const Dictionary& dictionary = program.dictionary();
  for (const Parameter& parameter : *parameters) {
    // Most are defined by the first chunk; a lazily made buffer may come later.
    while (parameter.tensor >= dictionary.tensors()) {
      const auto more = program.next();
      if (!more.ok()) return more.status();
      if (!*more) break;
    }
    if (parameter.tensor >= dictionary.tensors()) {
      return {Code::kCorrupt, trace.name() + ": parameter of an undefined tensor"};
    }
    const char* kind = parameter.kind == ParameterKind::kParameter ? "parameter" : "buffer";
    const char* recipe = kRecipeNames[static_cast<std::size_t>(parameter.recipe)];
    if (as_json) {
      out << dump({{"name", parameter.name},
                   {"kind", kind},
                   {"type", dictionary.describe_tensor(parameter.tensor)},
                   {"hash", to_hex(parameter.hash)},
                   {"recipe", recipe},
                   {"sources", parameter.sources}})
          << '\n';
    } else {
      out << padded(printable(parameter.name), 56) << "  "
          << padded(dictionary.describe_tensor(parameter.tensor), 24) << "  "
          << to_hex(parameter.hash).substr(0, kHashDigits) << "  " << recipe << '\n';
    }
  }
  return {};
}

json step_json(const Step& step) {
  return {{"step", step.step},       {"chosen", step.chosen},
          {"top_ids", step.top_ids}, {"top_logits", step.top_logits},
          {"gap_ulp", step.gap_ulp}, {"logprob", step.logprob}};
}

Status show_tokens(const TraceReader& trace, bool as_json, std::ostream& out) {
  const auto text = trace.text();
  if (!text.ok()) return text.status();
  if (as_json) {
    json requests = json::array();
    for (const Request& request : text->requests) {
      json sampling = json::array();
      for (const Setting& setting : request.sampling) {
        sampling.push_back(
            {{"name", setting.name}, {"value", setting.value}, {"origin", setting.origin}});
      }
      requests.push_back({{"id", request.id},
                          {"prompt", request.prompt},
                          {"prompt_ids", request.prompt_ids},
                          {"output_ids", request.output_ids},
                          {"output_pieces", request.output_pieces},
                          {"stop_ids", request.stop_ids},
                          {"sampling", sampling}});
    }
    json steps = json::array();
    for (const Step& step : text->steps) steps.push_back(step_json(step));
    out << dump({{"requests", requests}, {"steps", steps}}) << '\n';
    return {};
  }
  for (const Request& request : text->requests) {
    out << "request " << request.id << ": " << request.prompt_ids.size() << " prompt + "
        << request.output_ids.size() << " new tokens\n";
    if (!request.prompt.empty()) out << "  prompt " << printable(dump(request.prompt)) << '\n';
  }
  for (std::size_t i = 0; i < text->steps.size(); ++i) {
    const Step& step = text->steps[i];
    std::string piece;
    std::string fed;
    if (!text->requests.empty()) {
      const Request& request = text->requests.front();
      if (i < request.output_pieces.size()) piece = " " + printable(dump(request.output_pieces[i]));
      if (request.forced() && i < request.output_ids.size() &&
          request.output_ids[i] != step.chosen) {
        fed = "  fed " + std::to_string(request.output_ids[i]);  // whose piece it is
      }
    }
    out << "step " << step.step << "  id " << step.chosen << fed << piece << "  gap "
        << step.gap_ulp << " ulp  logprob " << step.logprob << '\n';
  }
  return {};
}

json summary_json(const TraceReader& trace) {
  const Header& header = trace.header();
  json counters = json::object();
  for (const Counter& counter : trace.summary().counters) {
    counters[counter.name] = {{"value", counter.value}, {"first", counter.first}};
  }
  json environment = json::object();
  for (const auto& [key, value] : header.environment) environment[key] = value;
  json modules = json::object();
  for (const auto& [path, implementation] : header.modules) modules[path] = implementation;
  return {{"trace", trace.name()},
          {"format", std::to_string(header.major) + "." + std::to_string(header.minor)},
          {"bytes", trace.file_size()},
          {"chunks", trace.chunks().size()},
          {"engine", header.engine + " " + header.engine_version},
          {"device", header.device},
          {"dtype", header.dtype},
          {"calls", trace.summary().calls},
          {"seconds", static_cast<double>(trace.summary().duration_ns) * 1e-9},
          {"environment", environment},
          {"command", header.command},
          {"counters", counters},
          {"modules", modules},
          {"warnings", header.warnings}};
}

Status show_summary(const TraceReader& trace, bool as_json, std::ostream& out) {
  json object = summary_json(trace);
  if (as_json) {
    out << object.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
    return {};
  }
  object["modules"] = object["modules"].size();
  object.erase("warnings");
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object()) {
      out << padded(key, 12)
          << printable(value.is_string() ? value.get<std::string>() : dump(value)) << '\n';
      continue;
    }
    for (const auto& [name, inner] : value.items()) {
      const json& shown = inner.is_object() ? inner["value"] : inner;
      out << padded(key, 12) << padded(printable(name), 26)
          << printable(shown.is_string() ? shown.get<std::string>() : dump(shown)) << '\n';
    }
  }
  const std::string missing = incompleteness(trace.summary());
  if (!missing.empty()) out << "not whole: " << printable(missing) << '\n';
  const Doubts doubts = doubts_of(trace.header(), trace.summary());
  for (const std::string& row : doubt_rows(doubts, kMaxDoubts, kMaxDoubts)) out << row << '\n';
  for (const std::string& row : information_rows(doubts, kMaxDoubts)) out << row << '\n';
  return {};
}

}  // namespace

Status show(const ShowOptions& options, std::ostream& out) {
  const auto trace = TraceReader::open(options.trace);
  if (!trace.ok()) return trace.status();
  switch (options.what) {
    case ShowWhat::kCalls:
      return show_calls(**trace, options.json, out);
    case ShowWhat::kParameters:
      return show_parameters(**trace, options.json, out);
    case ShowWhat::kTokens:
      return show_tokens(**trace, options.json, out);
    case ShowWhat::kChunks:
      return dump(**trace, out);
    case ShowWhat::kSummary:
      break;
  }
  return show_summary(**trace, options.json, out);
}

}  // namespace goldentrace
