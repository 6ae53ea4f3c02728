#include "recorder/session.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <stdexcept>
#include <utility>

#include "recorder/scopes.h"
#include "recorder/tensor_bytes.h"
#include "src/format/container.h"

namespace goldentrace {
namespace {

constexpr std::uint64_t kSweepEvery = 4096;  // calls

std::atomic<std::uint64_t> next_session{1};

// Memory that a plain program step can read and write: no fake, functional, batched, sparse, nested
// or meta tensor, and none whose memory was given back.
bool has_memory(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  constexpr c10::DispatchKeySet kForeign({
      c10::DispatchKey::Python,
      c10::DispatchKey::Functionalize,
      c10::DispatchKey::FuncTorchBatched,
      c10::DispatchKey::FuncTorchGradWrapper,
      c10::DispatchKey::ZeroTensor,
  });
  return impl->has_storage() && !impl->key_set().has_any(kForeign) && !impl->is_meta() &&
         !impl->is_nested() && !impl->is_sparse() && !impl->is_sparse_csr() &&
         (impl->is_cpu() || impl->is_cuda()) &&
         (impl->numel() == 0 || impl->unsafe_storage().data() != nullptr);
}

// Of all bytes of a small storage in host memory.
std::uint64_t small_hash(const StorageEntry& entry, const c10::StorageImpl* impl) {
  return checksum64({static_cast<const std::byte*>(impl->data()), entry.bytes});
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Every byte of the tensor's storage is an element of the tensor.
bool covers_storage(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && tensor.nbytes() == storage_of(tensor)->nbytes();
}

// Quantized and other rare dtypes are not in the format.
bool has_known_dtype(const at::Tensor& tensor) {
  return item_size(static_cast<DType>(tensor.scalar_type())) != 0;
}

bool draws(const OpInfo& op, const at::RecordFunction& function) {
  if (!op.random || op.dropout < 0) return op.random;
  const auto inputs = function.inputs();
  const auto dropout = static_cast<std::size_t>(op.dropout);
  return dropout >= inputs.size() || !inputs[dropout].isDouble() || inputs[dropout].toDouble() != 0;
}

template <typename Visit>
void each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) each_tensor(item, visit);
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) each_tensor(item, visit);
  }
}

}  // namespace

void Frame::clear() {
  function = nullptr;
  op = nullptr;
  flags = 0;
  float_input = false;
  nodes.clear();
  inputs.clear();
  written.clear();
  unknown.clear();
  news.clear();
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

Result<std::unique_ptr<Session>> Session::create(RecorderOptions options) {
  auto sink = create_file(options.path);
  if (!sink.ok()) return sink.status();
  Header header = options.header;
  // What is read off this process stands; a caller's entry under the same key gives way.
  std::map<std::string, std::string> environment;
  for (auto& entry : numerics_environment()) environment.insert(std::move(entry));
  environment.insert(header.environment.begin(), header.environment.end());
  header.environment.assign(environment.begin(), environment.end());
  header.started_unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  auto writer = TraceWriter::create(std::move(*sink), std::move(header));
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<Session>(new Session(std::move(options), std::move(*writer)));
}

Session::Session(RecorderOptions options, std::unique_ptr<TraceWriter> writer)
    : number_(next_session++),
      options_(std::move(options)),
      began_(std::chrono::steady_clock::now()),
      writer_(std::move(writer)) {
  constexpr std::pair<const char*, CounterSeverity> kNames[kCounters] = {
      {"calls_not_executable", CounterSeverity::kLoss},
      {"calls_skipped_no_storage", CounterSeverity::kInfo},
      {"calls_failed", CounterSeverity::kInfo},
      {"external_inputs", CounterSeverity::kInfo},
      {"external_bytes", CounterSeverity::kInfo},
      {"holes", CounterSeverity::kLoss},
      {"parameters_by_value", CounterSeverity::kInfo},
      {"recorder_errors", CounterSeverity::kError},
  };
  for (std::size_t i = 0; i < kCounters; ++i) {
    counters_[i].name = kNames[i].first;
    counters_[i].severity = kNames[i].second;
  }
}

std::uint64_t Session::now_ns() const {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now() - began_)
                                        .count());
}

void Session::count(CounterId id, std::uint64_t amount, const std::string& first) {
  if (counters_[id].value == 0) counters_[id].first = first;
  counters_[id].value += amount;
}

