#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "src/format/codec.h"
#include "src/format/trace_generated.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxRank = 64;
constexpr int kMaxNodeDepth = 16;

Status corrupt(const std::string& what) { return {Code::kCorrupt, what}; }

// The root table of a verified buffer, or null.
template <typename Table>
const Table* root(std::span<const std::byte> raw) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(raw.data());
  // Every table costs a vtable offset and an entry in a vector: 8 bytes. More tables than that are
  // the same ones over and over, which would unfold into any amount of memory.
  const auto max_tables = static_cast<flatbuffers::uoffset_t>(raw.size() / 8 + 1);
  flatbuffers::Verifier verifier(bytes, raw.size(), /*max_depth=*/16, max_tables);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return nullptr;
  return flatbuffers::GetRoot<Table>(bytes);
}

Status bad_buffer(const char* kind) {
  return corrupt(std::string(kind) + " chunk is not a valid FlatBuffer");
}

template <typename Enum>
unsigned wire_number(Enum value) {
  return static_cast<unsigned>(value);
}

Hash128 from_wire(const wire::Hash128& hash) { return {hash.low(), hash.high()}; }

template <typename Vector>
std::size_t length(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// The verifier checks where a vector's length lies, not where its items do.
template <typename T>
bool aligned(const flatbuffers::Vector<T>* vector) {
  using Item = std::remove_cv_t<std::remove_pointer_t<T>>;
  return length(vector) == 0 ||
         reinterpret_cast<std::uintptr_t>(vector->Data()) % alignof(Item) == 0;
}

// Copies strings and vectors out of a buffer. Several offsets may lead to the same bytes, so a
// small chunk could ask for any amount of memory; one that would unfold into more bytes than it has
// is refused, as no writer makes such a chunk. So is one whose entries are so small that, as
// structs, they take many times the chunk's size.
class Copier {
 public:
  explicit Copier(std::span<const std::byte> raw)
      : left_(raw.size()), room_(kMaxStructs * raw.size() + kFreeRoom) {}

  // True when more was asked for than the buffer holds, or a vector lies askew; what was copied is
  // then incomplete.
  [[nodiscard]] bool broken() const { return broken_; }

  // Makes room for `count` more items; false when there is none.
  template <typename Item>
  [[nodiscard]] bool reserve(std::vector<Item>& items, std::size_t count) {
    broken_ = broken_ || count > room_ / sizeof(Item);
    if (broken_) return false;
    room_ -= count * sizeof(Item);
    items.reserve(items.size() + count);
    return true;
  }

  // An absent string is "".
  std::string text(const flatbuffers::String* text) {
    return text == nullptr || !take(text->size()) ? std::string() : text->str();
  }

  // An absent vector is empty.
  template <typename T>
  std::vector<T> scalars(const flatbuffers::Vector<T>* vector) {
    broken_ = broken_ || !aligned(vector);
    if (vector == nullptr || !take(vector->size() * sizeof(T))) return {};
    return std::vector<T>(vector->begin(), vector->end());
  }

  std::vector<std::string> texts(
      const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* vector) {
    std::vector<std::string> out;
    if (!take(length(vector) * sizeof(flatbuffers::uoffset_t))) return out;
    if (!reserve(out, length(vector))) return out;
    for (flatbuffers::uoffset_t i = 0; i < length(vector); ++i) {
      out.push_back(text(vector->Get(i)));
    }
    return out;
  }

  std::vector<std::pair<std::string, std::string>> pairs(
      const flatbuffers::Vector<flatbuffers::Offset<wire::KeyValue>>* vector) {
    std::vector<std::pair<std::string, std::string>> out;
    if (!take(length(vector) * sizeof(flatbuffers::uoffset_t))) return out;
    if (!reserve(out, length(vector))) return out;
    for (flatbuffers::uoffset_t i = 0; i < length(vector); ++i) {
      out.emplace_back(text(vector->Get(i)->key()), text(vector->Get(i)->value()));
    }
    return out;
  }

 private:
  // Entries that are written with what they hold take less than a quarter of this.
  static constexpr std::size_t kMaxStructs = 8;  // bytes of structs a byte of the chunk
  static constexpr std::size_t kFreeRoom = 1u << 20;

  bool take(std::size_t bytes) {
    broken_ = broken_ || bytes > left_;
    if (!broken_) left_ -= bytes;
    return !broken_;
  }

  std::size_t left_;
  std::size_t room_;
  bool broken_ = false;
};

Status bad_offsets() {
  return corrupt("offsets lead astray, or to the same bytes many times over, or entries are empty");
}

// Well-formed, but of a later version: nothing that this build can make sense of.
Status unknown(const char* what, unsigned number) {
  return {Code::kUnsupported, std::string(what) + " " + std::to_string(number) +
                                  " is not known to this build: use a newer goldentrace"};
}

// Columns of one struct-of-arrays table must be equally long (and lie where they may).
template <typename... Vectors>
bool equal_columns(std::size_t expected, const Vectors*... vectors) {
  return ((length(vectors) == expected && aligned(vectors)) && ...);
}

Status decode_placement(const wire::Placement& at, Placement& placement) {
  if (at.kind() > wire::PlacementKind::PartialSum) {
    return unknown("placement", wire_number(at.kind()));
  }
  placement = {static_cast<PlacementKind>(at.kind()), at.dim(), at.index(), at.count()};
  if (placement.kind == PlacementKind::kShard && placement.index >= placement.count) {
    return corrupt("shard number is not below the number of shards");
  }
  return {};
}

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
  for (const std::uint8_t rank : copy.scalars(program.geometry_rank())) {
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
    if (kind > static_cast<std::uint8_t>(ExternalKind::kHole))
      return unknown("external kind", kind);
    chunk.externals.push_back({call, program.external_storage()->Get(i),
                               program.external_version()->Get(i), static_cast<ExternalKind>(kind),
                               from_wire(*program.external_hash()->Get(i))});
  }
  return {};
}

