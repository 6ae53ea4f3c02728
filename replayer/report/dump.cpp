#include "replayer/report/dump.h"

#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/format/codec.h"
#include "src/format/scan.h"

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

// Byte b becomes the character of code point b, so that any bytes fit into JSON.
std::string text_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | (byte >> 6));
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

json texts_of(const std::vector<std::string>& texts) {
  json array = json::array();
  for (const std::string& text : texts) array.push_back(text_of(text));
  return array;
}

json pairs_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  json array = json::array();
  for (const auto& [key, value] : pairs) array.push_back({text_of(key), text_of(value)});
  return array;
}

std::string bits_of(std::uint64_t bits, int digits = 16) {
  char text[17];
  std::snprintf(text, sizeof(text), "%0*llx", digits, static_cast<unsigned long long>(bits));
  return text;
}

std::string bits_of(double value) { return bits_of(std::bit_cast<std::uint64_t>(value)); }

json floats_of(const std::vector<float>& values) {
  json array = json::array();
  for (const float value : values) {
    array.push_back(bits_of(std::uint64_t{std::bit_cast<std::uint32_t>(value)}, 8));
  }
  return array;
}

json placement_of(const Placement& at) {
  return {static_cast<int>(at.kind), at.dim, at.index, at.count};
}

json row_of(const Row& row) { return {row.request, row.first_row, row.count, row.position}; }

json sketch_of(const Sketch& sketch) {
  json array = json::array();
  for (const float sum : sketch)
    array.push_back(bits_of(std::uint64_t{std::bit_cast<std::uint32_t>(sum)}, 8));
  return array;
}

json stats_of(const Stats& stats) {
  return {stats.count,
          stats.nan,
          stats.positive_infinity,
          stats.negative_infinity,
          stats.sentinel,
          stats.zero,
          bits_of(stats.min),
          bits_of(stats.max),
          bits_of(stats.sum),
          bits_of(stats.sum_squares)};
}

json double_of(const char* name, const Node& node) {
  return {name, bits_of(static_cast<std::uint64_t>(node.value))};
}

// The node at `next`, which moves past it and its children.
json node_of(const std::vector<Node>& nodes, std::size_t& next) {
  const Node& node = nodes[next++];
  const auto children = [&] {
    json array = json::array();
    for (std::int64_t i = 0; i < node.value; ++i) array.push_back(node_of(nodes, next));
    return array;
  };
  switch (node.kind) {
    case NodeKind::kNone:
      return json::array({"none"});
    case NodeKind::kTensor:
      return {"tensor", node.value, node.version};
    case NodeKind::kUndefinedTensor:
      return json::array({"undefined"});
    case NodeKind::kInt:
      return {"int", node.value};
    case NodeKind::kDouble:
      return double_of("double", node);
    case NodeKind::kBool:
      return {"bool", node.value};
    case NodeKind::kString:
      return {"string", node.value};
    case NodeKind::kDevice:
      return {"device", node.value};
    case NodeKind::kList:
      return {"list", children()};
    case NodeKind::kTuple:
      return {"tuple", children()};
    case NodeKind::kComplex: {
      const std::size_t real = next;
      next += 2;
      return {"complex", double_of("", nodes[real])[1], double_of("", nodes[real + 1])[1]};
    }
    case NodeKind::kGenerator:
      return {"generator", node.value};
    case NodeKind::kWrappedInt:
      return {"wrapped_int", node.value};
    case NodeKind::kWrappedDouble:
      return double_of("wrapped_double", node);
    case NodeKind::kWrappedBool:
      return {"wrapped_bool", node.value};
    case NodeKind::kUnstorable:
      return {"unstorable", node.value};
    case NodeKind::kStorage:
      return {"storage", node.value};
  }
  return nullptr;
}

json nodes_of(const std::vector<Node>& nodes, std::size_t begin, std::size_t end) {
  json array = json::array();
  for (std::size_t next = begin; next < end;) array.push_back(node_of(nodes, next));
  return array;
}

