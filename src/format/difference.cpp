#include "src/format/difference.h"

#include <algorithm>
#include <span>
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

Result<ProgramChunk> program_at(const TraceReader& trace, std::size_t chunk) {
  const auto raw = trace.read_chunk(chunk);
  if (!raw.ok()) return raw.status();
  auto program = decode_program(*raw);
  if (!program.ok()) return trace.at_chunk(chunk, program.status());
  return program;
}

template <typename Item>
bool same(const std::vector<Item>& left, const std::vector<Item>& right, std::size_t left_begin,
          std::size_t right_begin, std::size_t count) {
  return std::ranges::equal(std::span(left).subspan(left_begin, count),
                            std::span(right).subspan(right_begin, count));
}

bool same_writes(const ProgramChunk& left, const Call& a, const ProgramChunk& right,
                 const Call& b) {
  for (std::size_t w = 0; w < a.writes; ++w) {
    const Write& x = left.writes[a.first_write + w];
    Write y = right.writes[b.first_write + w];
    const bool stats = (x.flags & y.flags & kWriteStats) != 0;
    if (stats && !(left.stats[x.stats_index] == right.stats[y.stats_index])) return false;
    y.stats_index = x.stats_index;
    if (!(x == y)) return false;
  }
  return true;
}

bool same_call(const ProgramChunk& left, const Call& a, const ProgramChunk& right, const Call& b) {
  const std::uint32_t nodes = a.end_node - a.first_node;
  return a.op == b.op && a.scope == b.scope && a.step == b.step && a.ambient == b.ambient &&
         a.flags == b.flags && a.arguments == b.arguments && a.results == b.results &&
         a.writes == b.writes && nodes == b.end_node - b.first_node &&
         same(left.nodes, right.nodes, a.first_node, b.first_node, nodes) &&
         same_writes(left, a, right, b);
}

// Definitions are those of calls: where they differ and no call does, the first call that could
// use them is taken.
std::uint64_t first_in(const ProgramChunk& left, const ProgramChunk& right) {
  const std::size_t common = std::min(left.calls.size(), right.calls.size());
  std::size_t call = 0;
  while (call < common && same_call(left, left.calls[call], right, right.calls[call])) ++call;
  const bool only_definitions = call == left.calls.size() && call == right.calls.size();
  return left.base.calls + (only_definitions ? 0 : call);
}

}  // namespace

Result<std::optional<std::uint64_t>> first_difference(const TraceReader& left,
                                                      const TraceReader& right) {
  const std::vector<std::size_t> a = program_chunks(left);
  const std::vector<std::size_t> b = program_chunks(right);
  const std::size_t common = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < common && left.chunks()[a[i]].content == right.chunks()[b[i]].content) ++i;
  if (i == a.size() && i == b.size()) return std::optional<std::uint64_t>();
  if (i == common) {
    return std::optional(i < a.size() ? left.chunks()[a[i]].first_call
                                      : right.chunks()[b[i]].first_call);
  }
  const auto left_chunk = program_at(left, a[i]);
  if (!left_chunk.ok()) return left_chunk.status();
  const auto right_chunk = program_at(right, b[i]);
  if (!right_chunk.ok()) return right_chunk.status();
  return std::optional(first_in(*left_chunk, *right_chunk));
}

}  // namespace goldentrace