void Session::fault(const char* what) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    count(kRecorderErrors, 1, "call " + std::to_string(builder_.next_call()) + ": " + what);
  } catch (...) {
    // Not even the message fits in memory; the missing call shows in verification.
  }
}

// ---- start of a call ----------------------------------------------------------------------------

bool Session::start_call(const at::RecordFunction& function, ThreadState& thread) {
  Frame& frame = thread.frame;
  const std::lock_guard lock(mutex_);
  if (thread.session != number_) {
    thread.session = number_;
    thread.number = threads_++;
    thread.ambient_known = false;
  }
  frame.op = ops_.find(function);
  if (frame.op == nullptr) return false;
  if (options_.fail_at_call != 0 && builder_.next_call() == options_.fail_at_call &&
      counters_[kRecorderErrors].value == 0) {
    throw std::runtime_error("fault forced by fail_at_call");
  }
  frame.scope = scopes::current();
  frame.step = step_;
  frame.ambient = ambient_id(thread);
  if (draws(*frame.op, function)) frame.flags |= kCallRandom;
  if (!encode_arguments(function, frame)) {
    count(kSkippedNoStorage, 1, frame.op->qualified);
    return false;
  }
  capture_overwritten(frame);
  frame.function = &function;
  frame.exceptions = std::uncaught_exceptions();
  frame.start_ns = now_ns();
  return true;
}

std::uint32_t Session::ambient_id(ThreadState& thread) {
  const AmbientBits bits = read_ambient();
  if (!thread.ambient_known || !(bits == thread.ambient_bits)) {
    thread.ambient_id = builder_.ambient(to_ambient(bits));
    thread.ambient_bits = bits;
    thread.ambient_known = true;
  }
  return thread.ambient_id;
}

bool Session::encode_arguments(const at::RecordFunction& function, Frame& frame) {
  const auto inputs = function.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!encode_argument(inputs[i], frame.op->role(i), frame)) return false;
  }
  return true;
}

bool Session::encode_argument(const c10::IValue& value, ArgumentRole role, Frame& frame) {
  if (value.isTensor()) return encode_tensor_argument(value.toTensor(), role, frame);
  if (value.isList()) {
    const auto items = value.toListRef();
    frame.nodes.push_back({NodeKind::kList, 0, static_cast<std::int64_t>(items.size())});
    for (const c10::IValue& item : items) {
      if (!encode_argument(item, role, frame)) return false;
    }
    return true;
  }
  if (value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    frame.nodes.push_back({NodeKind::kTuple, 0, static_cast<std::int64_t>(items.size())});
    for (const c10::IValue& item : items) {
      if (!encode_argument(item, role, frame)) return false;
    }
    return true;
  }
  if (!encode_plain(value, frame)) unstorable(value.tagKind(), frame);
  return true;
}

bool Session::encode_plain(const c10::IValue& value, Frame& frame) {
  const auto add = [&](NodeKind kind, std::int64_t bits) {
    frame.nodes.push_back({kind, 0, bits});
    return true;
  };
  if (value.isNone()) return add(NodeKind::kNone, 0);
  if (value.isInt()) return add(NodeKind::kInt, value.toInt());
  if (value.isBool()) return add(NodeKind::kBool, value.toBool() ? 1 : 0);
  if (value.isDouble()) {
    return add(NodeKind::kDouble, std::bit_cast<std::int64_t>(value.toDouble()));
  }
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    add(NodeKind::kComplex, 0);
    add(NodeKind::kDouble, std::bit_cast<std::int64_t>(number.real()));
    return add(NodeKind::kDouble, std::bit_cast<std::int64_t>(number.imag()));
  }
  if (value.isString()) return add(NodeKind::kString, builder_.string(value.toStringRef()));
  if (value.isDevice()) return add(NodeKind::kDevice, builder_.string(value.toDevice().str()));
  if (value.isGenerator()) {
    return add(NodeKind::kGenerator, builder_.string(value.toGenerator().device().str()));
  }
  return false;
}

void Session::unstorable(const std::string& reason, Frame& frame) {
  frame.nodes.push_back({NodeKind::kUnstorable, 0, builder_.string(reason)});
  if ((frame.flags & kCallNotExecutable) == 0) {
    frame.flags |= kCallNotExecutable;
    count(kNotExecutable, 1, frame.op->qualified + ": argument of type " + reason);
  }
}

