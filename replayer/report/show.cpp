#include "replayer/report/show.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "replayer/report/calls.h"
#include "replayer/report/dump.h"
#include "replayer/report/format.h"
#include "replayer/report/times.h"
#include "replayer/verdict/doubts.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kRecipeNames[] = {"value", "same",   "cast",    "tied",
                                        "stack", "concat", "computed"};
constexpr const char* kSeverityNames[] = {"info", "loss", "error"};
constexpr const char* kOriginNames[] = {"recording", "reading"};
constexpr const char* kKindNames[] = {"unknown",    "header", "program", "timing",
                                      "parameters", "text",   "values",  "summary"};
constexpr std::size_t kHashDigits = 8;  // of a hash, in text
constexpr std::size_t kMaxDoubts = 20;  // rows of each kind

std::string dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status show_calls(const TraceReader& trace, const ShowOptions& options, std::ostream& out) {
  ProgramReader program(trace);
  CallMatcher matcher(options.filter, program.dictionary());
  const auto line = options.json ? call_json : call_text;
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) return {};
    const ProgramChunk& chunk = program.chunk();
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      if (matcher.matches_with_hash(chunk, i)) out << line(program.dictionary(), chunk, i) << '\n';
    }
  }
}

Status show_tensors(const TraceReader& trace, const ShowOptions& options, std::ostream& out) {
  ProgramReader program(trace);
  CallMatcher matcher(options.filter, program.dictionary());
  TensorNotes notes;
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) return {};
    const ProgramChunk& chunk = program.chunk();
    notes.absorb(chunk);
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const Call& call = chunk.calls[i];
      if (!matcher.matches(call, chunk.base.calls + i)) continue;
      for (std::size_t w = 0; w < call.writes; ++w) {
        if (!matcher.matches(chunk.writes[call.first_write + w])) continue;
        out << (options.json ? notes.write_json(program.dictionary(), chunk, i, w)
                             : notes.write_text(program.dictionary(), chunk, i, w))
            << '\n';
      }
    }
  }
}

// The name of a number of a stored enum, which a later version may have added to.
template <std::size_t count>
std::string enum_name(const char* const (&names)[count], std::size_t number) {
  return number < count ? names[number] : std::to_string(number);
}

Status show_losses(const TraceReader& trace, bool as_json, std::ostream& out) {
  const auto& counters = trace.summary().counters;
  if (!as_json && counters.empty()) out << "no counter was kept\n";
  for (const Counter& counter : counters) {
    const auto severity = enum_name(kSeverityNames, static_cast<std::size_t>(counter.severity));
    const auto origin = enum_name(kOriginNames, static_cast<std::size_t>(counter.origin));
    if (as_json) {
      out << dump({{"name", counter.name},
                   {"severity", severity},
                   {"origin", origin},
                   {"value", counter.value},
                   {"first", counter.first}})
          << '\n';
      continue;
    }
    out << padded(severity, 6) << padded(origin, 11) << padded(printable(counter.name), 28)
        << grouped(counter.value);
    if (!counter.first.empty() && counter.value > 0) out << "  first " << printable(counter.first);
    out << '\n';
  }
  return {};
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

// The piece that went on after step `i`, before it what was fed where that is not what it chose.
std::string went_on(const Text& text, std::size_t i) {
  const Step& step = text.steps[i];
  auto request = text.requests.begin();
  if (!step.rows.empty()) {
    request = std::ranges::find(text.requests, step.rows.front().request, &Request::id);
  }
  if (request == text.requests.end()) return {};
  const std::size_t output = output_of(*request, step, i);
  std::string fed;
  if (request->forced() && output < request->output_ids.size() &&
      request->output_ids[output] != step.chosen) {
    fed = "  fed " + std::to_string(request->output_ids[output]);
  }
  if (output >= request->output_pieces.size()) return fed;
  return fed + " " + printable(dump(request->output_pieces[output]));
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
    out << "step " << step.step << "  id " << step.chosen << went_on(*text, i);
    if (!std::isnan(step.gap_ulp)) out << "  gap " << step.gap_ulp << " ulp";
    if (!std::isnan(step.logprob)) out << "  logprob " << step.logprob;
    out << '\n';
  }
  return {};
}

// Bytes of the file by kind of chunk, chunk headers among them. "index" is the rest: the file
// header, the index and the footer, or what follows the readable part of a cut file.
struct Spread {
  std::size_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t raw_bytes = 0;
};

std::map<std::string, Spread> spread_of(const TraceReader& trace) {
  std::map<std::string, Spread> spreads;
  for (const ChunkEntry& entry : trace.chunks()) {
    Spread& spread = spreads[enum_name(kKindNames, static_cast<std::size_t>(entry.kind))];
    ++spread.chunks;
    spread.bytes += kChunkHeaderSize + entry.stored_size;
    spread.raw_bytes += entry.raw_size;
  }
  std::uint64_t rest = trace.file_size();
  for (const auto& [kind, spread] : spreads) rest -= spread.bytes;
  spreads["index"] = {1, rest, rest};
  return spreads;
}

double bytes_a_call(const TraceReader& trace, std::uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(trace.summary().calls);
}

json spread_json(const TraceReader& trace) {
  json kinds = json::object();
  for (const auto& [kind, spread] : spread_of(trace)) {
    json& object = kinds[kind];
    object = {{"chunks", spread.chunks},
              {"bytes", spread.bytes},
              {"raw_bytes", spread.raw_bytes},
              {"bytes_a_call", nullptr}};
    if (trace.summary().calls > 0) object["bytes_a_call"] = bytes_a_call(trace, spread.bytes);
  }
  return kinds;
}

void show_spread(const TraceReader& trace, std::ostream& out) {
  for (const auto& [kind, spread] : spread_of(trace)) {
    out << padded("spread", 12) << padded(kind, 26) << grouped(spread.bytes) << " bytes, "
        << share(spread.bytes, trace.file_size());
    if (trace.summary().calls > 0) {
      char text[32];
      std::snprintf(text, sizeof(text), ", %.1f a call", bytes_a_call(trace, spread.bytes));
      out << text;
    }
    out << ", " << grouped(spread.chunks) << (spread.chunks == 1 ? " chunk" : " chunks") << '\n';
  }
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
          {"spread", spread_json(trace)},
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
  object.erase("spread");
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
  show_spread(trace, out);
  const Doubts doubts = doubts_of(trace.header(), trace.summary());
  if (!doubts.incomplete.empty()) out << "not whole: " << printable(doubts.incomplete) << '\n';
  if (!doubts.trimmed.empty()) out << "trimmed: " << printable(doubts.trimmed) << '\n';
  for (const std::string& row : doubt_rows(doubts, kMaxDoubts, kMaxDoubts)) out << row << '\n';
  for (const std::string& row : information_rows(doubts, kMaxDoubts)) out << row << '\n';
  return {};
}

}  // namespace

Status show(const TraceReader& trace, const ShowOptions& options, std::ostream& out) {
  switch (options.what) {
    case ShowWhat::kCalls:
      return show_calls(trace, options, out);
    case ShowWhat::kTensors:
      return show_tensors(trace, options, out);
    case ShowWhat::kLosses:
      return show_losses(trace, options.json, out);
    case ShowWhat::kParameters:
      return show_parameters(trace, options.json, out);
    case ShowWhat::kTokens:
      return show_tokens(trace, options.json, out);
    case ShowWhat::kChunks:
      return dump(trace, out);
    case ShowWhat::kTimes:
      return show_times(trace, options.json, out);
    case ShowWhat::kSummary:
      break;
  }
  return show_summary(trace, options.json, out);
}

}  // namespace goldentrace
