// Program chunks: definitions, external inputs, notes on tensors, and the calls.
#include <algorithm>
#include <cstddef>

#include "src/format/decode_buffer.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxRank = 64;
constexpr int kMaxNodeDepth = 16;

bool known_dtype(std::uint8_t dtype) { return item_size(static_cast<DType>(dtype)) != 0; }

Status decode_definitions(const wire::Program& program, Copier& copy, ProgramChunk& chunk) {
  chunk.strings = copy.texts(program.strings());
  chunk.scopes = copy.texts(program.scopes());
  if (!copy.reserve(chunk.operators, length(program.operators())) ||
      !copy.reserve(chunk.geometries, length(program.geometry_rank())) ||
      !copy.reserve(chunk.storages, length(program.storage_bytes())) ||
      !copy.reserve(chunk.tensors, length(program.tensor_storage())) ||
      !copy.reserve(chunk.ambients, length(program.ambients()))) {
    return bad_offsets();
  }
  if (program.operators() != nullptr) {
    for (const wire::Operator* op : *program.operators()) {
      chunk.operators.push_back({copy.text(op->name()), copy.text(op->overload())});
    }
  }

  const auto* extent = program.geometry_extent();
  std::size_t next = 0;
  for (flatbuffers::uoffset_t g = 0; g < length(program.geometry_rank()); ++g) {
    const std::uint8_t rank = program.geometry_rank()->Get(g);
    if (rank > kMaxRank) return corrupt("geometry has more dimensions than the format allows");
    if (length(extent) - next < 2 * std::size_t{rank}) return corrupt("geometry extents run out");
    Geometry geometry;
    for (std::size_t d = 0; d < rank; ++d) {
      geometry.sizes.push_back(extent->Get(static_cast<flatbuffers::uoffset_t>(next + d)));
      geometry.strides.push_back(extent->Get(static_cast<flatbuffers::uoffset_t>(next + rank + d)));
    }
    next += 2 * std::size_t{rank};
    chunk.geometries.push_back(std::move(geometry));
  }
  if (next != length(extent)) return corrupt("geometry extents are left over");

  const std::size_t storages = length(program.storage_bytes());
  if (!equal_columns(storages, program.storage_device())) return corrupt("storage columns differ");
  for (flatbuffers::uoffset_t i = 0; i < storages; ++i) {
    chunk.storages.push_back({program.storage_bytes()->Get(i), program.storage_device()->Get(i)});
  }

  const std::size_t tensors = length(program.tensor_storage());
  if (!equal_columns(tensors, program.tensor_geometry(), program.tensor_dtype(),
                     program.tensor_flags(), program.tensor_offset())) {
    return corrupt("tensor columns differ in length");
  }
  for (flatbuffers::uoffset_t i = 0; i < tensors; ++i) {
    if (const auto dtype = program.tensor_dtype()->Get(i); !known_dtype(dtype)) {
      return unknown("dtype", dtype);
    }
    chunk.tensors.push_back({program.tensor_storage()->Get(i), program.tensor_geometry()->Get(i),
                             static_cast<DType>(program.tensor_dtype()->Get(i)),
                             program.tensor_flags()->Get(i), program.tensor_offset()->Get(i)});
  }

  if (program.ambients() != nullptr) {
    for (const wire::Ambient* ambient : *program.ambients()) {
      for (const std::uint8_t dtype : {ambient->autocast_dtype(), ambient->default_dtype()}) {
        if (!known_dtype(dtype)) return unknown("dtype", dtype);
      }
      chunk.ambients.push_back({ambient->grad(), ambient->inference(), ambient->deterministic(),
                                ambient->autocast(), static_cast<DType>(ambient->autocast_dtype()),
                                static_cast<DType>(ambient->default_dtype()),
                                copy.text(ambient->matmul_precision()), ambient->threads()});
    }
  }
  return {};
}