// A number that Python mixed with a tensor: its value is all there is to it.
bool Session::encode_wrapped_number(const at::Tensor& tensor, Frame& frame) {
  const auto add = [&](NodeKind kind, std::int64_t bits) {
    frame.nodes.push_back({kind, 0, bits});
    return true;
  };
  switch (tensor.scalar_type()) {
    case c10::ScalarType::Double:
      return add(NodeKind::kWrappedDouble,
                 std::bit_cast<std::int64_t>(*tensor.const_data_ptr<double>()));
    case c10::ScalarType::Long:
      return add(NodeKind::kWrappedInt, *tensor.const_data_ptr<std::int64_t>());
    case c10::ScalarType::Bool:
      return add(NodeKind::kWrappedBool, *tensor.const_data_ptr<bool>() ? 1 : 0);
    default:
      return false;
  }
}

bool Session::encode_tensor_argument(const at::Tensor& tensor, ArgumentRole role, Frame& frame) {
  if (!tensor.defined()) {
    frame.nodes.push_back({NodeKind::kUndefinedTensor, 0, 0});
    return true;
  }
  if (!has_memory(tensor)) return false;
  if (!has_known_dtype(tensor)) {
    unstorable(c10::toString(tensor.scalar_type()), frame);
    return true;
  }
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.dim() == 0 && tensor.is_cpu() &&
      role == ArgumentRole::kRead && encode_wrapped_number(tensor, frame)) {
    return true;
  }
  frame.float_input |= tensor.is_floating_point();
  c10::StorageImpl* impl = storage_of(tensor);
  StorageEntry& entry = tensors_.storage(impl);
  // What is written into a part of a storage leaves the rest of it to be read.
  const bool reads = role != ArgumentRole::kOverwrite || !covers_storage(tensor);
  if (entry.content == Content::kKnown) {
    if (reads) check_small(entry, impl);
  } else if (role != ArgumentRole::kRead && reads) {
    capture_external(entry, impl, ExternalKind::kFirstRead);
  } else if (role == ArgumentRole::kRead) {
    frame.unknown.push_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl));
  }
  frame.inputs.push_back({impl, role, frame.nodes.size(), impl->nbytes()});
  frame.nodes.push_back({NodeKind::kTensor, entry.version, tensors_.tensor(entry, tensor)});
  if (role != ArgumentRole::kRead) frame.written.push_back(tensor);
  return true;
}

// ---- external inputs ----------------------------------------------------------------------------

void Session::refresh_small_hash(StorageEntry& entry, const c10::StorageImpl* impl) {
  if (entry.small() && impl->device_type() == c10::DeviceType::CPU && impl->data() != nullptr) {
    entry.small_hash = small_hash(entry, impl);
  }
}

void Session::check_small(StorageEntry& entry, const c10::StorageImpl* impl) {
  if (!entry.small() || impl->device_type() != c10::DeviceType::CPU || impl->data() == nullptr) {
    return;
  }
  if (small_hash(entry, impl) == entry.small_hash) return;
  capture_external(entry, const_cast<c10::StorageImpl*>(impl), ExternalKind::kHole);
}

// Stores the storage's bytes as an input of the program, to be put there before the next call.
void Session::capture_external(StorageEntry& entry, c10::StorageImpl* impl, ExternalKind kind) {
  std::vector<std::byte> bytes = storage_bytes(impl);
  entry.content = Content::kKnown;
  refresh_small_hash(entry, impl);
  if (bytes.empty()) return;
  External external;
  external.call = builder_.next_call();
  external.storage = entry.id;
  external.version = ++entry.version;
  external.kind = kind;
  external.hash = hash_bytes(bytes);
  builder_.chunk().externals.push_back(external);
  if (kind == ExternalKind::kHole) {
    count(kHoles, 1,
          "storage " + std::to_string(entry.id) + " before call " + std::to_string(external.call));
  } else {
    count(kExternalInputs);
    count(kExternalBytes, bytes.size());
  }
  keep_value(external.hash, std::move(bytes));
}

// The bytes are put there before this call: what it reads is that version.
void Session::capture_argument(c10::StorageImpl* impl, Frame& frame) {
  StorageEntry& entry = tensors_.storage(impl);
  if (entry.content == Content::kKnown) return;
  capture_external(entry, impl, ExternalKind::kFirstRead);
  for (const Frame::Input& input : frame.inputs) {
    if (input.storage == impl) frame.nodes[input.node].version = entry.version;
  }
}

