#include "replayer/tools/check_program.h"

#include <algorithm>
#include <cmath>

namespace goldentrace {
namespace {

std::string at_offset(const ChunkEntry& entry) {
  return "at offset " + std::to_string(entry.offset);
}

}  // namespace

ProgramCheck::ProgramCheck(const TraceReader& trace, CheckFindings& findings)
    : trace_(trace),
      findings_(findings),
      leaps_allowed_(trace.summary().counter("calls_trimmed") > 0 ||
                     trace.summary().counter("chunks_lost") > 0),
      values_lost_(trace.summary().counter("chunks_lost") > 0) {}

std::string ProgramCheck::place(const ProgramChunk& chunk, std::size_t i) const {
  return "call " + std::to_string(chunk.base.calls + i) + " (" +
         dictionary_.describe_op(chunk.calls[i].op) + ")";
}

void ProgramCheck::add(std::size_t at, const ProgramChunk& chunk) {
  if (lost_) {
    findings_.notes.add("program chunks after one that can't be read, ids not checked",
                        [&] { return at_offset(trace_.chunks()[at]); });
    return;
  }
  const ChunkEntry& entry = trace_.chunks()[at];
  if (chunk.base.calls != entry.first_call || chunk.calls.size() != entry.calls) {
    findings_.faults.add("program chunk does not hold the calls that the index says",
                         [&] { return at_offset(entry); });
  }
  if (const Status status = dictionary_.absorb(chunk); !status.ok()) {
    findings_.faults.add(status.message(), [&] { return at_offset(entry); });
    lost_ = true;
    return;
  }
  versions_.resize(dictionary_.storages(), 0);
  std::size_t next_external = 0;
  for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
    check_externals(chunk, next_external, chunk.base.calls + i);
    check_call(chunk, i);
  }
  check_externals(chunk, next_external, chunk.base.calls + chunk.calls.size());
  calls_ = chunk.next_base().calls;
  writes_ += chunk.writes.size();
  externals_ += chunk.externals.size();
}

template <typename Where>
void ProgramCheck::advance(std::uint32_t storage, std::uint32_t version, const std::string& of,
                           Where where) {
  std::uint32_t& counter = versions_[storage];
  if (leaps_allowed_ ? version <= counter : version != counter + 1) {
    findings_.faults.add(of + " does not have its storage's next version", where);
  }
  counter = std::max(counter, version);
}

void ProgramCheck::check_externals(const ProgramChunk& chunk, std::size_t& next,
                                   std::uint64_t call) {
  for (; next < chunk.externals.size() && chunk.externals[next].call <= call; ++next) {
    const External& external = chunk.externals[next];
    const auto where = [&] {
      return "storage " + std::to_string(external.storage) + " before call " +
             std::to_string(external.call);
    };
    advance(external.storage, external.version, "external input", where);
    check_value("external input", external.hash, dictionary_.storage(external.storage).bytes,
                where);
  }
}

void ProgramCheck::check_nodes(const ProgramChunk& chunk, std::size_t i, std::size_t begin,
                               std::size_t end) {
  for (std::size_t n = begin; n < end; ++n) {
    const Node& node = chunk.nodes[n];
    if (node.kind != NodeKind::kTensor) continue;
    std::uint32_t& counter =
        versions_[dictionary_.tensor(static_cast<std::uint32_t>(node.value)).storage];
    if (node.version <= counter) continue;
    if (!leaps_allowed_) {
      findings_.faults.add("argument or result has a version that nothing has written",
                           [&] { return place(chunk, i); });
    }
    counter = node.version;
  }
}

void ProgramCheck::check_call(const ProgramChunk& chunk, std::size_t i) {
  const Call& call = chunk.calls[i];
  const auto where = [&] { return place(chunk, i); };
  check_nodes(chunk, i, call.first_node, call.first_result);
  for (std::size_t w = 0; w < call.writes; ++w) {
    check_write(chunk, i, chunk.writes[call.first_write + w]);
  }
  check_nodes(chunk, i, call.first_result, call.end_node);
  if ((call.flags & kCallFailed) != 0 && (call.results > 0 || call.writes > 0)) {
    findings_.faults.add("call that threw has results", where);
  }
  if ((call.flags & kCallForeign) != 0 && (call.results != 1 || call.writes != 1)) {
    findings_.faults.add("foreign call does not give one tensor", where);
  }
}

void ProgramCheck::check_write(const ProgramChunk& chunk, std::size_t i, const Write& write) {
  const auto where = [&] { return place(chunk, i); };
  const Tensor& tensor = dictionary_.tensor(write.tensor);
  advance(tensor.storage, write.version, "write", where);
  const bool hashed = (write.flags & kWriteHashed) != 0;
  const bool sketched = (write.flags & kWriteSketch) != 0;
  if ((write.flags & kWriteUndefined) != 0 &&
      (hashed || sketched || (write.flags & kWriteStats) != 0)) {
    findings_.faults.add("undefined memory has a digest", where);
  }
  const auto elements =
      static_cast<std::uint64_t>(element_count(dictionary_.geometry_of(write.tensor)));
  if ((write.flags & kWriteStats) != 0 &&
      (!is_real_float(tensor.dtype) || chunk.stats[write.stats_index].count != elements)) {
    findings_.faults.add("stats are of another number or kind of elements", where);
  }
  if (sketched && !is_real_float(tensor.dtype)) {
    findings_.faults.add("sketch of other elements than real floats", where);
  }
  if (sketched && !std::ranges::all_of(chunk.sketches[write.sketch_index],
                                       [](float sum) { return std::isfinite(sum); })) {
    findings_.faults.add("sketch is not finite", where);
  }
  if ((write.flags & kWriteValue) == 0) return;
  if (!hashed) {
    findings_.faults.add("value is said to be kept and has no hash", where);
    return;
  }
  check_value("value of a write", write.hash, elements * item_size(tensor.dtype), where);
}

}  // namespace goldentrace
