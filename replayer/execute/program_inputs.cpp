#include "replayer/execute/program_inputs.h"

#include <algorithm>
#include <utility>

namespace goldentrace {

Status ProgramInputs::open() {
  auto parameters = trace_.parameters();
  if (!parameters.ok()) return parameters.status();
  parameters_ = std::move(*parameters);
  std::ranges::stable_sort(parameters_, {}, &Parameter::call);
  return {};
}

Status ProgramInputs::put_before(const ProgramChunk& chunk, std::uint64_t number) {
  for (; next_parameter_ < parameters_.size() && parameters_[next_parameter_].call <= number;
       ++next_parameter_) {
    const Parameter& parameter = parameters_[next_parameter_];
    const auto right =
        load_parameter(trace_, parameter, checkpoint_, dictionary_, memories_, alignment_);
    if (!right.ok()) return right.status();
    if (!*right) wrong_.push_back(parameter.name);
  }
  if (chunk_ != chunk.base.calls) {
    chunk_ = chunk.base.calls;
    next_external_ = 0;
  }
  for (; next_external_ < chunk.externals.size() && chunk.externals[next_external_].call <= number;
       ++next_external_) {
    GOLDENTRACE_RETURN_IF_ERROR(put_external(chunk.externals[next_external_]));
  }
  return {};
}

Status ProgramInputs::put_external(const External& external) {
  // Computed by the program, and so here too.
  if (external.kind == ExternalKind::kRepeated) return {};
  const auto bytes = trace_.value(external.hash);
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() != dictionary_.storage(external.storage).bytes) {
    return {Code::kCorrupt, "an external input has another size than its storage"};
  }
  for (Memory* const memory : memories_) memory->fill(external.storage, *bytes);
  ++externals_;
  if (external.kind == ExternalKind::kHole) ++holes_;
  return {};
}

}  // namespace goldentrace
