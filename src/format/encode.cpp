#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "src/format/codec.h"
#include "src/format/trace_generated.h"

namespace goldentrace {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

template <typename Table>
Bytes finish(FlatBufferBuilder& builder, Offset<Table> root) {
  builder.Finish(root);
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

wire::Hash128 to_wire(const Hash128& hash) { return {hash.low, hash.high}; }

// One column of a struct-of-arrays table.
template <typename Out, typename Items, typename Get>
auto column(FlatBufferBuilder& builder, const Items& items, Get get) {
  std::vector<Out> values;
  values.reserve(items.size());
  for (const auto& item : items) values.push_back(static_cast<Out>(get(item)));
  return builder.CreateVector(values);
}

bool fits_int32(std::int64_t value) {
  return value >= std::numeric_limits<std::int32_t>::min() &&
         value <= std::numeric_limits<std::int32_t>::max();
}

// Recent tensors are stored as a distance from the highest id seen so far in the chunk, so that the
// same code run again gives the same bytes; old ones (parameters) by id, which repeats as well.
class TensorBase {
 public:
  explicit TensorBase(std::uint32_t base) : highest_(base) {}
  static constexpr std::int64_t kRecent = 4096;

  // True when `id` is to be stored as a distance; `distance` receives it.
  bool recent(std::uint32_t id, std::int64_t& distance) {
    distance = static_cast<std::int64_t>(highest_) - static_cast<std::int64_t>(id);
    highest_ = std::max(highest_, id);
    return distance < kRecent;
  }

 private:
  std::uint32_t highest_;
};

void encode_node(const Node& node, TensorBase& base, wire::ProgramT& program) {
  auto kind = static_cast<std::uint8_t>(node.kind);
  std::int64_t value = node.value;
  switch (node.kind) {
    case NodeKind::kTensor: {
      std::int64_t distance = 0;
      if (base.recent(static_cast<std::uint32_t>(node.value), distance)) {
        kind = kWireTensorBack;
        value = distance;
      }
      program.node_version.push_back(node.version);
      break;
    }
    case NodeKind::kInt:
      if (!fits_int32(node.value)) {
        kind = kWireIntWide;
        program.node_wide.push_back(node.value);
        value = 0;
      }
      break;
    case NodeKind::kDouble:
    case NodeKind::kWrappedDouble:
    case NodeKind::kWrappedInt:
      program.node_wide.push_back(node.value);
      value = 0;
      break;
    default:
      break;
  }
  program.node_kind.push_back(kind);
  program.node_value.push_back(static_cast<std::int32_t>(value));
}

// ---- the program chunk, column by column --------------------------------------------------------

void add_definitions(const ProgramChunk& chunk, wire::ProgramT& program) {
  program.strings = chunk.strings;
  program.scopes = chunk.scopes;
  for (const Operator& op : chunk.operators) {
    auto& entry = program.operators.emplace_back(std::make_unique<wire::OperatorT>());
    entry->name = op.name;
    entry->overload = op.overload;
  }
  auto& extent = program.geometry_extent;
  for (const Geometry& geometry : chunk.geometries) {
    program.geometry_rank.push_back(static_cast<std::uint8_t>(geometry.sizes.size()));
    extent.insert(extent.end(), geometry.sizes.begin(), geometry.sizes.end());
    extent.insert(extent.end(), geometry.strides.begin(), geometry.strides.end());
  }
  for (const Storage& storage : chunk.storages) {
    program.storage_bytes.push_back(storage.bytes);
    program.storage_device.push_back(storage.device);
  }
  for (const Tensor& tensor : chunk.tensors) {
    program.tensor_storage.push_back(tensor.storage);
    program.tensor_geometry.push_back(tensor.geometry);
    program.tensor_dtype.push_back(static_cast<std::uint8_t>(tensor.dtype));
    program.tensor_flags.push_back(tensor.flags);
    program.tensor_offset.push_back(tensor.offset);
  }
  for (const Ambient& ambient : chunk.ambients) {
    auto& entry = program.ambients.emplace_back(std::make_unique<wire::AmbientT>());
    entry->grad = ambient.grad;
    entry->inference = ambient.inference;
    entry->deterministic = ambient.deterministic;
    entry->autocast = ambient.autocast;
    entry->autocast_dtype = static_cast<std::uint8_t>(ambient.autocast_dtype);
    entry->default_dtype = static_cast<std::uint8_t>(ambient.default_dtype);
    entry->matmul_precision = ambient.matmul_precision;
    entry->threads = ambient.threads;
  }
}

void add_externals(const ProgramChunk& chunk, wire::ProgramT& program) {
  for (const External& external : chunk.externals) {
    program.external_call.push_back(static_cast<std::uint32_t>(external.call - chunk.base.calls));
    program.external_storage.push_back(external.storage);
    program.external_version.push_back(external.version);
    program.external_kind.push_back(static_cast<std::uint8_t>(external.kind));
    program.external_hash.push_back(to_wire(external.hash));
  }
}

void add_calls(const ProgramChunk& chunk, wire::ProgramT& program) {
  for (const Call& call : chunk.calls) {
    program.call_operator.push_back(call.op);
    program.call_scope.push_back(call.scope);
    program.call_step.push_back(call.step);
    program.call_ambient.push_back(call.ambient);
    program.call_flags.push_back(call.flags);
    program.call_arguments.push_back(call.arguments);
    program.call_results.push_back(call.results);
    program.call_writes.push_back(call.writes);
  }
}

// Nodes and writes share the running base, call by call, as a reader meets them.
void add_nodes_and_writes(const ProgramChunk& chunk, wire::ProgramT& program) {
  TensorBase base(chunk.base.tensors);
  std::size_t next_write = 0;
  for (const Call& call : chunk.calls) {
    for (std::size_t i = call.first_node; i < call.end_node; ++i) {
      encode_node(chunk.nodes[i], base, program);
    }
    for (std::size_t i = 0; i < call.writes; ++i) {
      const Write& write = chunk.writes[next_write++];
      std::int64_t distance = 0;
      (void)base.recent(write.tensor, distance);
      program.write_tensor.push_back(static_cast<std::int32_t>(distance));
      program.write_version.push_back(write.version);
      program.write_flags.push_back(write.flags);
      if ((write.flags & kWriteHashed) != 0) program.write_hash.push_back(to_wire(write.hash));
    }
  }
}

void add_stats(const ProgramChunk& chunk, wire::ProgramT& program) {
  for (const Stats& stats : chunk.stats) {
    program.stats_count.push_back(stats.count);
    program.stats_nan.push_back(stats.nan);
    program.stats_positive_infinity.push_back(stats.positive_infinity);
    program.stats_negative_infinity.push_back(stats.negative_infinity);
    program.stats_sentinel.push_back(stats.sentinel);
    program.stats_zero.push_back(stats.zero);
    program.stats_min.push_back(stats.min);
    program.stats_max.push_back(stats.max);
    program.stats_sum.push_back(stats.sum);
    program.stats_sum_squares.push_back(stats.sum_squares);
  }
}

void add_sketches(const ProgramChunk& chunk, wire::ProgramT& program) {
  for (const Sketch& sketch : chunk.sketches) {
    program.write_sketch.insert(program.write_sketch.end(), sketch.begin(), sketch.end());
  }
}

wire::Placement to_wire(const Placement& at) {
  return {static_cast<wire::PlacementKind>(at.kind), at.dim, at.index, at.count};
}

void add_tensor_notes(const ProgramChunk& chunk, wire::ProgramT& program) {
  for (const TensorPlacement& entry : chunk.placements) {
    program.tensor_placement.emplace_back(entry.tensor, to_wire(entry.placement));
  }
  for (const TensorLayout& entry : chunk.layouts) {
    program.tensor_layout.emplace_back(entry.tensor, entry.text);
  }
  for (const TensorRow& entry : chunk.rows) {
    program.tensor_row.emplace_back(entry.tensor, entry.row.request, entry.row.first_row,
                                    entry.row.count, entry.row.position);
  }
}

Offset<flatbuffers::Vector<Offset<wire::KeyValue>>> key_values(
    FlatBufferBuilder& builder, const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<Offset<wire::KeyValue>> entries;
  entries.reserve(pairs.size());
  for (const auto& [key, value] : pairs) {
    const auto key_text = builder.CreateString(key);
    entries.push_back(wire::CreateKeyValue(builder, key_text, builder.CreateString(value)));
  }
  return builder.CreateVector(entries);
}

}  // namespace

Bytes encode_header(const Header& header) {
  FlatBufferBuilder builder(4096);
  const auto engine = builder.CreateString(header.engine);
  const auto engine_version = builder.CreateString(header.engine_version);
  const auto device = builder.CreateString(header.device);
  const auto dtype = builder.CreateString(header.dtype);
  const auto model_config = builder.CreateString(header.model_config);
  const auto environment = key_values(builder, header.environment);
  const auto command = builder.CreateVectorOfStrings(header.command);
  const auto mesh = builder.CreateString(header.mesh);
  const auto modules = key_values(builder, header.modules);
  const auto warnings = builder.CreateVectorOfStrings(header.warnings);
  return finish(builder, wire::CreateHeader(builder, header.major, header.minor, engine,
                                            engine_version, device, dtype, model_config,
                                            environment, command, header.started_unix_ns,
                                            header.rank, header.world, mesh, modules, warnings));
}

Bytes encode_program(const ProgramChunk& chunk) {
  wire::ProgramT program;
  program.base_calls = chunk.base.calls;
  program.base_strings = chunk.base.strings;
  program.base_operators = chunk.base.operators;
  program.base_scopes = chunk.base.scopes;
  program.base_geometries = chunk.base.geometries;
  program.base_storages = chunk.base.storages;
  program.base_tensors = chunk.base.tensors;
  program.base_ambients = chunk.base.ambients;
  add_definitions(chunk, program);
  add_externals(chunk, program);
  add_calls(chunk, program);
  add_nodes_and_writes(chunk, program);
  add_stats(chunk, program);
  add_sketches(chunk, program);
  add_tensor_notes(chunk, program);
  FlatBufferBuilder builder(1 << 20);
  return finish(builder, wire::Program::Pack(builder, &program));
}

Bytes encode_timing(const ProgramChunk& chunk) {
  FlatBufferBuilder builder(1 << 16);
  const auto& timings = chunk.timings;
  const auto thread =
      column<std::uint32_t>(builder, timings, [](const Timing& t) { return t.thread; });
  const auto start =
      column<std::uint64_t>(builder, timings, [](const Timing& t) { return t.start_ns; });
  const auto duration =
      column<std::uint64_t>(builder, timings, [](const Timing& t) { return t.duration_ns; });
  return finish(builder, wire::CreateTiming(builder, chunk.base.calls, thread, start, duration));
}

Bytes encode_bands(const Bands& bands) {
  FlatBufferBuilder builder(1 << 16);
  const auto typical = builder.CreateVector(bands.typical);
  const auto largest = builder.CreateVector(bands.largest);
  return finish(builder, wire::CreateBands(builder, bands.base_calls, typical, largest));
}

Bytes encode_parameters(std::span<const Parameter> parameters) {
  FlatBufferBuilder builder(1 << 16);
  std::vector<Offset<wire::Parameter>> entries;
  for (const Parameter& parameter : parameters) {
    const auto name = builder.CreateString(parameter.name);
    const auto sources = builder.CreateVectorOfStrings(parameter.sources);
    const wire::Hash128 hash = to_wire(parameter.hash);
    const wire::Placement placement = to_wire(parameter.placement);
    entries.push_back(wire::CreateParameter(
        builder, name, static_cast<wire::ParameterKind>(parameter.kind), parameter.tensor, &hash,
        static_cast<wire::Recipe>(parameter.recipe), sources, &placement, parameter.call));
  }
  return finish(builder, wire::CreateParametersDirect(builder, &entries));
}

Bytes encode_text(const Text& text) {
  FlatBufferBuilder builder(1 << 16);
  std::vector<Offset<wire::Request>> requests;
  for (const Request& request : text.requests) {
    std::vector<Offset<wire::Setting>> sampling;
    for (const Setting& setting : request.sampling) {
      const auto name = builder.CreateString(setting.name);
      const auto value = builder.CreateString(setting.value);
      const auto origin = builder.CreateString(setting.origin);
      sampling.push_back(wire::CreateSetting(builder, name, value, origin));
    }
    const auto prompt = builder.CreateString(request.prompt);
    const auto prompt_ids = builder.CreateVector(request.prompt_ids);
    const auto prompt_pieces = builder.CreateVectorOfStrings(request.prompt_pieces);
    const auto settings = builder.CreateVector(sampling);
    const auto stop_ids = builder.CreateVector(request.stop_ids);
    const auto output_ids = builder.CreateVector(request.output_ids);
    const auto output_pieces = builder.CreateVectorOfStrings(request.output_pieces);
    const auto output = builder.CreateString(request.output);
    const auto finish_reason = builder.CreateString(request.finish_reason);
    requests.push_back(wire::CreateRequest(builder, request.id, prompt, prompt_ids, prompt_pieces,
                                           settings, stop_ids, output_ids, output_pieces, output,
                                           finish_reason));
  }
  std::vector<Offset<wire::Step>> steps;
  for (const Step& step : text.steps) {
    std::vector<Offset<wire::Row>> rows;
    for (const Row& row : step.rows) {
      rows.push_back(wire::CreateRow(builder, row.request, row.first_row, row.count, row.position));
    }
    const auto rows_vector = builder.CreateVector(rows);
    const auto top_ids = builder.CreateVector(step.top_ids);
    const auto top_logits = builder.CreateVector(step.top_logits);
    const auto top_logprobs = builder.CreateVector(step.top_logprobs);
    const auto top_pieces = builder.CreateVectorOfStrings(step.top_pieces);
    steps.push_back(wire::CreateStep(builder, step.step, rows_vector, step.chosen, top_ids,
                                     top_logits, step.gap_ulp, step.logprob, step.logits_rms,
                                     top_logprobs, top_pieces,
                                     static_cast<wire::LogprobKind>(step.logprob_kind)));
  }
  return finish(builder, wire::CreateTextDirect(builder, &requests, &steps));
}

Bytes encode_values(std::span<const ValuePart> parts, std::span<const std::byte> data, Bytes out) {
  FlatBufferBuilder builder(data.size() + parts.size() * sizeof(wire::ValuePart) + 256);
  // The data begins at a multiple of 16, so that it may be used where it lies. It is what is built
  // first, so it ends up last; it is copied once, into `out`, and never into the builder.
  builder.ForceVectorAlignment(data.size(), 1, 16);
  std::uint8_t* unused = nullptr;
  const auto bytes = builder.CreateUninitializedVector<std::uint8_t>(data.size(), &unused);
  std::vector<wire::ValuePart> entries;
  for (const ValuePart& part : parts) {
    entries.emplace_back(to_wire(part.hash), part.total, part.offset, part.length);
  }
  const auto entries_vector = builder.CreateVectorOfStructs(entries);
  builder.Finish(wire::CreateValues(builder, entries_vector, bytes));
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  const std::size_t size = builder.GetSize();
  const auto* table = flatbuffers::GetRoot<wire::Values>(builder.GetBufferPointer());
  const auto front =
      static_cast<std::size_t>(reinterpret_cast<const std::byte*>(table->data()->data()) - begin);
  out.resize(size);
  std::memcpy(out.data(), begin, front);
  if (!data.empty()) std::memcpy(&out[front], data.data(), data.size());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(front + data.size()), out.end(),
            std::byte{0});
  return out;
}

