#include "replayer/execute/interpreter.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/gather.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace goldentrace {
namespace {

// Operators whose first result is picked from their first argument, along "dim", by their second.
constexpr std::array<std::string_view, 10> kPicking = {
    "aten::topk",   "aten::sort",      "aten::max",  "aten::min",    "aten::kthvalue",
    "aten::median", "aten::nanmedian", "aten::mode", "aten::cummax", "aten::cummin"};

c10::ScalarType scalar_type(DType dtype) { return static_cast<c10::ScalarType>(dtype); }

at::Tensor wrapped(const at::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace

Interpreter::Interpreter(const Dictionary& dictionary, Promotion promotion,
                         Environment& environment, c10::Device device)
    : dictionary_(dictionary), memory_(dictionary, promotion, device), environment_(environment) {}

const Interpreter::Op& Interpreter::find_op(std::uint32_t id) {
  const auto known = ops_.find(id);
  if (known != ops_.end()) return known->second;
  const Operator& recorded = dictionary_.op(id);
  const auto handle = c10::Dispatcher::singleton().findSchema({recorded.name, recorded.overload});
  if (!handle) throw CannotRun{"this LibTorch has no such operator"};
  Op op{*handle, {}, {}, -1};
  op.reinterprets = recorded.name == "aten::view" && recorded.overload == "dtype";
  op.picks_rows = recorded.name == "aten::embedding";
  const c10::FunctionSchema& schema = handle->schema();
  for (const c10::Argument& argument : schema.arguments()) {
    op.dtype_argument.push_back(argument.real_type()->str().find("ScalarType") !=
                                std::string::npos);
    op.written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  }
  const bool picks = std::find(kPicking.begin(), kPicking.end(), recorded.name) != kPicking.end();
  if (picks && schema.returns().size() == 2) {
    op.dim = schema.argumentIndexWithName("dim").value_or(-1);
  }
  return ops_.emplace(id, std::move(op)).first->second;
}

// Kernels take workspace in proportion to what they read and make; promotion widens four times.
void Interpreter::limit_allocations(const ProgramChunk& chunk, const Call& call) {
  constexpr std::uint64_t kAlways = 256u << 20;
  constexpr std::uint64_t kTimesRecorded = 64;
  std::uint64_t bytes = 0;
  for (std::size_t node = call.first_node; node < call.end_node; ++node) {
    if (chunk.nodes[node].kind != NodeKind::kTensor) continue;
    const auto id = static_cast<std::uint32_t>(chunk.nodes[node].value);
    bytes += dictionary_.storage(dictionary_.tensor(id).storage).bytes;
  }
  environment_.limit_allocations(kAlways + kTimesRecorded * bytes);
}

// ---- one call -----------------------------------------------------------------------------------

std::vector<c10::IValue> Interpreter::run(const ProgramChunk& chunk, const Call& call) {
  fell_back_ = false;
  memory_.end_call();  // of the one before
  if ((call.flags & kCallNotExecutable) != 0) throw CannotRun{"an argument was not stored"};
  if ((call.flags & kCallForeign) != 0) throw CannotRun{"another engine gave only its result"};
  environment_.apply(dictionary_.ambient(call.ambient), memory_.promotion());
  limit_allocations(chunk, call);
  const Op& op = find_op(call.op);
  // What looks at bits must see the recorded dtype's; a parameter's rows are the same picked first.
  if (memory_.promotes() && (op.reinterprets || (op.picks_rows && reads_lent(chunk, call)))) {
    return run_in_recorded_dtype(chunk, call, op);
  }
  std::vector<c10::IValue> stack = decode_arguments(chunk, call, op, Dtypes::kKept);
  try {
    op.handle.callBoxed(&stack);
  } catch (const std::exception&) {
    if (!memory_.promotes()) throw;
    stack = run_in_recorded_dtype(chunk, call, op);
    fell_back_ = true;
  }
  return stack;
}

// Whether the call's first argument is a parameter that is not promoted yet.
bool Interpreter::reads_lent(const ProgramChunk& chunk, const Call& call) const {
  const Node& first = chunk.nodes[call.first_node];
  return call.arguments > 0 && first.kind == NodeKind::kTensor &&
         memory_.is_lent(static_cast<std::uint32_t>(first.value));
}

// The call from copies of its arguments in the recorded dtypes; what it wrote is put back.
std::vector<c10::IValue> Interpreter::run_in_recorded_dtype(const ProgramChunk& chunk,
                                                            const Call& call, const Op& op) {
  std::vector<c10::IValue> stack = decode_arguments(chunk, call, op, Dtypes::kRecorded);
  op.handle.callBoxed(&stack);
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (!written_[i]) continue;
    const at::Tensor kept = memory_.tensor(tensor_ids_[i]);
    kept.copy_(arguments_[i]);
    arguments_[i] = kept;
  }
  return stack;
}

std::vector<c10::IValue> Interpreter::decode_arguments(const ProgramChunk& chunk, const Call& call,
                                                       const Op& op, Dtypes dtypes) {
  const auto& arguments = op.handle.schema().arguments();
  if (arguments.size() < call.arguments) {
    throw CannotRun{"takes " + std::to_string(arguments.size()) + " arguments here, had " +
                    std::to_string(call.arguments) + " when recorded"};
  }
  dtypes_ = dtypes;
  arguments_.clear();
  inputs_.clear();
  tensor_ids_.clear();
  written_.clear();
  std::vector<c10::IValue> stack;
  std::size_t node = call.first_node;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i >= call.arguments) {  // a later LibTorch added it
      const auto& fallback = arguments[i].default_value();
      if (!fallback) throw CannotRun{"needs argument '" + arguments[i].name() + "' here"};
      stack.push_back(*fallback);
      continue;
    }
    writes_argument_ = op.written[i];
    c10::IValue value = decode(chunk.nodes, node, *arguments[i].type());
    if (op.dtype_argument[i] && value.isInt() && dtypes == Dtypes::kKept) {
      const auto recorded = static_cast<DType>(value.toInt());
      if (item_size(recorded) != 0) {
        value = static_cast<std::int64_t>(promoted(recorded, memory_.promotion()));
      }
    }
    stack.push_back(std::move(value));
  }
  inputs_ = stack;
  return stack;
}