Status decode_externals(const wire::Program& program, Copier& copy, ProgramChunk& chunk) {
  const std::size_t count = length(program.external_call());
  if (!copy.reserve(chunk.externals, count)) return bad_offsets();
  if (!equal_columns(count, program.external_storage(), program.external_version(),
                     program.external_kind(), program.external_hash())) {
    return corrupt("external input columns differ in length");
  }
  for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
    const std::uint64_t call = chunk.base.calls + program.external_call()->Get(i);
    if (!chunk.externals.empty() && call < chunk.externals.back().call) {
      return corrupt("external inputs are not in order");
    }
    if (program.external_call()->Get(i) > length(program.call_operator())) {
      return corrupt("external input before a call of another chunk");
    }
    const std::uint8_t kind = program.external_kind()->Get(i);
    if (kind > static_cast<std::uint8_t>(ExternalKind::kRepeated))
      return unknown("external kind", kind);
    chunk.externals.push_back({call, program.external_storage()->Get(i),
                               program.external_version()->Get(i), static_cast<ExternalKind>(kind),
                               from_wire(*program.external_hash()->Get(i))});
  }
  return {};
}

Status decode_tensor_notes(const wire::Program& program, Copier& copy, ProgramChunk& chunk) {
  if (!copy.reserve(chunk.placements, length(program.tensor_placement())) ||
      !copy.reserve(chunk.layouts, length(program.tensor_layout())) ||
      !copy.reserve(chunk.rows, length(program.tensor_row()))) {
    return bad_offsets();
  }
  for (flatbuffers::uoffset_t i = 0; i < length(program.tensor_placement()); ++i) {
    const wire::TensorPlacement* entry = program.tensor_placement()->Get(i);
    TensorPlacement& placed = chunk.placements.emplace_back();
    placed.tensor = entry->tensor();
    GOLDENTRACE_RETURN_IF_ERROR(decode_placement(entry->placement(), placed.placement));
  }
  for (flatbuffers::uoffset_t i = 0; i < length(program.tensor_layout()); ++i) {
    const wire::TensorLayout* entry = program.tensor_layout()->Get(i);
    chunk.layouts.push_back({entry->tensor(), entry->text()});
  }
  for (flatbuffers::uoffset_t i = 0; i < length(program.tensor_row()); ++i) {
    const wire::TensorRow* entry = program.tensor_row()->Get(i);
    chunk.rows.push_back(
        {entry->tensor(),
         {entry->request(), entry->first_row(), entry->count(), entry->position()}});
    if (!possible_rows(chunk.rows.back().row)) return impossible_rows();
  }
  return {};
}

// Walks the node and write columns call by call.
class CallDecoder {
 public:
  CallDecoder(const wire::Program& program, Copier& copy, ProgramChunk& chunk)
      : program_(program), copy_(copy), chunk_(chunk), highest_(chunk.base.tensors) {}

  Status run() {
    const std::size_t calls = length(program_.call_operator());
    if (!equal_columns(calls, program_.call_scope(), program_.call_step(), program_.call_ambient(),
                       program_.call_flags(), program_.call_arguments(), program_.call_results(),
                       program_.call_writes())) {
      return corrupt("call columns differ in length");
    }
    if (length(program_.node_kind()) != length(program_.node_value())) {
      return corrupt("node columns differ in length");
    }
    if (!equal_columns(length(program_.write_tensor()), program_.write_version(),
                       program_.write_flags())) {
      return corrupt("write columns differ in length");
    }
    if (!copy_.reserve(chunk_.stats, length(program_.stats_count())) ||
        !copy_.reserve(chunk_.calls, calls) ||
        !copy_.reserve(chunk_.nodes, length(program_.node_kind())) ||
        !copy_.reserve(chunk_.writes, length(program_.write_tensor()))) {
      return bad_offsets();
    }
    GOLDENTRACE_RETURN_IF_ERROR(decode_stats());
    GOLDENTRACE_RETURN_IF_ERROR(decode_sketches());
    for (flatbuffers::uoffset_t i = 0; i < calls; ++i) {
      GOLDENTRACE_RETURN_IF_ERROR(decode_call(i));
    }
    if (next_node_ != length(program_.node_kind()) || next_wide_ != length(program_.node_wide()) ||
        next_version_ != length(program_.node_version()) ||
        chunk_.writes.size() != length(program_.write_tensor()) ||
        next_hash_ != length(program_.write_hash()) || next_stats_ != chunk_.stats.size() ||
        next_sketch_ != chunk_.sketches.size()) {
      return corrupt("a column is longer than its calls need");
    }
    return {};
  }