// Before the call: what it reads by one argument and overwrites by another (out=).
void Session::capture_overwritten(Frame& frame) {
  for (const auto& impl : frame.unknown) {
    for (const Frame::Input& input : frame.inputs) {
      if (input.storage == impl.get() && input.role != ArgumentRole::kRead) {
        capture_argument(impl.get(), frame);
      }
    }
  }
}

// After the call: what it read and did not merely look at.
void Session::capture_read(const std::vector<c10::IValue>& outputs, Frame& frame) {
  for (const auto& impl : frame.unknown) {
    bool only_viewed = !outputs.empty();
    for (const c10::IValue& output : outputs) {
      bool aliases = false;
      each_tensor(output, [&](const at::Tensor& t) {
        aliases = has_memory(t) && storage_of(t) == impl.get();
      });
      only_viewed &= aliases;
    }
    if (!only_viewed) capture_argument(impl.get(), frame);
  }
}

// After a call that threw: it may have written a part of what it was about to write.
void Session::forget_written(const Frame& frame) {
  for (const Frame::Input& input : frame.inputs) {
    if (input.role != ArgumentRole::kRead) {
      tensors_.storage(input.storage).content = Content::kUnknown;
    }
  }
}

void Session::keep_value(const Hash128& hash, std::vector<std::byte> bytes) {
  if (!kept_values_.insert(hash).second) return;
  const std::uint64_t size = bytes.size();
  writer_.push(WriterThread::Value{hash, std::move(bytes)}, size);
}

// ---- end of a call ------------------------------------------------------------------------------

void Session::finish_call(const at::RecordFunction& function, ThreadState& thread) {
  Frame& frame = thread.frame;
  const std::uint64_t end_ns = now_ns();
  const auto& outputs = function.outputs();
  const bool failed =
      (outputs.empty() && frame.op->returns > 0) || std::uncaught_exceptions() > frame.exceptions;
  if (failed) {
    frame.flags |= kCallFailed;
    frame.written.clear();
  }

  // What is new is decided by storage: a result whose memory no argument had, and arguments that
  // the call wrote into. Views bring no bytes.
  for (const c10::IValue& output : outputs) find_new_bytes(output, frame);
  for (const at::Tensor& written : frame.written) add_new_bytes(written, /*fresh=*/false, frame);
  digest_new_bytes(frame);

  const std::lock_guard lock(mutex_);
  if (failed) {
    forget_written(frame);
  } else {
    capture_read(outputs, frame);
  }
  register_writes(frame);
  const std::size_t arguments_end = frame.nodes.size();
  for (const c10::IValue& output : outputs) encode_result(output, frame);

  ProgramChunk& chunk = builder_.chunk();
  Call call;
  call.op = frame.op->id;
  call.scope = frame.scope;
  call.step = frame.step;
  call.ambient = frame.ambient;
  call.flags = frame.flags;
  call.arguments = static_cast<std::uint16_t>(function.inputs().size());
  call.results = static_cast<std::uint16_t>(outputs.size());
  call.writes = static_cast<std::uint16_t>(frame.news.size());
  call.first_node = static_cast<std::uint32_t>(chunk.nodes.size());
  call.first_result = call.first_node + static_cast<std::uint32_t>(arguments_end);
  call.end_node = call.first_node + static_cast<std::uint32_t>(frame.nodes.size());
  call.first_write = static_cast<std::uint32_t>(chunk.writes.size());
  chunk.nodes.insert(chunk.nodes.end(), frame.nodes.begin(), frame.nodes.end());
  for (Frame::NewBytes& news : frame.news) {
    if ((news.write.flags & kWriteStats) != 0) {
      news.write.stats_index = static_cast<std::uint32_t>(chunk.stats.size());
      chunk.stats.push_back(news.stats);
    }
    chunk.writes.push_back(news.write);
    if ((news.write.flags & kWriteValue) != 0) keep_value(news.write.hash, std::move(news.value));
  }
  chunk.calls.push_back(call);
  chunk.timings.push_back({thread.number, frame.start_ns, end_ns - frame.start_ns});
  ++calls_;
  if ((frame.flags & kCallFailed) != 0) count(kFailed, 1, frame.op->qualified);
  if (!parameters_.empty()) flush_parameters();
  if (builder_.full()) flush_chunk();
  if (calls_ % kSweepEvery == 0) tensors_.sweep();
}

