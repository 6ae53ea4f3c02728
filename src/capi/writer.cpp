#include "src/capi/writer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "src/capi/arguments.h"

namespace goldentrace::capi {
namespace {

constexpr std::uint64_t kDefaultQueuedBytes = 256ull << 20;
constexpr std::uint64_t kJobBytes = 1024;  // of a job beside its elements, roughly
constexpr std::uint32_t kDefaultTop = 32;  // as `record hf` keeps

Result<ValueCompression> read_compression(std::uint32_t compression) {
  switch (compression) {
    case GOLDENTRACE_COMPRESS_FAST:
      return ValueCompression::kFast;
    case GOLDENTRACE_COMPRESS_SMALL:
      return ValueCompression::kSmall;
    case GOLDENTRACE_COMPRESS_NONE:
      return ValueCompression::kNone;
    default:
      return invalid("options.compression " + std::to_string(compression) + " is none");
  }
}

Result<Recipe> read_recipe(const goldentrace_parameter& from) {
  if (from.recipe > GOLDENTRACE_RECIPE_CONCAT) {
    return invalid("recipe " + std::to_string(from.recipe) + " is none that a writer can give");
  }
  const auto recipe = static_cast<Recipe>(from.recipe);
  if (recipe != Recipe::kValue && from.sources_count == 0) {
    return invalid("a recipe other than VALUE needs a source");
  }
  if (recipe == Recipe::kValue && from.data == nullptr && from.hash != nullptr) {
    return invalid("recipe VALUE keeps the bytes: give data, not a hash");
  }
  if (from.data != nullptr && from.hash != nullptr) return invalid("give data or hash, not both");
  return recipe;
}

std::uint64_t note_bytes(const TensorJob& job) {
  return job.name.size() + job.op.size() + job.layout.size() + job.rows.size() * sizeof(TensorRow);
}

}  // namespace

// Room in the queue for one job; given back unless the job is pushed.
class Writer::Room {
 public:
  Room(WorkQueue<Job>& queue, std::uint64_t bytes) : queue_(queue), bytes_(bytes + kJobBytes) {
    queue_.admit(bytes_);
  }
  ~Room() {
    if (bytes_ > 0) queue_.withdraw(bytes_);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  std::uint64_t push(Job job) {
    const std::uint64_t number = queue_.push(std::move(job), bytes_);
    bytes_ = 0;
    return number;
  }

 private:
  WorkQueue<Job>& queue_;
  std::uint64_t bytes_;
};

Writer::Writer(std::unique_ptr<TraceWriter> writer, const Header& header, std::uint64_t max_bytes)
    : assembler_(std::move(writer), header.device),
      queue_(max_bytes, [this](Job& job) { return assembler_.handle(job); }) {}

Result<std::unique_ptr<Writer>> Writer::open(const char* path,
                                             const goldentrace_writer_options* options) {
  const auto name = read_name(path, "path");
  if (!name.ok()) return name.status();
  const auto from = read_struct(options, "options");
  if (!from.ok()) return from.status();
  const auto header = read_header(*from);
  if (!header.ok()) return header.status();
  const auto compression = read_compression(from->compression);
  if (!compression.ok()) return compression.status();
  auto sink = create_file(*name);
  if (!sink.ok()) return sink.status();
  auto writer = TraceWriter::create(std::move(*sink), *header, {.values = *compression});
  if (!writer.ok()) return writer.status();
  const std::uint64_t bytes =
      from->max_queued_bytes == 0 ? kDefaultQueuedBytes : from->max_queued_bytes;
  return std::unique_ptr<Writer>(new Writer(std::move(*writer), *header, bytes));
}

Status Writer::usable() const {
  if (closed_) return invalid("the writer is closed");
  GOLDENTRACE_RETURN_IF_ERROR(failed_);
  return queue_.status();
}

Status Writer::set_step(std::uint32_t step) {
  const std::lock_guard lock(mutex_);
  GOLDENTRACE_RETURN_IF_ERROR(usable());
  step_ = step;
  return {};
}

// With the lock held.
Result<std::uint32_t> Writer::step_of(std::int64_t step) const {
  if (step == GOLDENTRACE_CURRENT_STEP) return step_;
  if (step < 0 || step > std::numeric_limits<std::uint32_t>::max()) {
    return invalid("step " + std::to_string(step) + " is none");
  }
  return static_cast<std::uint32_t>(step);
}

// Numbers the job of a tensor or parameter (`number` is a part of it) and hands it over. After a
// failure too: it is for the queue's thread, not for this one, to wait for the device's copy.
template <typename NumberedJob>
Status Writer::push_numbered(Room& room, NumberedJob& job, std::uint32_t& number,
                             std::uint64_t* id) {
  const std::lock_guard lock(mutex_);
  const Status state = usable();
  if (closed_) return state;
  // Distances between ids are stored in 32 bits, with a sign.
  if (tensors_ == std::numeric_limits<std::int32_t>::max()) {
    return {Code::kUnsupported, "a trace holds no more tensors than this"};
  }
  number = tensors_;
  (void)room.push(std::move(job));
  ++tensors_;
  if (state.ok() && id != nullptr) *id = tensors_;
  return state;
}

// With the lock held.
Result<std::vector<std::uint32_t>> Writer::read_inputs(const goldentrace_tensor& from) const {
  if (from.inputs_count > std::numeric_limits<std::uint16_t>::max()) {
    return invalid("more inputs than a call can have");
  }
  if (from.inputs == nullptr && from.inputs_count > 0) return invalid("inputs is NULL");
  std::vector<std::uint32_t> inputs;
  for (std::uint32_t i = 0; i < from.inputs_count; ++i) {
    if (from.inputs[i] == 0 || from.inputs[i] > tensors_) {
      return invalid("input " + std::to_string(from.inputs[i]) + " is no tensor of this writer");
    }
    inputs.push_back(static_cast<std::uint32_t>(from.inputs[i] - 1));
  }
  return inputs;
}

Result<HostCopy> Writer::copy(const void* data, const Shape& shape,
                              const goldentrace_device* device, void* stream) {
  if (device == nullptr) return HostCopy::of_host(data, shape);
  const auto calls = read_struct(device, "device");
  if (!calls.ok()) return calls.status();
  if (calls->copy == nullptr || calls->done == nullptr) {
    return invalid("device.copy or device.done is NULL");
  }
  if ((calls->allocate == nullptr) != (calls->release == nullptr)) {
    return invalid("device.allocate and device.release go together");
  }
  auto copy = HostCopy::of_device(data, shape, *calls, stream);
  if (!copy.ok() && copy.status().code() == Code::kInternal) {
    const std::lock_guard lock(mutex_);
    if (failed_.ok()) failed_ = copy.status();
  }
  return copy;
}

Status Writer::tensor(const goldentrace_tensor* tensor, std::uint64_t* id) {
  const auto from = read_struct(tensor, "tensor");
  if (!from.ok()) return from.status();
  auto name = read_name(from->name, "tensor.name");
  if (!name.ok()) return name.status();
  auto shape = read_shape(from->dtype, from->rank, from->sizes, from->strides);
  if (!shape.ok()) return shape.status();
  const auto placement = read_placement(from->placement);
  if (!placement.ok()) return placement.status();
  auto rows = read_rows(from->rows, from->rows_count);
  if (!rows.ok()) return rows.status();
  if (from->flags >
      (GOLDENTRACE_TENSOR_NO_VALUE | GOLDENTRACE_TENSOR_NO_STATS | GOLDENTRACE_TENSOR_DECISION)) {
    return invalid("tensor.flags " + std::to_string(from->flags) + " are none");
  }
  TensorJob job;
  job.name = std::move(*name);
  job.op = from->op == nullptr || *from->op == '\0' ? "tensor" : from->op;
  job.layout = text_or_empty(from->layout);
  job.flags = from->flags;
  job.placement = *placement;
  job.rows = std::move(*rows);
  job.shape = std::move(*shape);
  const std::uint64_t notes = note_bytes(job) + from->inputs_count * sizeof(Node);
  if (notes > kMaxNoteBytes) return invalid("tensor: names, inputs and rows are too long");
  {
    const std::lock_guard lock(mutex_);
    GOLDENTRACE_RETURN_IF_ERROR(usable());
    auto inputs = read_inputs(*from);
    if (!inputs.ok()) return inputs.status();
    job.inputs = std::move(*inputs);
    const auto step = step_of(from->step);
    if (!step.ok()) return step.status();
    job.step = *step;
    job.timing = {thread_number(), elapsed_ns(), 0};
  }
  Room room(queue_, notes + HostCopy::bytes_needed(job.shape, from->device != nullptr));
  auto data = copy(from->data, job.shape, from->device, from->stream);
  if (!data.ok()) return data.status();
  job.data = std::move(*data);
  return push_numbered(room, job, job.id, id);
}

Status Writer::parameter(const goldentrace_parameter* parameter, std::uint64_t* id) {
  const auto from = read_struct(parameter, "parameter");
  if (!from.ok()) return from.status();
  auto name = read_name(from->name, "parameter.name");
  if (!name.ok()) return name.status();
  auto shape = read_shape(from->dtype, from->rank, from->sizes, from->strides);
  if (!shape.ok()) return shape.status();
  const auto placement = read_placement(from->placement);
  if (!placement.ok()) return placement.status();
  const auto recipe = read_recipe(*from);
  if (!recipe.ok()) return recipe.status();
  auto sources = read_texts(from->sources, from->sources_count, "sources");
  if (!sources.ok()) return sources.status();
  if (from->kind > GOLDENTRACE_BUFFER) {
    return invalid("parameter.kind " + std::to_string(from->kind) + " is none");
  }
  ParameterJob job;
  job.parameter.name = std::move(*name);
  job.parameter.kind = static_cast<ParameterKind>(from->kind);
  job.parameter.recipe = *recipe;
  if (*recipe != Recipe::kValue) job.parameter.sources = std::move(*sources);
  job.parameter.placement = *placement;
  if (size_of(job.parameter) > kMaxNoteBytes) return invalid("parameter: names are too long");
  job.shape = std::move(*shape);
  {
    const std::lock_guard lock(mutex_);
    GOLDENTRACE_RETURN_IF_ERROR(usable());
  }
  const bool of_device = from->device != nullptr;
  Room room(queue_, from->hash != nullptr ? 0 : HostCopy::bytes_needed(job.shape, of_device));
  if (from->hash != nullptr) {
    job.parameter.hash = {from->hash->low, from->hash->high};
  } else {
    auto data = copy(from->data, job.shape, from->device, from->stream);
    if (!data.ok()) return data.status();
    job.data = std::move(*data);
  }
  return push_numbered(room, job, job.parameter.tensor, id);
}

Status Writer::request(const goldentrace_request* request) {
  const auto from = read_struct(request, "request");
  if (!from.ok()) return from.status();
  auto read = read_request(*from);
  if (!read.ok()) return read.status();
  Room room(queue_, size_of(*read));
  const std::lock_guard lock(mutex_);
  GOLDENTRACE_RETURN_IF_ERROR(usable());
  (void)room.push(std::move(*read));
  return {};
}

Status Writer::result(const goldentrace_result* result) {
  const auto from = read_struct(result, "result");
  if (!from.ok()) return from.status();
  auto read = read_result(*from);
  if (!read.ok()) return read.status();
  Room room(queue_, size_of(*read));
  const std::lock_guard lock(mutex_);
  GOLDENTRACE_RETURN_IF_ERROR(usable());
  const auto step = step_of(from->step);
  if (!step.ok()) return step.status();
  read->step = *step;
  (void)room.push(std::move(*read));
  return {};
}

Status Writer::logits(const goldentrace_logits* logits) {
  const auto from = read_struct(logits, "logits");
  if (!from.ok()) return from.status();
  const auto count = static_cast<std::int64_t>(
      std::min<std::uint64_t>(from->count, std::numeric_limits<std::int64_t>::max()));
  auto shape = read_shape(from->dtype, 1, &count, nullptr);
  if (!shape.ok()) return shape.status();
  if (!is_real_float(shape->dtype)) return invalid("logits are float16, bfloat16, 32 or 64");
  if (count == 0) return invalid("logits of no token");
  if (from->chosen >= count) return invalid("chosen is not below the number of logits");
  goldentrace_result plain;
  goldentrace_result_init(&plain);
  plain.rows = from->rows;
  plain.rows_count = from->rows_count;
  plain.chosen = from->chosen;
  auto step = read_result(plain);
  if (!step.ok()) return step.status();
  LogitsJob job{std::move(*step), from->top == 0 ? kDefaultTop : from->top, std::move(*shape), {}};
  {
    const std::lock_guard lock(mutex_);
    GOLDENTRACE_RETURN_IF_ERROR(usable());
    const auto number = step_of(from->step);
    if (!number.ok()) return number.status();
    job.step.step = *number;
  }
  Room room(queue_, HostCopy::bytes_needed(job.shape, from->device != nullptr));
  auto data = copy(from->data, job.shape, from->device, from->stream);
  if (!data.ok()) return data.status();
  job.data = std::move(*data);
  const std::lock_guard lock(mutex_);
  Status state = usable();
  if (!closed_) (void)room.push(std::move(job));
  return state;
}

Status Writer::cut_short(const char* why) {
  const std::lock_guard lock(mutex_);
  GOLDENTRACE_RETURN_IF_ERROR(usable());
  if (summary_.counters.empty()) {
    summary_.counters.push_back({"run_cut_short", CounterSeverity::kError,
                                 CounterOrigin::kRecording, 1, text_or_empty(why)});
  }
  return {};
}

Status Writer::flush() {
  Room room(queue_, 0);
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    GOLDENTRACE_RETURN_IF_ERROR(usable());
    number = room.push(FlushJob{});
  }
  return queue_.wait(number);
}

Status Writer::close() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return invalid("the writer is closed");
    closed_ = true;
  }
  GOLDENTRACE_RETURN_IF_ERROR(queue_.finish());
  const std::lock_guard lock(mutex_);
  GOLDENTRACE_RETURN_IF_ERROR(failed_);
  summary_.duration_ns = elapsed_ns();
  return assembler_.close(std::move(summary_));
}

// With the lock held.
std::uint32_t Writer::thread_number() {
  return threads_
      .try_emplace(std::this_thread::get_id(), static_cast<std::uint32_t>(threads_.size()))
      .first->second;
}

std::uint64_t Writer::elapsed_ns() const {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now() - started_)
                                        .count());
}

}  // namespace goldentrace::capi