json call_of(const ProgramChunk& chunk, const Call& call) {
  json writes = json::array();
  for (std::size_t w = 0; w < call.writes; ++w) {
    const Write& write = chunk.writes[call.first_write + w];
    json row = {write.tensor, write.version, write.flags, nullptr, nullptr};
    if ((write.flags & kWriteHashed) != 0) row[3] = to_hex(write.hash);
    if ((write.flags & kWriteStats) != 0) row[4] = stats_of(chunk.stats[write.stats_index]);
    if ((write.flags & kWriteSketch) != 0)
      row.push_back(sketch_of(chunk.sketches[write.sketch_index]));
    writes.push_back(std::move(row));
  }
  return {{"op", call.op},
          {"scope", call.scope},
          {"step", call.step},
          {"ambient", call.ambient},
          {"flags", call.flags},
          {"arguments", nodes_of(chunk.nodes, call.first_node, call.first_result)},
          {"results", nodes_of(chunk.nodes, call.first_result, call.end_node)},
          {"writes", std::move(writes)}};
}

template <typename Items, typename Get>
json array_of(const Items& items, Get get) {
  json array = json::array();
  for (const auto& item : items) array.push_back(get(item));
  return array;
}

Status add_header(std::span<const std::byte> raw, json& object) {
  const auto header = decode_header(raw);
  if (!header.ok()) return header.status();
  object["major"] = header->major;
  object["minor"] = header->minor;
  object["engine"] = text_of(header->engine);
  object["engine_version"] = text_of(header->engine_version);
  object["device"] = text_of(header->device);
  object["dtype"] = text_of(header->dtype);
  object["model_config"] = text_of(header->model_config);
  object["environment"] = pairs_of(header->environment);
  object["command"] = texts_of(header->command);
  object["started_unix_ns"] = header->started_unix_ns;
  object["rank"] = header->rank;
  object["world"] = header->world;
  object["mesh"] = text_of(header->mesh);
  object["modules"] = pairs_of(header->modules);
  object["warnings"] = texts_of(header->warnings);
  return {};
}

void add_definitions(const ProgramChunk& chunk, json& object) {
  const ProgramBase& base = chunk.base;
  object["base"] = {base.calls,      base.strings,  base.operators, base.scopes,
                    base.geometries, base.storages, base.tensors,   base.ambients};
  object["strings"] = texts_of(chunk.strings);
  object["operators"] = array_of(chunk.operators, [](const Operator& op) {
    return json{text_of(op.name), text_of(op.overload)};
  });
  object["scopes"] = texts_of(chunk.scopes);
  object["geometries"] = array_of(chunk.geometries, [](const Geometry& at) {
    return json{json(at.sizes), json(at.strides)};
  });
  object["storages"] = array_of(chunk.storages, [](const Storage& storage) {
    return json{storage.bytes, storage.device};
  });
  object["tensors"] = array_of(chunk.tensors, [](const Tensor& tensor) {
    return json{tensor.storage, tensor.geometry, static_cast<int>(tensor.dtype), tensor.flags,
                tensor.offset};
  });
  object["ambients"] = array_of(chunk.ambients, [](const Ambient& ambient) {
    return json{ambient.grad,
                ambient.inference,
                ambient.deterministic,
                ambient.autocast,
                static_cast<int>(ambient.autocast_dtype),
                static_cast<int>(ambient.default_dtype),
                text_of(ambient.matmul_precision),
                ambient.threads};
  });
}