// Memory from before the recording has no bytes in the trace as long as calls only look at it or
// overwrite it: any bytes will do.
void Interpreter::make_unread(std::uint32_t storage) {
  if (memory_.has(storage)) {
    if (writes_argument_) {
      memory_.own(storage);
    } else {
      memory_.need(storage);
    }
    return;
  }
  if (lost_.contains(storage)) {
    throw CannotRun{"an input was never made (a call before it could not run)"};
  }
  memory_.allocate(storage);
}

at::Tensor Interpreter::decode_tensor(std::uint32_t id) {
  const bool as_lent = dtypes_ == Dtypes::kRecorded && !writes_argument_ && memory_.is_lent(id);
  if (!as_lent) make_unread(dictionary_.tensor(id).storage);
  if (writes_argument_ && memory_.reinterprets(id)) {
    throw CannotRun{"writes other dtype's bits into promoted memory"};
  }
  at::Tensor tensor = as_lent ? memory_.lent_tensor(id) : memory_.tensor(id);
  const DType recorded = dictionary_.tensor(id).dtype;
  if (!as_lent && dtypes_ == Dtypes::kRecorded && memory_.dtype(id) != recorded) {
    tensor = tensor.to(scalar_type(recorded));
  }
  arguments_.push_back(tensor);
  tensor_ids_.push_back(id);
  written_.push_back(writes_argument_);
  return tensor;
}

