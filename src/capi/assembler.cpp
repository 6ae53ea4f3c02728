#include "src/capi/assembler.h"

#include <cassert>
#include <utility>

#include "src/capi/logits.h"
#include "src/digest/digest.h"

namespace goldentrace::capi {
namespace {

constexpr std::uint64_t kSoftBytes = 1u << 20;  // of a chunk of texts or parameters

// Strides of the elements as they are kept: row-major without gaps.
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = next;
    next *= std::max<std::int64_t>(sizes[d], 1);
  }
  return strides;
}

Digest digest_of(DType dtype, std::span<const std::byte> dense, const DigestOptions& options) {
  const std::int64_t size[] = {static_cast<std::int64_t>(dense.size() / item_size(dtype))};
  const std::int64_t stride[] = {1};
  return digest_tensor({dense.data(), dtype, size, stride}, options);
}

Status wait_for_data(Job& job) {
  if (auto* tensor = std::get_if<TensorJob>(&job)) return tensor->data.wait();
  if (auto* logits = std::get_if<LogitsJob>(&job)) return logits->data.wait();
  auto* parameter = std::get_if<ParameterJob>(&job);
  return parameter != nullptr && parameter->data ? parameter->data->wait() : Status();
}

std::string what_of(const Job& job) {
  if (const auto* tensor = std::get_if<TensorJob>(&job)) return "tensor " + tensor->name;
  if (const auto* parameter = std::get_if<ParameterJob>(&job)) {
    return "parameter " + parameter->parameter.name;
  }
  return "logits";
}

}  // namespace

Status Assembler::handle(Job& job) {
  const Status copied = wait_for_data(job);
  if (!status_.ok() || interrupted_) return status_;
  interrupted_ = true;  // by an exception, unless what follows returns
  status_ = copied.ok() ? std::visit([this](auto& inner) { return take(inner); }, job)
                        : Status(copied.code(), what_of(job) + ": " + copied.message());
  interrupted_ = false;
  return status_;
}

Status Assembler::take(TensorJob& job) {
  const std::span<const std::byte> dense = job.data.dense(job.shape);
  const DType dtype = job.shape.dtype;
  const bool stats = (job.flags & GOLDENTRACE_TENSOR_NO_STATS) == 0 && is_real_float(dtype);
  // Bytes that are kept say all that a sketch says.
  const bool sketch = stats && (job.flags & GOLDENTRACE_TENSOR_NO_VALUE) != 0;
  const Digest digest = digest_of(dtype, dense, {.stats = stats, .sketch = sketch});
  Write write{job.id, 1, kWriteHashed, digest.hash};
  if (stats) {
    write.flags |= kWriteStats;
    write.stats_index = static_cast<std::uint32_t>(builder_.chunk().stats.size());
    builder_.chunk().stats.push_back(digest.stats);
  }
  if (sketch) {
    write.flags |= kWriteSketch;
    write.sketch_index = static_cast<std::uint32_t>(builder_.chunk().sketches.size());
    builder_.chunk().sketches.push_back(digest.sketch);
  }
  if ((job.flags & GOLDENTRACE_TENSOR_DECISION) != 0) write.flags |= kWriteDecision;
  if ((job.flags & GOLDENTRACE_TENSOR_NO_VALUE) == 0) {
    write.flags |= kWriteValue;
    GOLDENTRACE_RETURN_IF_ERROR(writer_->write_value(digest.hash, dense, item_size(dtype)));
  }
  define_tensor(job.id, job.shape);
  is_written_[job.id] = true;
  add_call(job, write);
  add_notes(job);
  return builder_.full() ? flush_program() : Status();
}