void Session::find_new_bytes(const c10::IValue& value, Frame& frame) {
  each_tensor(value, [&](const at::Tensor& tensor) {
    if (!has_memory(tensor) || !has_known_dtype(tensor)) return;
    const c10::StorageImpl* impl = storage_of(tensor);
    for (const Frame::Input& input : frame.inputs) {
      if (input.storage != impl) continue;
      if (input.role != ArgumentRole::kRead) {
        add_new_bytes(tensor, /*fresh=*/false, frame);
      } else if (input.bytes != impl->nbytes()) {  // resize_
        add_new_bytes(tensor, /*fresh=*/true, frame);
      }
      return;
    }
    add_new_bytes(tensor, /*fresh=*/true, frame);
  });
}

void Session::add_new_bytes(const at::Tensor& tensor, bool fresh, Frame& frame) {
  const c10::StorageImpl* impl = storage_of(tensor);
  for (const Frame::NewBytes& known : frame.news) {
    // One storage may be written through several views; the same view twice is one write.
    if (storage_of(known.tensor) == impl && known.tensor.sizes() == tensor.sizes() &&
        known.tensor.strides() == tensor.strides() &&
        known.tensor.storage_offset() == tensor.storage_offset() &&
        known.tensor.scalar_type() == tensor.scalar_type()) {
      return;
    }
  }
  frame.news.push_back({tensor, fresh, {}, {}, {}});
}

DigestLevel Session::level_of(const Frame& frame) {
  const KeepRules& keep = options_.keep;
  if (keep.uniform()) return keep.fallback();
  const std::lock_guard lock(mutex_);
  const std::uint64_t key = (std::uint64_t{frame.scope} << 32) | frame.op->id;
  const auto [found, added] = levels_.try_emplace(key, DigestLevel::kHash);
  if (added) {
    found->second = keep.level(builder_.scope_path(frame.scope), frame.op->name,
                               frame.op->qualified, frame.step);
  }
  return found->second;
}

void Session::digest_new_bytes(Frame& frame) {
  if (frame.news.empty()) return;
  const DigestLevel level = level_of(frame);
  for (Frame::NewBytes& news : frame.news) {
    const auto dtype = static_cast<DType>(news.tensor.scalar_type());
    if (frame.op->undefined_results && news.fresh) {
      news.write.flags = kWriteUndefined;
      continue;
    }
    const at::Tensor host = host_tensor(news.tensor);
    const TensorView view = view_of(host);
    const bool stats = level >= DigestLevel::kStats && is_real_float(dtype);
    const Digest digest = digest_tensor(view, stats);
    news.write.flags = kWriteHashed;
    news.write.hash = digest.hash;
    if (stats) {
      news.write.flags |= kWriteStats;
      news.stats = digest.stats;
    }
    // Control is kept by value, whatever else is: re-execution takes it from here.
    const bool decision = is_integral(dtype) && frame.float_input;
    if (decision) news.write.flags |= kWriteDecision;
    const bool random = (frame.flags & kCallRandom) != 0;
    if (decision || random || level >= DigestLevel::kValues) {
      news.write.flags |= kWriteValue;
      news.value = dense_bytes(view);
    }
  }
}

// Ids and write counters of the new bytes.
void Session::register_writes(Frame& frame) {
  for (Frame::NewBytes& news : frame.news) {
    c10::StorageImpl* impl = storage_of(news.tensor);
    StorageEntry& entry = tensors_.storage(impl);
    const bool undefined = (news.write.flags & kWriteUndefined) != 0;
    if (undefined) {
      entry.content = Content::kUndefined;
    } else {
      entry.content = Content::kKnown;
      refresh_small_hash(entry, impl);
    }
    news.write.tensor = tensors_.tensor(entry, news.tensor);
    news.write.version = ++entry.version;
  }
}

