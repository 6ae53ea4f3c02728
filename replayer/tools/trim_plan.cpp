#include "replayer/tools/trim_plan.h"

#include <limits>

namespace goldentrace {
namespace {

void plan_call(const TrimOptions& options, const ProgramChunk& chunk, std::size_t i,
               const Dictionary& dictionary, TrimPlan& plan) {
  const Call& call = chunk.calls[i];
  const auto use = [&](std::uint32_t storage) {
    plan.last_use[storage] = chunk.base.calls + i + 1;
  };
  for (std::size_t n = call.first_node; n < call.end_node; ++n) {
    const auto id = static_cast<std::uint32_t>(chunk.nodes[n].value);
    if (chunk.nodes[n].kind == NodeKind::kTensor) use(dictionary.tensor(id).storage);
    if (chunk.nodes[n].kind == NodeKind::kStorage) use(id);
  }
  for (std::size_t w = 0; w < call.writes; ++w) {
    const Write& write = chunk.writes[call.first_write + w];
    use(dictionary.tensor(write.tensor).storage);
    if ((write.flags & kWriteValue) != 0 && !drops_value(options, call, write)) {
      plan.values.insert(write.hash);
    }
  }
  ++plan.kept_calls;
}

}  // namespace

bool selects_calls(const CallFilter& filter) {
  return !filter.scopes.empty() || filter.first_step > 0 ||
         filter.last_step < std::numeric_limits<std::uint32_t>::max();
}

std::string describe(const CallFilter& filter) {
  const bool open = filter.last_step == std::numeric_limits<std::uint32_t>::max();
  std::string text;
  for (const std::string& scope : filter.scopes) text += " scope=" + scope;
  if (filter.first_step > 0 || !open) {
    text += " steps=" + std::to_string(filter.first_step) + "..";
    if (!open) text += std::to_string(filter.last_step);
  }
  return text;
}

bool drops_value(const TrimOptions& options, const Call& call, const Write& write) {
  return options.drop_values && (write.flags & kWriteDecision) == 0 &&
         (call.flags & kCallRandom) == 0;
}

Result<TrimPlan> make_plan(const TraceReader& trace, const TrimOptions& options,
                           const std::vector<Parameter>& parameters) {
  TrimPlan plan;
  std::vector<External> externals;
  ProgramReader program(trace);
  CallMatcher matcher(options.filter, program.dictionary());
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) break;
    const ProgramChunk& chunk = program.chunk();
    plan.last_use.resize(program.dictionary().storages(), 0);
    externals.insert(externals.end(), chunk.externals.begin(), chunk.externals.end());
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      if (!matcher.matches(chunk.calls[i], chunk.base.calls + i)) continue;
      plan_call(options, chunk, i, program.dictionary(), plan);
    }
    plan.calls += chunk.calls.size();
  }
  const bool whole = !selects_calls(options.filter);
  for (const External& external : externals) {
    if (whole || plan.needs(external)) plan.values.insert(external.hash);
  }
  for (const Parameter& parameter : parameters) {
    if (parameter.recipe == Recipe::kValue) plan.values.insert(parameter.hash);
  }
  return plan;
}

}  // namespace goldentrace
