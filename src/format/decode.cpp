// All chunks but those of the program (decode_program.cpp).
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "src/format/decode_buffer.h"

namespace goldentrace {
namespace {

Status decode_step(const wire::Step& entry, Copier& copy, Step& step) {
  step.step = entry.step();
  if (!copy.columns(entry.rows()) || !copy.reserve(step.rows, length(entry.rows()))) {
    return bad_offsets();
  }
  for (flatbuffers::uoffset_t r = 0; r < length(entry.rows()); ++r) {
    const wire::Row* row = entry.rows()->Get(r);
    step.rows.push_back({row->request(), row->first_row(), row->count(), row->position()});
    if (step.rows.back().request != step.rows.front().request) {
      return corrupt("rows of several requests in one step entry");
    }
    if (!possible_rows(step.rows.back())) return impossible_rows();
  }
  step.chosen = entry.chosen();
  step.top_ids = copy.scalars(entry.top_ids());
  step.top_logits = copy.scalars(entry.top_logits());
  step.top_logprobs = copy.scalars(entry.top_logprobs());
  step.top_pieces = copy.texts(entry.top_pieces());
  const auto one_an_id = [&](std::size_t size) { return size == 0 || size == step.top_ids.size(); };
  if (!copy.broken() &&
      !(one_an_id(step.top_logits.size()) && one_an_id(step.top_logprobs.size()) &&
        one_an_id(step.top_pieces.size()))) {
    return corrupt("top ids and what is told of them differ in length");
  }
  step.gap_ulp = entry.gap_ulp();
  step.logprob = entry.logprob();
  step.logits_rms = entry.logits_rms();
  if (entry.logprob_kind() > wire::LogprobKind::Processed) {
    return unknown("logprob kind", wire_number(entry.logprob_kind()));
  }
  step.logprob_kind = static_cast<LogprobKind>(entry.logprob_kind());
  return {};
}

// The parts of each value must make it up, from its first byte on and in the order of their chunks,
// and must fit into those: whoever asks for a value allocates what its parts claim, and decodes
// each chunk once.
Status check_parts(const Index& index) {
  const ValueEntry* before = nullptr;
  std::uint64_t in_chunk = 0;  // bytes of this value in the chunk of the part before
  for (const ValueEntry& part : index.values) {
    const bool first = before == nullptr || before->hash != part.hash;
    if (first ? part.offset != 0
              : part.offset != before->offset + before->length || part.chunk < before->chunk) {
      return corrupt("parts of a value in the index do not follow one another");
    }
    if (first || part.chunk != before->chunk) in_chunk = 0;
    in_chunk += part.length;
    if (in_chunk > index.chunks[part.chunk].raw_size) {
      return corrupt("parts of a value in the index are larger than their chunk");
    }
    before = &part;
  }
  return {};
}

}  // namespace

Result<Header> decode_header(std::span<const std::byte> raw) {
  const auto* table = root<wire::Header>(raw);
  if (table == nullptr) return bad_buffer("header");
  Copier copy(raw);
  Header header;
  header.major = table->major();
  header.minor = table->minor();
  header.engine = copy.text(table->engine());
  header.engine_version = copy.text(table->engine_version());
  header.device = copy.text(table->device());
  header.dtype = copy.text(table->dtype());
  header.model_config = copy.text(table->model_config());
  header.environment = copy.pairs(table->environment());
  header.command = copy.texts(table->command());
  header.started_unix_ns = table->started_unix_ns();
  header.rank = table->rank();
  header.world = table->world();
  header.mesh = copy.text(table->mesh());
  header.modules = copy.pairs(table->modules());
  header.warnings = copy.texts(table->warnings());
  if (copy.broken()) return bad_offsets();
  return header;
}

Result<std::vector<Timing>> decode_timing(std::span<const std::byte> raw,
                                          std::uint64_t& first_call) {
  const auto* table = root<wire::Timing>(raw);
  if (table == nullptr) return bad_buffer("timing");
  const std::size_t count = length(table->thread());
  if (!equal_columns(count, table->start_ns(), table->duration_ns())) {
    return corrupt("timing columns differ in length");
  }
  if (!Copier(raw).columns(table->thread(), table->start_ns(), table->duration_ns())) {
    return bad_offsets();
  }
  first_call = table->base_calls();
  std::vector<Timing> timings;
  timings.reserve(count);
  for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
    timings.push_back(
        {table->thread()->Get(i), table->start_ns()->Get(i), table->duration_ns()->Get(i)});
  }
  return timings;
}