 private:
  Status decode_call(flatbuffers::uoffset_t i) {
    Call call;
    call.op = program_.call_operator()->Get(i);
    call.scope = program_.call_scope()->Get(i);
    call.step = program_.call_step()->Get(i);
    call.ambient = program_.call_ambient()->Get(i);
    call.flags = program_.call_flags()->Get(i);
    call.arguments = program_.call_arguments()->Get(i);
    call.results = program_.call_results()->Get(i);
    call.writes = program_.call_writes()->Get(i);
    call.first_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    for (int n = 0; n < call.arguments; ++n) GOLDENTRACE_RETURN_IF_ERROR(decode_node(0));
    call.first_result = static_cast<std::uint32_t>(chunk_.nodes.size());
    for (int n = 0; n < call.results; ++n) GOLDENTRACE_RETURN_IF_ERROR(decode_node(0));
    call.end_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    call.first_write = static_cast<std::uint32_t>(chunk_.writes.size());
    for (int n = 0; n < call.writes; ++n) GOLDENTRACE_RETURN_IF_ERROR(decode_write());
    chunk_.calls.push_back(call);
    return {};
  }

  Status decode_node(int depth) {
    if (next_node_ >= length(program_.node_kind())) return corrupt("nodes run out");
    if (depth > kMaxNodeDepth) return corrupt("arguments are nested too deeply");
    const auto at = static_cast<flatbuffers::uoffset_t>(next_node_++);
    const std::uint8_t kind = program_.node_kind()->Get(at);
    Node node{static_cast<NodeKind>(kind), 0, program_.node_value()->Get(at)};
    std::int64_t children = 0;
    if (kind == kWireTensorBack || node.kind == NodeKind::kTensor) {
      if (next_version_ >= length(program_.node_version())) return corrupt("versions run out");
      node.kind = NodeKind::kTensor;
      node.version =
          program_.node_version()->Get(static_cast<flatbuffers::uoffset_t>(next_version_++));
      if (kind == kWireTensorBack) node.value = highest_ - node.value;
      if (!see_tensor(node.value)) return corrupt("tensor id is negative");
    } else if (kind == kWireIntWide || node.kind == NodeKind::kDouble ||
               node.kind == NodeKind::kWrappedDouble || node.kind == NodeKind::kWrappedInt) {
      if (next_wide_ >= length(program_.node_wide())) return corrupt("wide values run out");
      if (kind == kWireIntWide) node.kind = NodeKind::kInt;
      node.value = program_.node_wide()->Get(static_cast<flatbuffers::uoffset_t>(next_wide_++));
    } else if (node.kind == NodeKind::kList || node.kind == NodeKind::kTuple) {
      children = node.value;
      if (children < 0) return corrupt("list of negative length");
    } else if (node.kind == NodeKind::kComplex) {
      children = 2;
    } else if (kind > static_cast<std::uint8_t>(NodeKind::kStorage)) {
      return unknown("node kind", kind);
    }
    const std::size_t own = chunk_.nodes.size();
    chunk_.nodes.push_back(node);
    for (std::int64_t n = 0; n < children; ++n) GOLDENTRACE_RETURN_IF_ERROR(decode_node(depth + 1));
    if (node.kind == NodeKind::kComplex &&
        (chunk_.nodes[own + 1].kind != NodeKind::kDouble || chunk_.nodes.size() != own + 3 ||
         chunk_.nodes[own + 2].kind != NodeKind::kDouble)) {
      return corrupt("complex number is not made of two doubles");
    }
    return {};
  }

  Status decode_write() {
    const std::size_t at = chunk_.writes.size();
    if (at >= length(program_.write_tensor())) return corrupt("writes run out");
    const auto i = static_cast<flatbuffers::uoffset_t>(at);
    const std::int64_t id = highest_ - program_.write_tensor()->Get(i);
    if (!see_tensor(id)) return corrupt("written tensor id is negative");
    Write write;
    write.tensor = static_cast<std::uint32_t>(id);
    write.version = program_.write_version()->Get(i);
    write.flags = program_.write_flags()->Get(i);
    if ((write.flags & kWriteHashed) != 0) {
      if (next_hash_ >= length(program_.write_hash())) return corrupt("hashes run out");
      write.hash =
          from_wire(*program_.write_hash()->Get(static_cast<flatbuffers::uoffset_t>(next_hash_++)));
    }
    if ((write.flags & kWriteStats) != 0) {
      if (next_stats_ >= chunk_.stats.size()) return corrupt("stats run out");
      write.stats_index = static_cast<std::uint32_t>(next_stats_++);
    }
    if ((write.flags & kWriteSketch) != 0) {
      if (next_sketch_ >= chunk_.sketches.size()) return corrupt("sketches run out");
      write.sketch_index = static_cast<std::uint32_t>(next_sketch_++);
    }
    chunk_.writes.push_back(write);
    return {};
  }