Status add_program(std::span<const std::byte> raw, json& object) {
  const auto chunk = decode_program(raw);
  if (!chunk.ok()) return chunk.status();
  add_definitions(*chunk, object);
  object["externals"] = array_of(chunk->externals, [](const External& external) {
    return json{external.call, external.storage, external.version, static_cast<int>(external.kind),
                to_hex(external.hash)};
  });
  object["calls"] = array_of(chunk->calls, [&](const Call& call) { return call_of(*chunk, call); });
  object["placements"] = array_of(chunk->placements, [](const TensorPlacement& entry) {
    json row = {entry.tensor};
    for (const json& field : placement_of(entry.placement)) row.push_back(field);
    return row;
  });
  object["layouts"] = array_of(chunk->layouts, [](const TensorLayout& entry) {
    return json{entry.tensor, entry.text};
  });
  object["rows"] = array_of(chunk->rows, [](const TensorRow& entry) {
    json row = {entry.tensor};
    for (const json& field : row_of(entry.row)) row.push_back(field);
    return row;
  });
  return {};
}

Status add_timing(std::span<const std::byte> raw, json& object) {
  std::uint64_t first = 0;
  const auto timings = decode_timing(raw, first);
  if (!timings.ok()) return timings.status();
  object["base_calls"] = first;
  object["timings"] = array_of(*timings, [](const Timing& timing) {
    return json{timing.thread, timing.start_ns, timing.duration_ns};
  });
  return {};
}

Status add_bands(std::span<const std::byte> raw, json& object) {
  const auto bands = decode_bands(raw);
  if (!bands.ok()) return bands.status();
  object["base_calls"] = bands->base_calls;
  object["typical"] = floats_of(bands->typical);
  object["largest"] = floats_of(bands->largest);
  return {};
}

Status add_parameters(std::span<const std::byte> raw, json& object) {
  const auto parameters = decode_parameters(raw);
  if (!parameters.ok()) return parameters.status();
  object["entries"] = array_of(*parameters, [](const Parameter& parameter) {
    return json{{"name", text_of(parameter.name)},
                {"kind", static_cast<int>(parameter.kind)},
                {"tensor", parameter.tensor},
                {"hash", to_hex(parameter.hash)},
                {"recipe", static_cast<int>(parameter.recipe)},
                {"sources", texts_of(parameter.sources)},
                {"placement", placement_of(parameter.placement)},
                {"call", parameter.call}};
  });
  return {};
}

json request_of(const Request& request) {
  return {
      {"id", request.id},
      {"prompt", text_of(request.prompt)},
      {"prompt_ids", request.prompt_ids},
      {"prompt_pieces", texts_of(request.prompt_pieces)},
      {"sampling",
       array_of(
           request.sampling,
           [](const Setting& setting) {
             return json{text_of(setting.name), text_of(setting.value), text_of(setting.origin)};
           })},
      {"stop_ids", request.stop_ids},
      {"output_ids", request.output_ids},
      {"output_pieces", texts_of(request.output_pieces)},
      {"output", text_of(request.output)},
      {"finish_reason", text_of(request.finish_reason)}};
}

json step_of(const Step& step) {
  return {{"step", step.step},
          {"rows", array_of(step.rows, row_of)},
          {"chosen", step.chosen},
          {"top_ids", step.top_ids},
          {"top_logits", floats_of(step.top_logits)},
          {"gap_ulp", bits_of(step.gap_ulp)},
          {"logprob", bits_of(step.logprob)},
          {"logits_rms", bits_of(step.logits_rms)},
          {"top_logprobs", floats_of(step.top_logprobs)},
          {"top_pieces", texts_of(step.top_pieces)},
          {"logprob_kind", static_cast<int>(step.logprob_kind)}};
}

Status add_text(std::span<const std::byte> raw, json& object) {
  const auto text = decode_text(raw);
  if (!text.ok()) return text.status();
  object["requests"] = array_of(text->requests, request_of);
  object["steps"] = array_of(text->steps, step_of);
  return {};
}

Status add_values(std::span<const std::byte> raw, json& object) {
  const auto values = decode_values(raw);
  if (!values.ok()) return values.status();
  object["parts"] = array_of(values->parts, [](const ValuePart& part) {
    return json{to_hex(part.hash), part.total, part.offset, part.length};
  });
  return {};
}