void Session::encode_result(const c10::IValue& value, Frame& frame) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) {
      frame.nodes.push_back({NodeKind::kUndefinedTensor, 0, 0});
    } else if (!has_memory(tensor) || !has_known_dtype(tensor)) {
      frame.nodes.push_back({NodeKind::kUnstorable, 0,
                             builder_.string("tensor of a kind that has no "
                                             "place in the format")});
    } else {
      StorageEntry& entry = tensors_.storage(storage_of(tensor));
      frame.nodes.push_back({NodeKind::kTensor, entry.version, tensors_.tensor(entry, tensor)});
    }
    return;
  }
  if (value.isList()) {
    const auto items = value.toListRef();
    frame.nodes.push_back({NodeKind::kList, 0, static_cast<std::int64_t>(items.size())});
    for (const c10::IValue& item : items) encode_result(item, frame);
    return;
  }
  if (!encode_plain(value, frame)) {
    frame.nodes.push_back({NodeKind::kUnstorable, 0, builder_.string(value.tagKind())});
  }
}

// ---- parameters, steps, closing -----------------------------------------------------------------

Result<Hash128> Session::add_parameter(const std::string& name, ParameterKind kind,
                                       const at::Tensor& tensor, Recipe recipe,
                                       std::vector<std::string> sources) {
  if (!tensor.defined() || !has_memory(tensor)) {
    return Status(Code::kInvalidArgument, "parameter '" + name + "' has no memory");
  }
  const at::Tensor host = host_tensor(tensor);
  const TensorView view = view_of(host);
  Parameter parameter;
  parameter.name = name;
  parameter.kind = kind;
  parameter.hash = digest_tensor(view, false).hash;

  const std::lock_guard lock(mutex_);
  StorageEntry& entry = tensors_.storage(storage_of(tensor));
  parameter.tensor = tensors_.tensor(entry, tensor);
  const auto [owner, first] = parameter_of_tensor_.try_emplace(parameter.tensor, name);
  if (!first) {
    parameter.recipe = Recipe::kTied;
    parameter.sources = {owner->second};
  } else {
    parameter.recipe = recipe;
    parameter.sources = std::move(sources);
    if (recipe == Recipe::kValue) {
      if (kind == ParameterKind::kParameter) count(kParametersByValue, 1, name);
      keep_value(parameter.hash, dense_bytes(view));
    }
  }
  // Of memory that reaches further, the rest is in no dictionary: its first read stores it whole.
  if (covers_storage(tensor)) {
    entry.content = Content::kKnown;
    refresh_small_hash(entry, storage_of(tensor));
  }
  const Hash128 hash = parameter.hash;
  parameters_.push_back(std::move(parameter));
  return hash;
}

// The dictionary refers to tensors, so their definitions are written first.
void Session::flush_parameters() {
  flush_chunk();
  const std::uint64_t size = parameters_.size() * 256;
  writer_.push(std::exchange(parameters_, {}), size);
}

void Session::flush_chunk() {
  ProgramChunk chunk = builder_.take();
  const std::uint64_t size = chunk.nodes.size() * sizeof(Node) +
                             chunk.writes.size() * sizeof(Write) +
                             chunk.stats.size() * sizeof(Stats) + chunk.calls.size() * sizeof(Call);
  writer_.push(std::move(chunk), size);
}

void Session::set_step(std::uint32_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  levels_.clear();
}

std::uint32_t Session::scope(std::string_view path) {
  const std::lock_guard lock(mutex_);
  return builder_.scope(path);
}

std::uint32_t Session::scope_below(std::string_view name) {
  const std::lock_guard lock(mutex_);
  std::string path = builder_.scope_path(scopes::current());
  if (!path.empty()) path += '.';
  return builder_.scope(path.append(name));
}

Summary Session::summary() const {
  const std::lock_guard lock(mutex_);
  Summary summary;
  summary.counters.assign(counters_.begin(), counters_.end());
  summary.calls = calls_;
  summary.duration_ns = now_ns();
  return summary;
}

Status Session::close() {
  {
    const std::lock_guard lock(mutex_);
    if (!parameters_.empty()) flush_parameters();
    flush_chunk();
  }
  const Summary closing = summary();
  GOLDENTRACE_RETURN_IF_ERROR(writer_.close(closing));
  const Counter& errors = counters_[kRecorderErrors];
  if (errors.value > 0) {
    return {Code::kInternal, options_.path +
                                 ": the program is not whole: " + std::to_string(errors.value) +
                                 " fault(s) of the recorder, the first at " + errors.first};
  }
  return {};
}

}  // namespace goldentrace