  Status decode_stats() {
    const std::size_t count = length(program_.stats_count());
    if (!equal_columns(count, program_.stats_nan(), program_.stats_positive_infinity(),
                       program_.stats_negative_infinity(), program_.stats_sentinel(),
                       program_.stats_zero(), program_.stats_min(), program_.stats_max(),
                       program_.stats_sum(), program_.stats_sum_squares())) {
      return corrupt("stats columns differ in length");
    }
    for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
      chunk_.stats.push_back({program_.stats_count()->Get(i), program_.stats_nan()->Get(i),
                              program_.stats_positive_infinity()->Get(i),
                              program_.stats_negative_infinity()->Get(i),
                              program_.stats_sentinel()->Get(i), program_.stats_zero()->Get(i),
                              program_.stats_min()->Get(i), program_.stats_max()->Get(i),
                              program_.stats_sum()->Get(i), program_.stats_sum_squares()->Get(i)});
    }
    return {};
  }

  Status decode_sketches() {
    const std::size_t sums = length(program_.write_sketch());
    if (sums % kSketchSums != 0) return corrupt("a sketch is cut");
    if (!copy_.reserve(chunk_.sketches, sums / kSketchSums)) return bad_offsets();
    const float* next = sums == 0 ? nullptr : program_.write_sketch()->data();
    for (std::size_t at = 0; at < sums; at += kSketchSums, next += kSketchSums) {
      std::copy_n(next, kSketchSums, chunk_.sketches.emplace_back().begin());
    }
    return {};
  }

  bool see_tensor(std::int64_t id) {
    highest_ = std::max(highest_, id);
    return id >= 0 && id <= 0xffffffffLL;
  }

  const wire::Program& program_;
  Copier& copy_;
  ProgramChunk& chunk_;
  std::int64_t highest_;  // running highest tensor id, as in the encoder
  std::size_t next_node_ = 0;
  std::size_t next_wide_ = 0;
  std::size_t next_version_ = 0;
  std::size_t next_hash_ = 0;
  std::size_t next_stats_ = 0;
  std::size_t next_sketch_ = 0;
};

// All that is read where it lies.
bool add_columns(const wire::Program& p, Copier& copy) {
  return copy.columns(
      p.geometry_rank(), p.geometry_extent(), p.storage_bytes(), p.storage_device(),
      p.tensor_storage(), p.tensor_geometry(), p.tensor_dtype(), p.tensor_flags(),
      p.tensor_offset(), p.external_call(), p.external_storage(), p.external_version(),
      p.external_kind(), p.external_hash(), p.call_operator(), p.call_scope(), p.call_step(),
      p.call_ambient(), p.call_flags(), p.call_arguments(), p.call_results(), p.call_writes(),
      p.node_kind(), p.node_value(), p.node_wide(), p.node_version(), p.write_tensor(),
      p.write_version(), p.write_flags(), p.write_hash(), p.tensor_placement(), p.tensor_layout(),
      p.tensor_row(), p.stats_count(), p.stats_nan(), p.stats_positive_infinity(),
      p.stats_negative_infinity(), p.stats_sentinel(), p.stats_zero(), p.stats_min(), p.stats_max(),
      p.stats_sum(), p.stats_sum_squares(), p.write_sketch());
}

}  // namespace

Result<ProgramChunk> decode_program(std::span<const std::byte> raw) {
  const auto* table = root<wire::Program>(raw);
  if (table == nullptr) return bad_buffer("program");
  ProgramChunk chunk;
  chunk.base = {table->base_calls(),   table->base_strings(),    table->base_operators(),
                table->base_scopes(),  table->base_geometries(), table->base_storages(),
                table->base_tensors(), table->base_ambients()};
  Copier copy(raw);
  if (!add_columns(*table, copy)) return bad_offsets();
  GOLDENTRACE_RETURN_IF_ERROR(decode_definitions(*table, copy, chunk));
  if (copy.broken()) return bad_offsets();
  GOLDENTRACE_RETURN_IF_ERROR(decode_externals(*table, copy, chunk));
  GOLDENTRACE_RETURN_IF_ERROR(decode_tensor_notes(*table, copy, chunk));
  GOLDENTRACE_RETURN_IF_ERROR(CallDecoder(*table, copy, chunk).run());
  return chunk;
}

}  // namespace goldentrace
