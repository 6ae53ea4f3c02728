#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
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

template <typename Items>
auto hashes(FlatBufferBuilder& builder, const Items& items) {
  std::vector<wire::Hash128> values;
  values.reserve(items.size());
  for (const auto& item : items) values.push_back(to_wire(item.hash));
  return builder.CreateVectorOfStructs(values);
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

struct NodeColumns {
  std::vector<std::uint8_t> kind;
  std::vector<std::int32_t> value;
  std::vector<std::int64_t> wide;
  std::vector<std::uint32_t> version;
};

void encode_node(const Node& node, TensorBase& base, NodeColumns& columns) {
  auto kind = static_cast<std::uint8_t>(node.kind);
  std::int64_t value = node.value;
  switch (node.kind) {
    case NodeKind::kTensor: {
      std::int64_t distance = 0;
      if (base.recent(static_cast<std::uint32_t>(node.value), distance)) {
        kind = kWireTensorBack;
        value = distance;
      }
      columns.version.push_back(node.version);
      break;
    }
    case NodeKind::kInt:
      if (!fits_int32(node.value)) {
        kind = kWireIntWide;
        columns.wide.push_back(node.value);
        value = 0;
      }
      break;
    case NodeKind::kDouble:
    case NodeKind::kWrappedDouble:
    case NodeKind::kWrappedInt:
      columns.wide.push_back(node.value);
      value = 0;
      break;
    default:
      break;
  }
  columns.kind.push_back(kind);
  columns.value.push_back(static_cast<std::int32_t>(value));
}

}  // namespace

Bytes encode_header(const Header& header) {
  FlatBufferBuilder builder(4096);
  std::vector<Offset<wire::KeyValue>> environment;
  for (const auto& [key, value] : header.environment) {
    const auto key_text = builder.CreateString(key);
    environment.push_back(wire::CreateKeyValue(builder, key_text, builder.CreateString(value)));
  }
  std::vector<Offset<flatbuffers::String>> command;
  for (const std::string& word : header.command) command.push_back(builder.CreateString(word));
  const auto engine = builder.CreateString(header.engine);
  const auto engine_version = builder.CreateString(header.engine_version);
  const auto device = builder.CreateString(header.device);
  const auto dtype = builder.CreateString(header.dtype);
  const auto model_config = builder.CreateString(header.model_config);
  const auto environment_vector = builder.CreateVector(environment);
  const auto command_vector = builder.CreateVector(command);
  const auto mesh = builder.CreateString(header.mesh);
  return finish(builder,
                wire::CreateHeader(builder, header.major, header.minor, engine, engine_version,
                                   device, dtype, model_config, environment_vector, command_vector,
                                   header.started_unix_ns, header.rank, header.world, mesh));
}

