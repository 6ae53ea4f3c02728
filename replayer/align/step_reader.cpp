#include "replayer/align/step_reader.h"

#include <bit>

namespace goldentrace {

std::uint32_t Names::id(const std::string& text) {
  const auto [found, added] = ids_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
  if (added) texts_.push_back(text);
  return found->second;
}

std::uint32_t StepReader::scope_name(std::uint32_t scope) {
  const auto [found, added] = scopes_.try_emplace(scope, 0);
  if (added) found->second = names_.id(program_.dictionary().scope(scope));
  return found->second;
}

std::uint32_t StepReader::op_name(std::uint32_t op) {
  const auto [found, added] = ops_.try_emplace(op, 0);
  if (added) found->second = names_.id(program_.dictionary().describe_op(op));
  return found->second;
}

std::uint64_t StepReader::key_of(const Output& output) {
  if (floats_ == Floats::kByDtype || !is_real_float(output.dtype)) return output.shape;
  std::string shape = names_.text(output.shape);
  return names_.id(shape.replace(0, shape.find(' '), "float"));
}

StepCall StepReader::convert(const ProgramChunk& chunk, std::size_t i) {
  const Call& call = chunk.calls[i];
  StepCall out;
  out.number = chunk.base.calls + i;
  out.scope = scope_name(call.scope);
  out.op = op_name(call.op);
  out.foreign = (call.flags & kCallForeign) != 0;
  out.key = out.op;
  for (std::size_t w = 0; w < call.writes; ++w) {
    const Write& write = chunk.writes[call.first_write + w];
    Output output;
    output.dtype = program_.dictionary().tensor(write.tensor).dtype;
    output.storage = program_.dictionary().tensor(write.tensor).storage;
    output.flags = write.flags;
    output.elements =
        static_cast<std::uint64_t>(element_count(program_.dictionary().geometry_of(write.tensor)));
    output.hash = write.hash;
    if ((write.flags & kWriteStats) != 0) output.stats = chunk.stats[write.stats_index];
    if ((write.flags & kWriteSketch) != 0) output.sketch = chunk.sketches[write.sketch_index];
    output.shape = names_.id(program_.dictionary().describe_tensor(write.tensor));
    out.key = out.key * 0x9e3779b97f4a7c15ull + key_of(output) + 1;
    out.outputs.push_back(output);
  }
  read_arguments(chunk, call, out);
  return out;
}

void StepReader::read_arguments(const ProgramChunk& chunk, const Call& call, StepCall& out) {
  for (std::size_t n = call.first_node; n < call.first_result; ++n) {
    const Node& node = chunk.nodes[n];
    if (node.kind == NodeKind::kTensor) {
      const auto tensor = static_cast<std::uint32_t>(node.value);
      out.reads.push_back(program_.dictionary().tensor(tensor).storage);
    } else if (node.kind == NodeKind::kWrappedInt) {
      out.constants.push_back(static_cast<double>(node.value));
    } else if (node.kind == NodeKind::kDouble || node.kind == NodeKind::kWrappedDouble) {
      out.constants.push_back(from_data_.contains(node.value) ? kFromData
                                                              : std::bit_cast<double>(node.value));
    }
  }
  for (std::size_t n = call.first_result; n < call.end_node; ++n) {
    if (chunk.nodes[n].kind == NodeKind::kDouble) from_data_.insert(chunk.nodes[n].value);
  }
}

Result<bool> StepReader::next(StepCalls& step) {
  step.calls.clear();
  while (!finished_) {
    if (!started_ || at_ == program_.chunk().calls.size()) {
      const auto more = program_.next();
      if (!more.ok()) return more.status();
      started_ = true;
      at_ = 0;
      finished_ = !*more;
      continue;
    }
    const ProgramChunk& chunk = program_.chunk();
    const std::uint32_t number = chunk.calls[at_].step;
    if (step.calls.empty()) {
      step.step = number;
    } else if (step.step != number) {
      return true;
    }
    step.calls.push_back(convert(chunk, at_++));
  }
  return !step.calls.empty();
}

}  // namespace goldentrace
