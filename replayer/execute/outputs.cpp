#include "replayer/execute/outputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "replayer/execute/execution.h"
#include "src/digest/digest.h"

namespace goldentrace {
namespace {

// Fewer elements make wild ratios: nothing is claimed of them.
constexpr std::uint64_t kMinElements = PooledDistance::kMinElements;
// A call that moves its output more than this much further than what it read made the distance.
constexpr double kJump = 2;

TensorView view_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()),
          static_cast<DType>(tensor.scalar_type()),
          {tensor.sizes().data(), tensor.sizes().size()},
          {tensor.strides().data(), tensor.strides().size()}};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Outputs::Outputs(const TraceReader& trace, const Dictionary& dictionary, Interpreter& interpreter,
                 VerifyReport& report)
    : trace_(trace), dictionary_(dictionary), interpreter_(interpreter), report_(report) {
  report_.band = default_band(run_dtype(trace));
}

void Outputs::begin(const Call& call, std::uint64_t number) {
  current_ = {
      number, dictionary_.describe_op(call.op), dictionary_.scope(call.scope), call.step, {}};
  if (!exact()) pool_ = &pools_[{call.scope, call.op}];
}

void Outputs::find(std::string what) {
  if (report_.findings.size() >= kMaxFindings) return;
  VerifyFinding finding = current_;
  finding.what = std::move(what);
  report_.findings.push_back(std::move(finding));
}

void Outputs::lose(const ProgramChunk& chunk, const Call& call, const std::string& why) {
  const std::string reason = first_line(why);
  ++report_.not_executable;
  LostOperator& lost = report_.lost[current_.op];
  if (lost.calls++ == 0) lost.why = reason;
  find(reason);
  interpreter_.lose_results(chunk, call);
}

Status Outputs::compare(const ProgramChunk& chunk, const Call& call,
                        std::vector<c10::IValue> results) {
  distance_read_ = 0;
  for (const std::uint32_t id : interpreter_.argument_ids()) {
    const auto known = distances_.find(dictionary_.tensor(id).storage);
    if (known != distances_.end()) distance_read_ = std::max(distance_read_, known->second);
  }
  if (interpreter_.ran_in_recorded_dtype()) {
    if (report_.in_recorded_dtype++ == 0) find("has no kernel for promoted arguments");
  }
  if (!exact()) {
    const auto recorded = [&](const Write& write, std::size_t /*output*/) -> Result<Bytes> {
      return (write.flags & kWriteValue) != 0 ? trace_.value(write.hash) : Bytes();
    };
    const auto margin = force_picked(chunk, call, dictionary_, recorded, interpreter_, results);
    if (!margin.ok()) return margin.status();
  }
  std::size_t node = call.first_result;
  for (const c10::IValue& result : results) {
    if (node >= call.end_node) break;
    compare_result(chunk, call, node, result);
  }
  for (std::size_t w = 0; w < call.writes; ++w) {
    GOLDENTRACE_RETURN_IF_ERROR(compare_write(chunk, call, chunk.writes[call.first_write + w]));
  }
  return {};
}

void Outputs::compare_result(const ProgramChunk& chunk, const Call& call, std::size_t& node,
                             const c10::IValue& result) {
  const Node& want = chunk.nodes[node++];
  if (want.kind == NodeKind::kList) {
    const bool same =
        result.isList() && result.toListRef().size() == static_cast<std::size_t>(want.value);
    if (!same) find("returns a list of another length");
    for (std::int64_t i = 0; i < want.value; ++i) {
      const std::size_t at = node;
      if (same) {
        compare_result(chunk, call, node, result.toListRef()[static_cast<std::size_t>(i)]);
      } else {
        node = skip_node(chunk.nodes, at);
      }
    }
    return;
  }
  switch (want.kind) {
    case NodeKind::kTensor:
      compare_tensor(chunk, call, static_cast<std::uint32_t>(want.value), result);
      return;
    case NodeKind::kInt:
    case NodeKind::kDouble:
    case NodeKind::kBool:
      compare_scalar(want, result);
      return;
    case NodeKind::kComplex:
      node += 2;
      return;
    default:
      return;
  }
}

void Outputs::compare_scalar(const Node& want, const c10::IValue& result) {
  ++report_.scalars;
  const bool same =
      (result.isInt() && result.toInt() == want.value) ||
      (result.isBool() && result.toBool() == (want.value != 0)) ||
      (result.isDouble() && std::bit_cast<std::int64_t>(result.toDouble()) == want.value);
  if (same) {
    ++report_.scalars_equal;
  } else if (exact()) {
    find("returns another number");
  }
}

void Outputs::compare_tensor(const ProgramChunk& chunk, const Call& call, std::uint32_t id,
                             const c10::IValue& result) {
  const Tensor& want = dictionary_.tensor(id);
  const Write* write = nullptr;
  for (std::size_t w = 0; w < call.writes; ++w) {
    const Write& one = chunk.writes[call.first_write + w];
    if (dictionary_.tensor(one.tensor).storage == want.storage) write = &one;
  }
  if (write == nullptr) ++report_.views;
  if (!result.isTensor() || !result.toTensor().defined() || !result.toTensor().has_storage()) {
    find(dictionary_.describe_tensor(id) + ": no such result here");
    return;
  }
  const Placed placed = interpreter_.place(id, result.toTensor());
  const bool same = placed.same_sizes && placed.same_layout && placed.same_memory;
  if (write == nullptr && (same || (!exact() && placed.same_sizes))) ++report_.views_equal;
  if (!exact()) {
    // Elements of control come from the trace, however many were computed here.
    const bool forced = write != nullptr && (write->flags & kWriteDecision) != 0;
    if (placed.same_sizes || forced) return;
    ++report_.other_shapes;
    find(dictionary_.describe_tensor(id) + ": another shape here");
    return;
  }
  if (!placed.same_sizes || !placed.same_layout) {
    find(dictionary_.describe_tensor(id) + ": another shape, layout or dtype here");
  } else if (!placed.same_memory) {
    find(dictionary_.describe_tensor(id) +
         (write == nullptr ? ": shared memory when recorded, is a copy here"
                           : ": was a copy when recorded, shares memory here"));
  }
}