void Assembler::add_call(const TensorJob& job, const Write& write) {
  ProgramChunk& chunk = builder_.chunk();
  Call call;
  call.op = builder_.op(job.op, "");
  call.scope = builder_.scope(job.name);
  call.step = job.step;
  call.ambient = builder_.ambient({});
  call.flags = kCallForeign;
  call.arguments = static_cast<std::uint16_t>(job.inputs.size());
  call.results = 1;
  call.writes = 1;
  call.first_node = static_cast<std::uint32_t>(chunk.nodes.size());
  for (const std::uint32_t input : job.inputs) {
    chunk.nodes.push_back({NodeKind::kTensor, is_written_[input] ? 1u : 0u, input});
  }
  call.first_result = static_cast<std::uint32_t>(chunk.nodes.size());
  chunk.nodes.push_back({NodeKind::kTensor, 1, job.id});
  call.end_node = static_cast<std::uint32_t>(chunk.nodes.size());
  call.first_write = static_cast<std::uint32_t>(chunk.writes.size());
  chunk.writes.push_back(write);
  chunk.calls.push_back(call);
  chunk.timings.push_back(job.timing);
}

void Assembler::add_notes(const TensorJob& job) {
  ProgramChunk& chunk = builder_.chunk();
  if (!job.layout.empty()) chunk.layouts.push_back({job.id, builder_.string(job.layout)});
  if (job.placement.kind != PlacementKind::kReplicated) {
    chunk.placements.push_back({job.id, job.placement});
  }
  for (const Row& row : job.rows) chunk.rows.push_back({job.id, row});
}

void Assembler::define_tensor([[maybe_unused]] std::uint32_t id, const Shape& shape) {
  const std::uint32_t storage =
      builder_.storage(static_cast<std::uint64_t>(shape.bytes), builder_.string(device_));
  const std::uint32_t geometry = builder_.geometry(shape.sizes, dense_strides(shape.sizes));
  const std::uint32_t defined = builder_.tensor({storage, geometry, shape.dtype, 0, 0});
  assert(defined == id);
  is_written_.resize(std::size_t{defined} + 1);
}

Status Assembler::take(ParameterJob& job) {
  if (job.data) {
    const std::span<const std::byte> dense = job.data->dense(job.shape);
    job.parameter.hash = hash_bytes(dense);
    if (job.parameter.recipe == Recipe::kValue) {
      ++parameters_by_value_;
      GOLDENTRACE_RETURN_IF_ERROR(
          writer_->write_value(job.parameter.hash, dense, item_size(job.shape.dtype)));
    }
  }
  define_tensor(job.parameter.tensor, job.shape);
  job.parameter.call = builder_.next_call();
  parameters_size_ += size_of(job.parameter);
  parameters_.push_back(std::move(job.parameter));
  return parameters_size_ < kSoftBytes && !builder_.full() ? Status() : flush_program();
}

Status Assembler::take(LogitsJob& job) {
  describe_logits(job.shape.dtype, job.data.dense(job.shape), job.top, job.step);
  return take(job.step);
}

Status Assembler::take(Request& request) {
  text_size_ += size_of(request);
  text_.requests.push_back(std::move(request));
  return text_size_ < kSoftBytes ? Status() : flush_text();
}

Status Assembler::take(Step& step) {
  text_size_ += size_of(step);
  text_.steps.push_back(std::move(step));
  return text_size_ < kSoftBytes ? Status() : flush_text();
}

Status Assembler::take(FlushJob& /*job*/) {
  GOLDENTRACE_RETURN_IF_ERROR(flush_program());
  return flush_text();
}

// Parameters follow the definitions of their tensors.
Status Assembler::flush_program() {
  const ProgramChunk& filling = builder_.chunk();
  if (!filling.calls.empty() || !filling.tensors.empty()) {
    GOLDENTRACE_RETURN_IF_ERROR(writer_->write_program(builder_.take()));
  }
  if (parameters_.empty()) return {};
  parameters_size_ = 0;
  return writer_->write_parameters(std::exchange(parameters_, {}));
}

Status Assembler::flush_text() {
  if (text_size_ == 0) return {};
  text_size_ = 0;
  return writer_->write_text(std::exchange(text_, {}));
}

Status Assembler::close(Summary summary) {
  GOLDENTRACE_RETURN_IF_ERROR(status_);
  FlushJob everything;
  GOLDENTRACE_RETURN_IF_ERROR(take(everything));
  summary.calls = builder_.next_call();
  if (parameters_by_value_ > 0) {
    summary.counters.push_back({"parameters_by_value", CounterSeverity::kInfo,
                                CounterOrigin::kRecording, parameters_by_value_, ""});
  }
  return writer_->close(summary);
}

}  // namespace goldentrace::capi