Result<Bands> decode_bands(std::span<const std::byte> raw) {
  const auto* table = root<wire::Bands>(raw);
  if (table == nullptr) return bad_buffer("bands");
  if (!equal_columns(length(table->typical()), table->largest())) {
    return corrupt("columns of bands differ in length");
  }
  Copier copy(raw);
  Bands bands;
  bands.base_calls = table->base_calls();
  bands.typical = copy.scalars(table->typical());
  bands.largest = copy.scalars(table->largest());
  if (copy.broken()) return bad_offsets();
  for (std::size_t i = 0; i < bands.typical.size(); ++i) {
    const float typical = bands.typical[i];
    const float largest = bands.largest[i];
    if (std::isnan(typical) && std::isnan(largest)) continue;
    if (!(typical >= 0 && typical <= largest && largest <= std::numeric_limits<float>::max())) {
      return corrupt("a band that is no distance");
    }
  }
  return bands;
}

Result<std::vector<Parameter>> decode_parameters(std::span<const std::byte> raw) {
  const auto* table = root<wire::Parameters>(raw);
  if (table == nullptr) return bad_buffer("parameters");
  Copier copy(raw);
  std::vector<Parameter> parameters;
  if (table->entries() == nullptr) return parameters;
  if (!copy.reserve(parameters, length(table->entries()))) return bad_offsets();
  for (const wire::Parameter* entry : *table->entries()) {
    Parameter parameter;
    parameter.name = copy.text(entry->name());
    parameter.kind = static_cast<ParameterKind>(entry->kind());
    parameter.tensor = entry->tensor();
    if (entry->hash() == nullptr) return corrupt("parameter '" + parameter.name + "' has no hash");
    parameter.hash = from_wire(*entry->hash());
    parameter.recipe = static_cast<Recipe>(entry->recipe());
    if (parameter.kind > ParameterKind::kBuffer)
      return unknown("parameter kind", wire_number(parameter.kind));
    if (parameter.recipe > Recipe::kComputed)
      return unknown("recipe", wire_number(parameter.recipe));
    parameter.sources = copy.texts(entry->sources());
    const bool sourced =
        parameter.recipe != Recipe::kValue && parameter.recipe != Recipe::kComputed;
    if (sourced && parameter.sources.empty()) {
      return corrupt("recipe of parameter '" + parameter.name + "' names no source");
    }
    parameter.call = entry->call();
    if (const wire::Placement* at = entry->placement(); at != nullptr) {
      GOLDENTRACE_RETURN_IF_ERROR(decode_placement(*at, parameter.placement));
    }
    if (copy.broken()) return bad_offsets();
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

Result<Text> decode_text(std::span<const std::byte> raw) {
  const auto* table = root<wire::Text>(raw);
  if (table == nullptr) return bad_buffer("text");
  Copier copy(raw);
  Text text;
  if (!copy.reserve(text.requests, length(table->requests())) ||
      !copy.reserve(text.steps, length(table->steps()))) {
    return bad_offsets();
  }
  for (flatbuffers::uoffset_t i = 0; i < length(table->requests()); ++i) {
    const wire::Request* entry = table->requests()->Get(i);
    Request request;
    request.id = entry->id();
    request.prompt = copy.text(entry->prompt());
    request.prompt_ids = copy.scalars(entry->prompt_ids());
    request.prompt_pieces = copy.texts(entry->prompt_pieces());
    if (!copy.reserve(request.sampling, length(entry->sampling()))) return bad_offsets();
    for (flatbuffers::uoffset_t s = 0; s < length(entry->sampling()); ++s) {
      const wire::Setting* setting = entry->sampling()->Get(s);
      request.sampling.push_back(
          {copy.text(setting->name()), copy.text(setting->value()), copy.text(setting->origin())});
    }
    request.stop_ids = copy.scalars(entry->stop_ids());
    request.output_ids = copy.scalars(entry->output_ids());
    request.output_pieces = copy.texts(entry->output_pieces());
    const auto one_an_id = [](const auto& pieces, const auto& ids) {
      return pieces.empty() || pieces.size() == ids.size();
    };
    if (!copy.broken() && !(one_an_id(request.prompt_pieces, request.prompt_ids) &&
                            one_an_id(request.output_pieces, request.output_ids))) {
      return corrupt("pieces are not one for each id");
    }
    request.output = copy.text(entry->output());
    request.finish_reason = copy.text(entry->finish_reason());
    if (copy.broken()) return bad_offsets();
    text.requests.push_back(std::move(request));
  }
  for (flatbuffers::uoffset_t i = 0; i < length(table->steps()); ++i) {
    Step step;
    GOLDENTRACE_RETURN_IF_ERROR(decode_step(*table->steps()->Get(i), copy, step));
    if (copy.broken()) return bad_offsets();
    text.steps.push_back(std::move(step));
  }
  return text;
}

Result<Values> decode_values(std::span<const std::byte> raw) {
  const auto* table = root<wire::Values>(raw);
  if (table == nullptr) return bad_buffer("values");
  if (!Copier(raw).columns(table->parts(), table->data())) return bad_offsets();
  Values values;
  if (const auto* data = table->data(); data != nullptr) {
    values.data = {reinterpret_cast<const std::byte*>(data->data()), data->size()};
  }
  std::uint64_t used = 0;
  for (flatbuffers::uoffset_t i = 0; i < length(table->parts()); ++i) {
    const wire::ValuePart* part = table->parts()->Get(i);
    if ((part->length() == 0 && part->total() > 0) || part->length() > values.data.size() - used ||
        part->offset() > part->total() || part->length() > part->total() - part->offset()) {
      return corrupt("value part reaches outside its chunk or its value");
    }
    used += part->length();
    values.parts.push_back(
        {from_wire(part->hash()), part->total(), part->offset(), part->length()});
  }
  if (used != values.data.size()) return corrupt("values chunk holds bytes of no value");
  return values;
}

Result<Summary> decode_summary(std::span<const std::byte> raw) {
  const auto* table = root<wire::Summary>(raw);
  if (table == nullptr) return bad_buffer("summary");
  Copier copy(raw);
  Summary summary;
  if (!copy.reserve(summary.counters, length(table->counters()))) return bad_offsets();
  for (flatbuffers::uoffset_t i = 0; i < length(table->counters()); ++i) {
    const wire::Counter* counter = table->counters()->Get(i);
    summary.counters.push_back({copy.text(counter->name()),
                                static_cast<CounterSeverity>(counter->severity()),
                                static_cast<CounterOrigin>(counter->origin()), counter->value(),
                                copy.text(counter->first())});
    if (copy.broken()) return bad_offsets();
  }
  summary.calls = table->calls();
  summary.duration_ns = table->duration_ns();
  return summary;
}

Result<Index> decode_index(std::span<const std::byte> raw) {
  const auto* table = root<wire::Index>(raw);
  if (table == nullptr) return bad_buffer("index");
  if (!Copier(raw).columns(table->chunks(), table->values())) return bad_offsets();
  Index index;
  for (flatbuffers::uoffset_t i = 0; i < length(table->chunks()); ++i) {
    const wire::ChunkEntry* entry = table->chunks()->Get(i);
    index.chunks.push_back({entry->offset(), entry->stored_size(), entry->raw_size(),
                            from_wire(entry->content_hash()), entry->first_call(), entry->calls(),
                            static_cast<ChunkKind>(entry->kind()),
                            static_cast<Codec>(entry->codec())});
  }
  for (flatbuffers::uoffset_t i = 0; i < length(table->values()); ++i) {
    const wire::ValueEntry* entry = table->values()->Get(i);
    if (entry->chunk() >= index.chunks.size() ||
        index.chunks[entry->chunk()].kind != ChunkKind::kValues) {
      return corrupt("index places a value outside the values chunks");
    }
    const ValueEntry value{from_wire(entry->hash()), entry->offset(), entry->length(),
                           entry->chunk()};
    if (!index.values.empty() &&
        std::tie(value.hash, value.offset) <=
            std::tie(index.values.back().hash, index.values.back().offset)) {
      return corrupt("values of the index are not in order");
    }
    index.values.push_back(value);
  }
  GOLDENTRACE_RETURN_IF_ERROR(check_parts(index));
  return index;
}

}  // namespace goldentrace