// A position is a token's number in its text.
bool possible_rows(const Row& row) {
  return row.position <= std::numeric_limits<std::int64_t>::max() - std::int64_t{row.count};
}

Status impossible_rows() { return corrupt("rows reach past the last position that there can be"); }

Status decode_tensor_notes(const wire::Program& program, Copier& copy, ProgramChunk& chunk) {
  if (!aligned(program.tensor_placement()) || !aligned(program.tensor_layout()) ||
      !aligned(program.tensor_row()) ||
      !copy.reserve(chunk.placements, length(program.tensor_placement())) ||
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
    for (flatbuffers::uoffset_t i = 0; i < calls; ++i) {
      GOLDENTRACE_RETURN_IF_ERROR(decode_call(i));
    }
    if (next_node_ != length(program_.node_kind()) || next_wide_ != length(program_.node_wide()) ||
        next_version_ != length(program_.node_version()) ||
        chunk_.writes.size() != length(program_.write_tensor()) ||
        next_hash_ != length(program_.write_hash()) || next_stats_ != chunk_.stats.size()) {
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
};

Status decode_step(const wire::Step& entry, Copier& copy, Step& step) {
  step.step = entry.step();
  if (!copy.reserve(step.rows, length(entry.rows()))) return bad_offsets();
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

template <typename... Vectors>
std::uint64_t bytes_of(const Vectors*... vectors) {
  return (... + (std::uint64_t{length(vectors)} * sizeof(typename Vectors::return_type)));
}

// Of all columns. Offsets may lead to one vector many times over; whoever does that is refused.
std::uint64_t column_bytes(const wire::Program& p) {
  return bytes_of(p.geometry_rank(), p.geometry_extent(), p.storage_bytes(), p.storage_device(),
                  p.tensor_storage(), p.tensor_geometry(), p.tensor_dtype(), p.tensor_flags(),
                  p.tensor_offset(), p.external_call(), p.external_storage(), p.external_version(),
                  p.external_kind(), p.call_operator(), p.call_scope(), p.call_step(),
                  p.call_ambient(), p.call_flags(), p.call_arguments(), p.call_results(),
                  p.call_writes(), p.node_kind(), p.node_value(), p.node_wide(), p.node_version(),
                  p.write_tensor(), p.write_version(), p.write_flags(), p.stats_count(),
                  p.stats_nan(), p.stats_positive_infinity(), p.stats_negative_infinity(),
                  p.stats_sentinel(), p.stats_zero(), p.stats_min(), p.stats_max(), p.stats_sum(),
                  p.stats_sum_squares());
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

Result<ProgramChunk> decode_program(std::span<const std::byte> raw) {
  const auto* table = root<wire::Program>(raw);
  if (table == nullptr) return bad_buffer("program");
  ProgramChunk chunk;
  chunk.base = {table->base_calls(),   table->base_strings(),    table->base_operators(),
                table->base_scopes(),  table->base_geometries(), table->base_storages(),
                table->base_tensors(), table->base_ambients()};
  if (!aligned(table->geometry_extent()) || !aligned(table->storage_bytes()) ||
      !aligned(table->node_wide()) || !aligned(table->write_hash()) ||
      !aligned(table->stats_count())) {
    return bad_offsets();
  }
  if (column_bytes(*table) > raw.size()) return bad_offsets();
  Copier copy(raw);
  GOLDENTRACE_RETURN_IF_ERROR(decode_definitions(*table, copy, chunk));
  if (copy.broken()) return bad_offsets();
  GOLDENTRACE_RETURN_IF_ERROR(decode_externals(*table, copy, chunk));
  GOLDENTRACE_RETURN_IF_ERROR(decode_tensor_notes(*table, copy, chunk));
  GOLDENTRACE_RETURN_IF_ERROR(CallDecoder(*table, copy, chunk).run());
  return chunk;
}

Result<std::vector<Timing>> decode_timing(std::span<const std::byte> raw,
                                          std::uint64_t& first_call) {
  const auto* table = root<wire::Timing>(raw);
  if (table == nullptr) return bad_buffer("timing");
  const std::size_t count = length(table->thread());
  if (!equal_columns(count, table->start_ns(), table->duration_ns())) {
    return corrupt("timing columns differ in length");
  }
  if (bytes_of(table->thread(), table->start_ns(), table->duration_ns()) > raw.size()) {
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
  if (!aligned(table->parts())) return bad_offsets();
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
  if (!aligned(table->chunks()) || !aligned(table->values())) return bad_offsets();
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