Bytes encode_program(const ProgramChunk& chunk) {
  FlatBufferBuilder builder(1 << 20);
  const auto strings = builder.CreateVectorOfStrings(chunk.strings);
  std::vector<Offset<wire::Operator>> operators;
  for (const Operator& op : chunk.operators) {
    const auto name = builder.CreateString(op.name);
    operators.push_back(wire::CreateOperator(builder, name, builder.CreateString(op.overload)));
  }
  const auto operators_vector = builder.CreateVector(operators);
  const auto scopes = builder.CreateVectorOfStrings(chunk.scopes);

  std::vector<std::int64_t> extent;
  for (const Geometry& geometry : chunk.geometries) {
    extent.insert(extent.end(), geometry.sizes.begin(), geometry.sizes.end());
    extent.insert(extent.end(), geometry.strides.begin(), geometry.strides.end());
  }
  const auto geometry_rank = column<std::uint8_t>(
      builder, chunk.geometries, [](const Geometry& geometry) { return geometry.sizes.size(); });
  const auto geometry_extent = builder.CreateVector(extent);

  const auto& storages = chunk.storages;
  const auto storage_bytes =
      column<std::uint64_t>(builder, storages, [](const Storage& s) { return s.bytes; });
  const auto storage_device =
      column<std::uint32_t>(builder, storages, [](const Storage& s) { return s.device; });
  const auto& tensors = chunk.tensors;
  const auto tensor_storage =
      column<std::uint32_t>(builder, tensors, [](const Tensor& t) { return t.storage; });
  const auto tensor_geometry =
      column<std::uint32_t>(builder, tensors, [](const Tensor& t) { return t.geometry; });
  const auto tensor_dtype =
      column<std::uint8_t>(builder, tensors, [](const Tensor& t) { return t.dtype; });
  const auto tensor_flags =
      column<std::uint8_t>(builder, tensors, [](const Tensor& t) { return t.flags; });
  const auto tensor_offset =
      column<std::int64_t>(builder, tensors, [](const Tensor& t) { return t.offset; });

  std::vector<Offset<wire::Ambient>> ambients;
  for (const Ambient& ambient : chunk.ambients) {
    const auto precision = builder.CreateString(ambient.matmul_precision);
    ambients.push_back(wire::CreateAmbient(
        builder, ambient.grad, ambient.inference, ambient.deterministic, ambient.autocast,
        static_cast<std::uint8_t>(ambient.autocast_dtype),
        static_cast<std::uint8_t>(ambient.default_dtype), precision, ambient.threads));
  }
  const auto ambients_vector = builder.CreateVector(ambients);

  const auto& externals = chunk.externals;
  const auto external_call = column<std::uint32_t>(
      builder, externals, [&](const External& e) { return e.call - chunk.base.calls; });
  const auto external_storage =
      column<std::uint32_t>(builder, externals, [](const External& e) { return e.storage; });
  const auto external_version =
      column<std::uint32_t>(builder, externals, [](const External& e) { return e.version; });
  const auto external_kind =
      column<std::uint8_t>(builder, externals, [](const External& e) { return e.kind; });
  const auto external_hash = hashes(builder, externals);

  const auto& calls = chunk.calls;
  const auto call_operator =
      column<std::uint32_t>(builder, calls, [](const Call& c) { return c.op; });
  const auto call_scope =
      column<std::uint32_t>(builder, calls, [](const Call& c) { return c.scope; });
  const auto call_step =
      column<std::uint32_t>(builder, calls, [](const Call& c) { return c.step; });
  const auto call_ambient =
      column<std::uint32_t>(builder, calls, [](const Call& c) { return c.ambient; });
  const auto call_flags =
      column<std::uint8_t>(builder, calls, [](const Call& c) { return c.flags; });
  const auto call_arguments =
      column<std::uint16_t>(builder, calls, [](const Call& c) { return c.arguments; });
  const auto call_results =
      column<std::uint16_t>(builder, calls, [](const Call& c) { return c.results; });
  const auto call_writes =
      column<std::uint16_t>(builder, calls, [](const Call& c) { return c.writes; });

  // Nodes and writes share the running base, call by call, as a reader meets them.
  TensorBase base(chunk.base.tensors);
  NodeColumns nodes;
  std::vector<std::int32_t> write_tensor;
  std::size_t next_write = 0;
  for (const Call& call : calls) {
    for (std::size_t i = call.first_node; i < call.end_node; ++i) {
      encode_node(chunk.nodes[i], base, nodes);
    }
    for (std::size_t i = 0; i < call.writes; ++i) {
      std::int64_t distance = 0;
      (void)base.recent(chunk.writes[next_write++].tensor, distance);
      write_tensor.push_back(static_cast<std::int32_t>(distance));
    }
  }
  const auto node_kind = builder.CreateVector(nodes.kind);
  const auto node_value = builder.CreateVector(nodes.value);
  const auto node_wide = builder.CreateVector(nodes.wide);
  const auto node_version = builder.CreateVector(nodes.version);

  const auto write_tensor_vector = builder.CreateVector(write_tensor);
  const auto write_version =
      column<std::uint32_t>(builder, chunk.writes, [](const Write& w) { return w.version; });
  const auto write_flags =
      column<std::uint8_t>(builder, chunk.writes, [](const Write& w) { return w.flags; });
  std::vector<wire::Hash128> write_hashes;
  for (const Write& write : chunk.writes) {
    if ((write.flags & kWriteHashed) != 0) write_hashes.push_back(to_wire(write.hash));
  }
  const auto write_hash = builder.CreateVectorOfStructs(write_hashes);

  const auto& stats = chunk.stats;
  const auto count = column<std::uint64_t>(builder, stats, [](const Stats& s) { return s.count; });
  const auto nan = column<std::uint64_t>(builder, stats, [](const Stats& s) { return s.nan; });
  const auto positive =
      column<std::uint64_t>(builder, stats, [](const Stats& s) { return s.positive_infinity; });
  const auto negative =
      column<std::uint64_t>(builder, stats, [](const Stats& s) { return s.negative_infinity; });
  const auto sentinel =
      column<std::uint64_t>(builder, stats, [](const Stats& s) { return s.sentinel; });
  const auto zero = column<std::uint64_t>(builder, stats, [](const Stats& s) { return s.zero; });
  const auto min = column<double>(builder, stats, [](const Stats& s) { return s.min; });
  const auto max = column<double>(builder, stats, [](const Stats& s) { return s.max; });
  const auto sum = column<double>(builder, stats, [](const Stats& s) { return s.sum; });
  const auto squares = column<double>(builder, stats, [](const Stats& s) { return s.sum_squares; });

  wire::ProgramBuilder program(builder);
  program.add_base_calls(chunk.base.calls);
  program.add_base_strings(chunk.base.strings);
  program.add_base_operators(chunk.base.operators);
  program.add_base_scopes(chunk.base.scopes);
  program.add_base_geometries(chunk.base.geometries);
  program.add_base_storages(chunk.base.storages);
  program.add_base_tensors(chunk.base.tensors);
  program.add_base_ambients(chunk.base.ambients);
  program.add_strings(strings);
  program.add_operators(operators_vector);
  program.add_scopes(scopes);
  program.add_geometry_rank(geometry_rank);
  program.add_geometry_extent(geometry_extent);
  program.add_storage_bytes(storage_bytes);
  program.add_storage_device(storage_device);
  program.add_tensor_storage(tensor_storage);
  program.add_tensor_geometry(tensor_geometry);
  program.add_tensor_dtype(tensor_dtype);
  program.add_tensor_flags(tensor_flags);
  program.add_tensor_offset(tensor_offset);
  program.add_ambients(ambients_vector);
  program.add_external_call(external_call);
  program.add_external_storage(external_storage);
  program.add_external_version(external_version);
  program.add_external_kind(external_kind);
  program.add_external_hash(external_hash);
  program.add_call_operator(call_operator);
  program.add_call_scope(call_scope);
  program.add_call_step(call_step);
  program.add_call_ambient(call_ambient);
  program.add_call_flags(call_flags);
  program.add_call_arguments(call_arguments);
  program.add_call_results(call_results);
  program.add_call_writes(call_writes);
  program.add_node_kind(node_kind);
  program.add_node_value(node_value);
  program.add_node_wide(node_wide);
  program.add_node_version(node_version);
  program.add_write_tensor(write_tensor_vector);
  program.add_write_version(write_version);
  program.add_write_flags(write_flags);
  program.add_write_hash(write_hash);
  program.add_stats_count(count);
  program.add_stats_nan(nan);
  program.add_stats_positive_infinity(positive);
  program.add_stats_negative_infinity(negative);
  program.add_stats_sentinel(sentinel);
  program.add_stats_zero(zero);
  program.add_stats_min(min);
  program.add_stats_max(max);
  program.add_stats_sum(sum);
  program.add_stats_sum_squares(squares);
  return finish(builder, program.Finish());
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

Bytes encode_parameters(std::span<const Parameter> parameters) {
  FlatBufferBuilder builder(1 << 16);
  std::vector<Offset<wire::Parameter>> entries;
  for (const Parameter& parameter : parameters) {
    const auto name = builder.CreateString(parameter.name);
    const auto sources = builder.CreateVectorOfStrings(parameter.sources);
    const wire::Hash128 hash = to_wire(parameter.hash);
    const Placement& at = parameter.placement;
    const wire::Placement placement(static_cast<wire::PlacementKind>(at.kind), at.dim, at.index,
                                    at.count);
    entries.push_back(wire::CreateParameter(
        builder, name, static_cast<wire::ParameterKind>(parameter.kind), parameter.tensor, &hash,
        static_cast<wire::Recipe>(parameter.recipe), sources, &placement));
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
    requests.push_back(wire::CreateRequest(builder, request.id, prompt, prompt_ids, prompt_pieces,
                                           settings, stop_ids, output_ids, output_pieces));
  }
  std::vector<Offset<wire::Step>> steps;
  for (const Step& step : text.steps) {
    std::vector<Offset<wire::Row>> rows;
    for (const Row& row : step.rows) {
      rows.push_back(wire::CreateRow(builder, row.request, row.first_row, row.count, row.position));
    }
    steps.push_back(wire::CreateStepDirect(builder, step.step, &rows, step.chosen, &step.top_ids,
                                           &step.top_logits, step.gap_ulp, step.logprob, step.logits_rms));
  }
  return finish(builder, wire::CreateTextDirect(builder, &requests, &steps));
}

Bytes encode_values(std::span<const ValuePart> parts, std::span<const std::byte> data) {
  FlatBufferBuilder builder(data.size() + parts.size() * sizeof(wire::ValuePart) + 256);
  const auto bytes =
      builder.CreateVector(reinterpret_cast<const std::uint8_t*>(data.data()), data.size());
  std::vector<wire::ValuePart> entries;
  for (const ValuePart& part : parts) {
    entries.emplace_back(to_wire(part.hash), part.total, part.offset, part.length);
  }
  const auto entries_vector = builder.CreateVectorOfStructs(entries);
  return finish(builder, wire::CreateValues(builder, entries_vector, bytes));
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
    values.emplace_back(to_wire(entry.hash), entry.offset, entry.chunk);
  }
  const auto chunks_vector = builder.CreateVectorOfStructs(chunks);
  const auto values_vector = builder.CreateVectorOfStructs(values);
  return finish(builder, wire::CreateIndex(builder, chunks_vector, values_vector));
}

}  // namespace goldentrace
