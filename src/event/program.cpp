#include "src/event/program.h"

namespace goldentrace {

ProgramBase ProgramChunk::next_base() const {
  const auto count = [](const auto& items) { return static_cast<std::uint32_t>(items.size()); };
  ProgramBase next = base;
  next.calls += calls.size();
  next.strings += count(strings);
  next.operators += count(operators);
  next.scopes += count(scopes);
  next.geometries += count(geometries);
  next.storages += count(storages);
  next.tensors += count(tensors);
  next.ambients += count(ambients);
  return next;
}

void ProgramChunk::clear() {
  base = {};
  const auto clear_all = [](auto&... lists) { (lists.clear(), ...); };
  clear_all(strings, operators, scopes, geometries, storages, tensors, ambients, externals, calls,
            nodes, writes, stats, sketches, placements, layouts, rows, timings);
}

}  // namespace goldentrace