Bytes encode_summary(const Summary& summary) {
  FlatBufferBuilder builder(4096);
  std::vector<Offset<wire::Counter>> counters;
  for (const Counter& counter : summary.counters) {
    const auto name = builder.CreateString(counter.name);
    const auto first = builder.CreateString(counter.first);
    counters.push_back(
        wire::CreateCounter(builder, name, static_cast<std::uint8_t>(counter.severity),
                            static_cast<std::uint8_t>(counter.origin), counter.value, first));
  }
  return finish(builder,
                wire::CreateSummaryDirect(builder, &counters, summary.calls, summary.duration_ns));
}

Bytes encode_index(const Index& index) {
  FlatBufferBuilder builder(1 << 16);
  std::vector<wire::ChunkEntry> chunks;
  for (const ChunkEntry& entry : index.chunks) {
    chunks.emplace_back(entry.offset, entry.stored_size, entry.raw_size, to_wire(entry.content),
                        entry.first_call, entry.calls, static_cast<std::uint8_t>(entry.kind),
                        static_cast<std::uint8_t>(entry.codec));
  }
  std::vector<wire::ValueEntry> values;
  for (const ValueEntry& entry : index.values) {
    values.emplace_back(to_wire(entry.hash), entry.offset, entry.length, entry.chunk);
  }
  const auto chunks_vector = builder.CreateVectorOfStructs(chunks);
  const auto values_vector = builder.CreateVectorOfStructs(values);
  return finish(builder, wire::CreateIndex(builder, chunks_vector, values_vector));
}

}  // namespace goldentrace
