#include "replayer/execute/execution.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>
#include <utility>

namespace goldentrace {

Result<double> force_picked(const ProgramChunk& chunk, const Call& call,
                            const Dictionary& dictionary, const Control& control,
                            Interpreter& interpreter, std::vector<c10::IValue>& results) {
  if (call.writes != 2 || results.size() != 2) return 0.0;
  const Write& write = chunk.writes[call.first_write + 1];
  if ((write.flags & kWriteDecision) == 0 ||
      dictionary.tensor(write.tensor).dtype != DType::kInt64) {
    return 0.0;
  }
  const auto bytes = control(write, 1);
  if (!bytes.ok()) return bytes.status();
  const at::Tensor index =
      at::empty(dictionary.geometry_of(write.tensor).sizes,
                at::TensorOptions().dtype(at::kLong).device(interpreter.memory().device()));
  if (bytes->size() != index.nbytes()) return 0.0;
  GOLDENTRACE_RETURN_IF_ERROR(put_elements(*bytes, DType::kInt64, index));
  if (!results[1].isTensor() || results[1].toTensor().equal(index)) return 0.0;
  const at::Tensor own = results[0].toTensor();
  interpreter.gather_picked(call, index, results);
  const at::Tensor forced = results[0].toTensor();
  if (own.numel() == 0 || own.sizes() != forced.sizes() || !own.is_floating_point()) return 0.0;
  const double size = own.abs().max().item<double>();
  return size > 0 ? own.sub(forced).abs().max().item<double>() / size : 0.0;
}

namespace {

std::vector<std::unique_ptr<Interpreter>> make_interpreters(
    const Dictionary& dictionary, const std::vector<Promotion>& promotions,
    Environment& environment, c10::Device device) {
  std::vector<std::unique_ptr<Interpreter>> made;
  for (const Promotion promotion : promotions) {
    made.push_back(std::make_unique<Interpreter>(dictionary, promotion, environment, device));
    // Promoted alike, they have the same parameters.
    const bool first = made.front() == made.back();
    if (!first && made.front()->memory().promotion() == promotion) {
      made.back()->memory().borrow_from(made.front()->memory());
    }
  }
  return made;
}

std::vector<Memory*> memories_of(const std::vector<std::unique_ptr<Interpreter>>& interpreters) {
  std::vector<Memory*> memories;
  for (const auto& interpreter : interpreters) memories.push_back(&interpreter->memory());
  return memories;
}

}  // namespace

Execution::Execution(const TraceReader& trace, const Checkpoint& checkpoint,
                     const std::vector<Promotion>& promotions, Alignment alignment,
                     c10::Device device)
    : trace_(trace),
      program_(trace),
      interpreters_(make_interpreters(program_.dictionary(), promotions, environment_, device)),
      inputs_(trace, checkpoint, program_.dictionary(), memories_of(interpreters_), alignment) {}

void Execution::set_weight_cache(std::uint64_t bytes) {
  for (const auto& interpreter : interpreters_) interpreter->memory().set_room(bytes);
}

Status Execution::open() {
  auto lifetimes = Lifetimes::read(trace_);
  if (!lifetimes.ok()) return lifetimes.status();
  lifetimes_ = std::move(*lifetimes);
  return inputs_.open();
}

Result<bool> Execution::next() {
  if (started_) {
    lifetimes_->release_after(number(), [&](std::uint32_t storage) {
      for (const auto& interpreter : interpreters_) interpreter->memory().release(storage);
    });
    ++at_;
  }
  while (!started_ || at_ >= chunk().calls.size()) {
    const auto more = program_.next();
    if (!more.ok() || !*more) return more;
    started_ = true;
    at_ = 0;
    for (const auto& interpreter : interpreters_) interpreter->memory().learn(chunk());
  }
  GOLDENTRACE_RETURN_IF_ERROR(inputs_.put_before(chunk(), number()));
  return inputs_.wrong_parameters().empty();
}

Result<Bytes> Execution::recorded_control(const Write& write) const {
  return (write.flags & kWriteValue) != 0 ? trace_.value(write.hash) : Bytes();
}

Result<bool> Execution::run(const Control& control, std::size_t interpreters) {
  const auto running = std::span(interpreters_).first(std::min(interpreters, interpreters_.size()));
  for (const auto& interpreter : running) {
    bool ran = false;
    try {
      GOLDENTRACE_RETURN_IF_ERROR(execute(*interpreter, control));
      ran = true;
    } catch (const std::exception& error) {
      why_not_ = error.what();
    } catch (const CannotRun& cannot) {
      why_not_ = cannot.why;
    }
    if (ran) continue;
    for (const auto& each : running) each->lose_results(chunk(), call());
    return false;
  }
  return true;
}

Result<bool> Execution::run_as_recorded(std::size_t interpreters) {
  return run([&](const Write& write, std::size_t /*output*/) { return recorded_control(write); },
             interpreters);
}

Status Execution::settle(const Write& write, std::size_t interpreters) {
  const Tensor& tensor = dictionary().tensor(write.tensor);
  const bool random = (call().flags & kCallRandom) != 0;
  const bool decision = (write.flags & kWriteDecision) != 0 && !is_real_float(tensor.dtype);
  if ((!random && !decision) || (write.flags & kWriteUndefined) != 0) return {};
  const auto bytes = recorded_control(write);
  if (!bytes.ok()) return bytes.status();
  if (bytes->empty()) return {};
  for (std::size_t i = 0; i < std::min(interpreters, interpreters_.size()); ++i) {
    if (!memory(i).has(tensor.storage)) continue;
    GOLDENTRACE_RETURN_IF_ERROR(put_elements(*bytes, tensor.dtype, memory(i).tensor(write.tensor)));
  }
  return {};
}

void Execution::round(const Write& write, std::size_t interpreter, DType dtype) {
  const at::Tensor place = memory(interpreter).tensor(write.tensor);
  place.copy_(place.to(static_cast<c10::ScalarType>(dtype)));
}

Status Execution::execute(Interpreter& interpreter, const Control& control) {
  std::vector<c10::IValue> results = interpreter.run(chunk(), call());
  const auto margin = force_picked(chunk(), call(), dictionary(), control, interpreter, results);
  if (!margin.ok()) return margin.status();
  if (&interpreter == interpreters_.front().get()) margin_ = *margin;
  std::size_t node = call().first_result;
  for (const c10::IValue& result : results) {
    if (node < call().end_node) place(node, result, interpreter);
  }
  return {};
}

void Execution::place(std::size_t& node, const c10::IValue& result, Interpreter& interpreter) {
  const Node& want = chunk().nodes[node];
  if (want.kind == NodeKind::kList && result.isList() &&
      result.toListRef().size() == static_cast<std::size_t>(want.value)) {
    ++node;
    for (const c10::IValue& item : result.toListRef()) place(node, item, interpreter);
    return;
  }
  if (want.kind == NodeKind::kTensor && result.isTensor() && result.toTensor().defined() &&
      result.toTensor().has_storage()) {
    interpreter.place(static_cast<std::uint32_t>(want.value), result.toTensor());
  }
  node = skip_node(chunk().nodes, node);
}

bool Execution::has(const Write& write) {
  const std::uint32_t storage = dictionary().tensor(write.tensor).storage;
  return std::ranges::all_of(
      interpreters_, [&](const auto& interpreter) { return interpreter->memory().has(storage); });
}

}  // namespace goldentrace
