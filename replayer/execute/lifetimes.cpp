#include "replayer/execute/lifetimes.h"

#include <algorithm>

namespace goldentrace {

Result<Lifetimes> Lifetimes::read(const TraceReader& trace) {
  Lifetimes lifetimes;
  std::vector<std::uint64_t> last;
  ProgramReader program(trace);
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) break;
    const Dictionary& dictionary = program.dictionary();
    last.resize(dictionary.storages(), 0);
    const ProgramChunk& chunk = program.chunk();
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const Call& call = chunk.calls[i];
      for (std::size_t n = call.first_node; n < call.end_node; ++n) {
        if (chunk.nodes[n].kind != NodeKind::kTensor) continue;
        const auto tensor = static_cast<std::uint32_t>(chunk.nodes[n].value);
        last[dictionary.tensor(tensor).storage] = chunk.base.calls + i;
      }
      for (std::size_t w = 0; w < call.writes; ++w) {
        const std::uint32_t tensor = chunk.writes[call.first_write + w].tensor;
        last[dictionary.tensor(tensor).storage] = chunk.base.calls + i;
      }
    }
  }
  for (std::uint32_t storage = 0; storage < last.size(); ++storage) {
    lifetimes.ends_.emplace_back(last[storage], storage);
  }
  std::sort(lifetimes.ends_.begin(), lifetimes.ends_.end());
  return lifetimes;
}

}  // namespace goldentrace