// The value of the node at `node`, which moves past it. `type` is what the schema expects there.
c10::IValue Interpreter::decode(const std::vector<Node>& nodes, std::size_t& node,
                                const c10::Type& type) {
  const Node& at = nodes[node++];
  const auto id = static_cast<std::uint32_t>(at.value);
  switch (at.kind) {
    case NodeKind::kNone:
      return {};
    case NodeKind::kTensor:
      return decode_tensor(id);
    case NodeKind::kStorage:
      make_unread(id);
      return memory_.storage(id);
    case NodeKind::kUndefinedTensor:
      return at::Tensor();
    case NodeKind::kInt:
      return at.value;
    case NodeKind::kDouble:
      return std::bit_cast<double>(at.value);
    case NodeKind::kBool:
      return at.value != 0;
    case NodeKind::kString:
      return dictionary_.string(id);
    case NodeKind::kDevice:
      return memory_.device();  // wherever it was recorded
    case NodeKind::kComplex: {
      const double real = std::bit_cast<double>(nodes[node].value);
      const double imaginary = std::bit_cast<double>(nodes[node + 1].value);
      node += 2;
      return c10::complex<double>(real, imaginary);
    }
    case NodeKind::kGenerator:
      return {};  // random results are taken from the trace
    case NodeKind::kWrappedInt:
      return wrapped(at.value);
    case NodeKind::kWrappedDouble:
      return wrapped(std::bit_cast<double>(at.value));
    case NodeKind::kWrappedBool:
      return wrapped(at.value != 0);
    case NodeKind::kList:
      return decode_list(nodes, node, at.value, type);
    default:
      throw CannotRun{"an argument of a kind that can't be made again"};
  }
}

c10::IValue Interpreter::decode_list(const std::vector<Node>& nodes, std::size_t& node,
                                     std::int64_t count, const c10::Type& type) {
  const c10::Type* list_type = &type;
  if (const auto* optional = type.castRaw<c10::OptionalType>()) {
    list_type = optional->getElementType().get();
  }
  const auto* typed = list_type->castRaw<c10::ListType>();
  if (typed == nullptr) throw CannotRun{"a list where the schema has none"};
  const c10::TypePtr element = typed->getElementType();
  c10::impl::GenericList list(element);
  for (std::int64_t i = 0; i < count; ++i) list.push_back(decode(nodes, node, *element));
  return list;
}

// ---- results ------------------------------------------------------------------------------------

// Memory that the call only read. A written argument that changed its size is a new storage.
bool Interpreter::is_read_argument(const c10::Storage& storage) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (!written_[i] &&
        arguments_[i].storage().unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
      return true;
    }
  }
  return false;
}

Placed Interpreter::place(std::uint32_t id, const at::Tensor& got) {
  const Tensor& want = dictionary_.tensor(id);
  const Geometry& geometry = dictionary_.geometry(want.geometry);
  Placed placed;
  placed.same_sizes = got.sizes() == c10::IntArrayRef(geometry.sizes);
  placed.same_layout = got.strides() == c10::IntArrayRef(geometry.strides) &&
                       got.storage_offset() == want.offset &&
                       got.scalar_type() == scalar_type(memory_.dtype(id));
  if (memory_.has(want.storage)) {
    // A promoted view of other bits is a copy by nature.
    placed.same_memory =
        memory_.is(want.storage, got.storage()) || memory_.reinterprets(id) || fell_back_;
    return placed;
  }
  placed.same_memory = !is_read_argument(got.storage());
  if (placed.same_sizes && placed.same_layout && placed.same_memory) {
    memory_.bind(want.storage, got.storage());
    return placed;
  }
  memory_.allocate(want.storage);
  if (placed.same_sizes && !memory_.reinterprets(id)) memory_.tensor(id).copy_(got);
  return placed;
}

void Interpreter::lose_results(const ProgramChunk& chunk, const Call& call) {
  for (std::size_t node = call.first_result; node < call.end_node; ++node) {
    if (chunk.nodes[node].kind != NodeKind::kTensor) continue;
    lost_.insert(dictionary_.tensor(static_cast<std::uint32_t>(chunk.nodes[node].value)).storage);
  }
}

void Interpreter::gather_picked(const Call& call, const at::Tensor& indices,
                                std::vector<c10::IValue>& results) const {
  const std::int64_t dim_at = ops_.at(call.op).dim;
  if (dim_at < 0 || !inputs_[static_cast<std::size_t>(dim_at)].isInt() || results.size() != 2) {
    return;
  }
  const std::int64_t dim = inputs_[static_cast<std::size_t>(dim_at)].toInt();
  const at::Tensor& source = inputs_[0].toTensor();
  if (source.dim() == 0) return;
  const bool keeps = indices.dim() == source.dim();
  const at::Tensor picked = source.gather(dim, keeps ? indices : indices.unsqueeze(dim));
  results[0] = keeps ? picked : picked.squeeze(dim);
}

}  // namespace goldentrace
