#include "src/format/difference.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace goldentrace {
namespace {

std::vector<std::size_t> program_chunks(const TraceReader& trace) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < trace.chunks().size(); ++i) {
    if (trace.chunks()[i].kind == ChunkKind::kProgram) places.push_back(i);
  }
  return places;
}

// Whoever made the index may not have been able to decode the chunk.
Result<Hash128> content_of(const TraceReader& trace, std::size_t chunk) {
  const Hash128 content = trace.chunks()[chunk].content;
  if (content != Hash128()) return content;
  const auto raw = trace.read_chunk(chunk);
  if (!raw.ok()) return raw.status();
  return content_hash(*raw);
}

Result<ProgramChunk> program_at(const TraceReader& trace, std::size_t chunk) {
  const auto raw = trace.read_chunk(chunk);
  if (!raw.ok()) return raw.status();
  auto program = decode_program(*raw);
  if (!program.ok()) return trace.at_chunk(chunk, program.status());
  return program;
}

// Calls of two chunks that begin with the same definitions before them.
class CallComparer {
 public:
  CallComparer(const ProgramChunk& left, const ProgramChunk& right) : left_(left), right_(right) {}

  // Position of the first call that is not the same in both, or has other inputs put in place.
  // Where definitions differ that no call uses, the first one.
  std::size_t first() const {
    const std::size_t common = std::min(left_.calls.size(), right_.calls.size());
    std::size_t call = 0;
    while (call < common && same_call(left_.calls[call], right_.calls[call])) ++call;
    const auto [left, right] = std::ranges::mismatch(left_.externals, right_.externals);
    for (const auto& [external, end] :
         {std::pair(left, left_.externals.end()), std::pair(right, right_.externals.end())}) {
      if (external != end) call = std::min<std::size_t>(call, external->call - left_.base.calls);
    }
    const bool unused = call == left_.calls.size() && call == right_.calls.size();
    return unused ? 0 : call;
  }

 private:
  // Whether `id` means the same in both. `items` is a member of ProgramChunk, `base` its first id.
  template <typename Items, typename Same>
  bool same(Items items, std::uint32_t base, std::uint64_t id, Same same_item) const {
    if (id < base) return true;
    const std::size_t at = id - base;
    if (at >= (left_.*items).size() || at >= (right_.*items).size()) return false;
    return same_item((left_.*items)[at], (right_.*items)[at]);
  }
  template <typename Items>
  bool same(Items items, std::uint32_t base, std::uint64_t id) const {
    return same(items, base, id, std::equal_to());
  }
  bool same_string(std::uint64_t id) const {
    return same(&ProgramChunk::strings, left_.base.strings, id);
  }
  bool same_storage(std::uint64_t id) const {
    return same(&ProgramChunk::storages, left_.base.storages, id,
                [&](const Storage& left, const Storage& right) {
                  return left == right && same_string(left.device);
                });
  }
  bool same_tensor(std::uint64_t id) const {
    return same(&ProgramChunk::tensors, left_.base.tensors, id,
                [&](const Tensor& left, const Tensor& right) {
                  return left == right && same_storage(left.storage) &&
                         same(&ProgramChunk::geometries, left_.base.geometries, left.geometry);
                });
  }

  bool same_node(const Node& left, const Node& right) const {
    if (!(left == right)) return false;
    const auto id = static_cast<std::uint64_t>(left.value);
    switch (left.kind) {
      case NodeKind::kTensor:
        return same_tensor(id);
      case NodeKind::kStorage:
        return same_storage(id);
      case NodeKind::kString:
      case NodeKind::kDevice:
      case NodeKind::kGenerator:
      case NodeKind::kUnstorable:
        return same_string(id);
      default:
        return true;
    }
  }

  bool same_write(const Write& left, Write right) const {
    const bool stats = (left.flags & right.flags & kWriteStats) != 0;
    if (stats && !(left_.stats[left.stats_index] == right_.stats[right.stats_index])) return false;
    right.stats_index = left.stats_index;
    const bool sketches = (left.flags & right.flags & kWriteSketch) != 0;
    if (sketches && left_.sketches[left.sketch_index] != right_.sketches[right.sketch_index])
      return false;
    right.sketch_index = left.sketch_index;
    return left == right && same_tensor(left.tensor);
  }

  bool same_call(const Call& left, const Call& right) const {
    const std::uint32_t nodes = left.end_node - left.first_node;
    if (left.op != right.op || left.scope != right.scope || left.step != right.step ||
        left.ambient != right.ambient || left.flags != right.flags ||
        left.arguments != right.arguments || left.results != right.results ||
        left.writes != right.writes || nodes != right.end_node - right.first_node ||
        !same(&ProgramChunk::operators, left_.base.operators, left.op) ||
        !same(&ProgramChunk::scopes, left_.base.scopes, left.scope) ||
        !same(&ProgramChunk::ambients, left_.base.ambients, left.ambient)) {
      return false;
    }
    for (std::uint32_t n = 0; n < nodes; ++n) {
      if (!same_node(left_.nodes[left.first_node + n], right_.nodes[right.first_node + n])) {
        return false;
      }
    }
    for (std::uint32_t w = 0; w < left.writes; ++w) {
      if (!same_write(left_.writes[left.first_write + w], right_.writes[right.first_write + w])) {
        return false;
      }
    }
    return true;
  }

  const ProgramChunk& left_;
  const ProgramChunk& right_;
};

}  // namespace

Result<std::optional<std::uint64_t>> first_difference(const TraceReader& left,
                                                      const TraceReader& right) {
  const std::vector<std::size_t> left_places = program_chunks(left);
  const std::vector<std::size_t> right_places = program_chunks(right);
  const std::size_t common = std::min(left_places.size(), right_places.size());
  std::size_t i = 0;
  for (; i < common; ++i) {
    const auto mine = content_of(left, left_places[i]);
    if (!mine.ok()) return mine.status();
    const auto theirs = content_of(right, right_places[i]);
    if (!theirs.ok()) return theirs.status();
    if (*mine != *theirs) break;
  }
  if (i == left_places.size() && i == right_places.size()) return std::optional<std::uint64_t>();
  if (i == common) {
    return std::optional(i < left_places.size() ? left.chunks()[left_places[i]].first_call
                                                : right.chunks()[right_places[i]].first_call);
  }
  const auto left_chunk = program_at(left, left_places[i]);
  if (!left_chunk.ok()) return left_chunk.status();
  const auto right_chunk = program_at(right, right_places[i]);
  if (!right_chunk.ok()) return right_chunk.status();
  return std::optional(left_chunk->base.calls + CallComparer(*left_chunk, *right_chunk).first());
}

}  // namespace goldentrace