Status Outputs::take_value(const Write& write, const at::Tensor& target) {
  const auto bytes = trace_.value(write.hash);
  if (!bytes.ok()) return bytes.status();
  return put_elements(*bytes, dictionary_.tensor(write.tensor).dtype, target);
}

Status Outputs::compare_write(const ProgramChunk& chunk, const Call& call, const Write& write) {
  const std::uint32_t storage = dictionary_.tensor(write.tensor).storage;
  distances_.erase(storage);
  if ((write.flags & kWriteUndefined) != 0) {
    ++report_.undefined;
    return {};
  }
  if ((write.flags & kWriteHashed) == 0) return {};
  const bool random = (call.flags & kCallRandom) != 0;
  if (!random) ++report_.hashes;
  if (!interpreter_.memory().has(storage)) {
    find(dictionary_.describe_tensor(write.tensor) + ": was not made");
    return {};
  }
  at::Tensor got;
  try {
    got = interpreter_.memory().tensor(write.tensor);
  } catch (const std::exception&) {
    find(dictionary_.describe_tensor(write.tensor) + ": does not fit in the memory made here");
    return {};
  }
  if (random) {
    ++report_.random;
    return take_value(write, got);
  }
  const bool stats = !exact() && (write.flags & kWriteStats) != 0;
  const Digest digest = digest_tensor(view_of(got), {.stats = stats});
  const bool same = digest.hash == write.hash;
  if (same) ++report_.hashes_equal;
  const bool decision = !exact() && (write.flags & kWriteDecision) != 0;
  if (decision) {
    ++report_.decisions;
    if (same) {
      ++report_.decisions_equal;
      return {};
    }
    return take_value(write, got);
  }
  if (same) {
    if (stats) {
      pool_->distance.add_identical(std::sqrt(digest.stats.sum_squares), digest.stats.count);
    }
    return {};
  }
  if (!exact()) return judge(chunk, write, got, digest.stats);
  find(dictionary_.describe_tensor(write.tensor) + ": bytes differ");
  return {};
}

Result<Distance> Outputs::distance(const ProgramChunk& chunk, const Write& write,
                                   const at::Tensor& got, const Stats& stats) const {
  if ((write.flags & kWriteValue) == 0) {
    return distance_from_stats(chunk.stats[write.stats_index], stats);
  }
  const auto bytes = trace_.value(write.hash);
  if (!bytes.ok()) return bytes.status();
  const DType dtype = dictionary_.tensor(write.tensor).dtype;
  const at::Tensor dense = got.to(static_cast<c10::ScalarType>(dtype)).contiguous();
  if (dense.nbytes() != bytes->size()) {
    return Status(Code::kCorrupt, "a stored value has another size than its tensor");
  }
  return distance_from_values(
      dtype, *bytes, {static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()});
}

// An output whose bits moved: how far, and whether this call is what moved it.
Status Outputs::judge(const ProgramChunk& chunk, const Write& write, const at::Tensor& got,
                      const Stats& stats) {
  const Tensor& want = dictionary_.tensor(write.tensor);
  const bool values = (write.flags & kWriteValue) != 0;
  const bool judged = is_real_float(want.dtype) && (values || (write.flags & kWriteStats) != 0);
  const auto elements = static_cast<std::uint64_t>(got.numel());
  if (!judged || elements < kMinElements) {
    ++(elements < kMinElements ? report_.too_small : report_.not_judged);
    distances_[want.storage] = distance_read_;
    return {};
  }
  auto measured = distance(chunk, write, got, stats);
  if (!measured.ok()) return measured.status();
  // What overflows in a narrow dtype need not in a wide one.
  if (report_.mode == VerifyMode::kPromoted) measured->non_finite = false;
  const double relative = measured->relative();
  const double band = std::max(default_band(want.dtype), report_.band);
  distances_[want.storage] = std::max(relative, distance_read_);
  pool_->distance.add(*measured, elements);
  pool_->band = std::max(pool_->band, band);
  if (!measured->non_finite && relative <= band) {
    ++report_.in_band;
    if (relative > report_.worst) {
      report_.worst = relative;
      report_.worst_where = current_.scope + ", " + current_.op;
    }
  } else if (!measured->non_finite && relative <= kJump * distance_read_) {
    ++report_.drifted;
  } else if (pool_->over++ == 0) {
    pool_->first = current_;
    pool_->first.what =
        dictionary_.describe_tensor(write.tensor) + ": " +
        (measured->non_finite ? measured->note
                              : "moved by " + std::string(values ? "" : "at least ") +
                                    std::to_string(100 * relative) + " %");
  }
  return {};
}

void Outputs::finish() {
  std::vector<const Pool*> refused;
  for (const auto& [key, pool] : pools_) {
    if (pool.over == 0) continue;
    if (pool.distance.in_band(pool.band)) {
      report_.in_band += pool.over;
    } else {
      report_.out_of_band += pool.over;
      refused.push_back(&pool);
    }
  }
  std::sort(refused.begin(), refused.end(),
            [](const Pool* x, const Pool* y) { return x->first.call < y->first.call; });
  for (const Pool* pool : refused) {
    if (report_.findings.size() < kMaxFindings) report_.findings.push_back(pool->first);
  }
}

}  // namespace goldentrace
