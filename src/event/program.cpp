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

}  // namespace goldentrace
