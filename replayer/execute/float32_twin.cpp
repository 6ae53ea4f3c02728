#include "replayer/execute/float32_twin.h"

#include <limits>

#include "replayer/execute/execution.h"
#include "replayer/tools/twin_distances.h"
#include "src/digest/digest.h"

namespace goldentrace {
namespace {

float distance(Execution& execution, const ProgramChunk& chunk, const Write& write) {
  const at::Tensor got = execution.memory(0).tensor(write.tensor);
  const Digest digest = digest_tensor({static_cast<const std::byte*>(got.const_data_ptr()),
                                       static_cast<DType>(got.scalar_type()),
                                       {got.sizes().data(), got.sizes().size()},
                                       {got.strides().data(), got.strides().size()}},
                                      {.stats = true, .sketch = true});
  Output want;
  want.dtype = execution.dictionary().tensor(write.tensor).dtype;
  want.flags = write.flags;
  want.hash = write.hash;
  if ((write.flags & kWriteStats) != 0) want.stats = chunk.stats[write.stats_index];
  if ((write.flags & kWriteSketch) != 0) want.sketch = chunk.sketches[write.sketch_index];
  Output wide;
  wide.dtype = static_cast<DType>(got.scalar_type());
  wide.flags = kWriteHashed | kWriteStats | kWriteSketch;
  wide.hash = digest.hash;
  wide.stats = digest.stats;
  wide.sketch = digest.sketch;
  return digest_distance(want, wide);
}

Status run(Execution& execution, TwinDistances& distances) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  GOLDENTRACE_RETURN_IF_ERROR(execution.open());
  while (true) {
    const auto more = execution.next();
    if (!more.ok()) return more.status();
    if (!*more) return {};
    const Call& call = execution.call();
    const bool failed = (call.flags & kCallFailed) != 0;
    const auto ran = failed ? Result<bool>(false) : execution.run_as_recorded();
    if (!ran.ok()) return ran.status();
    const ProgramChunk& chunk = execution.chunk();
    for (std::size_t w = 0; w < call.writes; ++w) {
      const Write& write = chunk.writes[call.first_write + w];
      distances.push_back(kNone);
      if (!*ran || !execution.has(write)) continue;
      const bool control = (write.flags & kWriteDecision) != 0 || (call.flags & kCallRandom) != 0;
      if (control) {
        GOLDENTRACE_RETURN_IF_ERROR(execution.settle(write));
      } else if (is_real_float(execution.dictionary().tensor(write.tensor).dtype)) {
        distances.back() = distance(execution, chunk, write);
      }
    }
  }
}

}  // namespace

Result<TwinDistances> float32_twin(const TraceReader& trace, const std::string& weights) {
  const auto checkpoint = find_weights(weights, trace);
  if (!checkpoint.ok()) return checkpoint.status();
  Execution execution(trace, *checkpoint, {Promotion::kFloat32}, Alignment::kAny);
  TwinDistances distances;
  GOLDENTRACE_RETURN_IF_ERROR(run(execution, distances));
  if (!execution.inputs().wrong_parameters().empty()) {
    return Status(Code::kInvalidArgument, weights + ": not the oracle's weights: " +
                                              execution.inputs().wrong_parameters().front() +
                                              " differs");
  }
  return distances;
}

}  // namespace goldentrace