Status add_summary(std::span<const std::byte> raw, json& object) {
  const auto summary = decode_summary(raw);
  if (!summary.ok()) return summary.status();
  object["counters"] = array_of(summary->counters, [](const Counter& counter) {
    return json{text_of(counter.name), static_cast<int>(counter.severity),
                static_cast<int>(counter.origin), counter.value, text_of(counter.first)};
  });
  object["calls"] = summary->calls;
  object["duration_ns"] = summary->duration_ns;
  return {};
}

Status add_index(std::span<const std::byte> raw, json& object) {
  const auto index = decode_index(raw);
  if (!index.ok()) return index.status();
  object["chunks"] = array_of(index->chunks, [](const ChunkEntry& entry) {
    return json{entry.offset,
                entry.stored_size,
                entry.raw_size,
                to_hex(entry.content),
                entry.first_call,
                entry.calls,
                static_cast<int>(entry.kind),
                static_cast<int>(entry.codec)};
  });
  object["values"] = array_of(index->values, [](const ValueEntry& entry) {
    return json{to_hex(entry.hash), entry.offset, entry.length, entry.chunk};
  });
  return {};
}

Status add_decoded(ChunkKind kind, std::span<const std::byte> raw, json& object) {
  switch (kind) {
    case ChunkKind::kHeader:
      return add_header(raw, object);
    case ChunkKind::kProgram:
      return add_program(raw, object);
    case ChunkKind::kTiming:
      return add_timing(raw, object);
    case ChunkKind::kParameters:
      return add_parameters(raw, object);
    case ChunkKind::kText:
      return add_text(raw, object);
    case ChunkKind::kValues:
      return add_values(raw, object);
    case ChunkKind::kSummary:
      return add_summary(raw, object);
    case ChunkKind::kIndex:
      return add_index(raw, object);
    case ChunkKind::kBands:
      return add_bands(raw, object);
  }
  return {};
}

}  // namespace

Status dump(const TraceReader& trace, std::ostream& out) {
  // Values must be what their names say before anything is shown.
  std::optional<Hash128> last;
  for (const ValueEntry& entry : trace.values()) {
    if (last == entry.hash) continue;
    GOLDENTRACE_RETURN_IF_ERROR(
        trace.visit_value(entry.hash, [](std::span<const std::byte>) { return Status(); }));
    last = entry.hash;
  }
  ProgramReader program(trace);
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) break;
  }
  Continuity continuity;
  const std::size_t chunks = trace.chunks().size() + (trace.cut_at() ? 0 : 1);
  for (std::size_t i = 0; i < chunks; ++i) {
    auto chunk = trace.read_stored(i);
    if (!chunk.ok()) return chunk.status();
    const ChunkHeader header = chunk->header;
    if (Status status = continuity.add(*chunk); !status.ok()) return trace.at_chunk(i, status);
    json object = {{"chunk", i},
                   {"kind", static_cast<int>(header.kind)},
                   {"codec", static_cast<int>(header.codec)},
                   {"item_size", header.item_size},
                   {"stored_size", header.stored_size},
                   {"raw_size", header.raw_size},
                   {"content", "unknown"}};
    if (header.kind == ChunkKind::kTiming) {
      GOLDENTRACE_RETURN_IF_ERROR(trace.timings_of(i).status());
    }
    chunk->stored = Bytes();  // it is read again: only one of the two is in memory
    const auto raw = trace.read_chunk(i);
    const bool unknown_kind = !is_known(header.kind);
    if (raw.ok()) {
      object["content"] = to_hex(content_hash(*raw));
      const Status status = add_decoded(header.kind, *raw, object);
      if (!status.ok()) return trace.at_chunk(i, status);
    } else if (!unknown_kind || raw.status().code() != Code::kUnsupported) {
      return raw.status();
    }
    out << object.dump() << '\n';
  }
  if (trace.cut_at()) out << json{{"cut", *trace.cut_at()}}.dump() << '\n';
  return {};
}

}  // namespace goldentrace
