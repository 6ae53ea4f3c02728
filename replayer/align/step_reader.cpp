#include "replayer/align/step_reader.h"

#include <bit>
#include <utility>

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

const StepReader::Shape& StepReader::shape_of(std::uint32_t tensor) {
  const Tensor& described = program_.dictionary().tensor(tensor);
  const auto dtype = static_cast<std::uint64_t>(described.dtype);
  const auto [found, added] = shapes_.try_emplace(std::uint64_t{described.geometry} << 8 | dtype);
  if (added) {
    std::string text = program_.dictionary().describe_tensor(tensor);
    found->second.name = names_.id(text);
    if (alike_.floats && is_real_float(described.dtype)) {
      text.replace(0, text.find(' '), "float");
    }
    if (alike_.leading) {
      const std::size_t first = text.find('[') + 1;
      text.replace(first, text.find_first_of(",]", first) - first, "*");
    }
    found->second.key = names_.id(text);
  }
  return found->second;
}

Result<StepCall> StepReader::convert(const ProgramChunk& chunk, std::size_t i) {
  const Call& call = chunk.calls[i];
  StepCall out;
  if (!spare_.empty()) {
    out = std::move(spare_.back());
    spare_.pop_back();
    out.outputs.clear();
    out.reads.clear();
    out.constants.clear();
  }
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
    const auto noise = bands_.next(out.number);
    if (!noise.ok()) return noise.status();
    output.noise = *noise;
    const Shape& shape = shape_of(write.tensor);
    output.shape = shape.name;
    out.key = out.key * 0x9e3779b97f4a7c15ull + shape.key + 1;
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
  spare_.swap(step.calls);
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
    auto call = convert(chunk, at_++);
    if (!call.ok()) return call.status();
    step.calls.push_back(std::move(*call));
  }
  return !step.calls.empty();
}

}  // namespace goldentrace
