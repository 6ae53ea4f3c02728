// What a session does before a recorded call: its arguments become nodes, and memory that no
// recorded call wrote becomes an input of the program.
#include <ATen/core/ivalue.h>

#include <bit>
#include <exception>
#include <stdexcept>

#include "recorder/parallel.h"
#include "recorder/scopes.h"
#include "recorder/session.h"
#include "recorder/tensor_facts.h"
#include "src/format/container.h"

namespace goldentrace {
namespace {

// Numbers, positions, indices: storages so small are looked at whole at every read, which catches
// hidden writes and costs next to nothing (XXH3 has a short way up to here).
constexpr std::uint64_t kSmallStorage = 240;

// Of all bytes of a storage in host memory.
std::uint64_t content_hash(const StorageEntry& entry, const c10::StorageImpl* impl) {
  return checksum64({static_cast<const std::byte*>(impl->data()), entry.bytes});
}

// Whether this call takes numbers from a generator.
bool draws(const OpInfo& op, const at::RecordFunction& function) {
  if (!op.random) return false;
  const auto inputs = function.inputs();
  const auto argument = [&](int place) -> const c10::IValue* {
    const auto at = static_cast<std::size_t>(place);
    return place >= 0 && at < inputs.size() ? &inputs[at] : nullptr;
  };
  const c10::IValue* train = argument(op.train);
  if (train != nullptr && train->isBool() && !train->toBool()) return false;
  const c10::IValue* dropout = argument(op.dropout);
  return dropout == nullptr || !dropout->isDouble() || dropout->toDouble() != 0;
}

}  // namespace

// ---- start of a call ----------------------------------------------------------------------------

bool Session::start_call(const at::RecordFunction& function, ThreadState& thread) {
  Frame& frame = thread.frame;
  const std::lock_guard lock(mutex_);
  tensors_.let_go();
  if (thread.session != number_) {
    thread.session = number_;
    thread.number = threads_++;
    thread.ambient_known = false;
    thread.last = {};
  }
  frame.op = ops_.find(function);
  if (frame.op == nullptr || !frame.op->builtin) return false;
  if (options_.fail_at_call != 0 && builder_.next_call() == options_.fail_at_call &&
      counters_[kRecorderErrors].value == 0) {
    throw std::runtime_error("fault forced by fail_at_call");
  }
  frame.scope = scopes::current();
  frame.step = step_;
  frame.level = level_of(frame.scope, *frame.op).level;
  frame.ambient = ambient_id(*frame.op, thread);
  frame.run = thread.ambient_bits.threads > 1 ? run_on_intra_op_pool : nullptr;
  if (draws(*frame.op, function)) frame.flags |= kCallRandom;
  if (!encode_arguments(function, frame)) {
    count(kSkippedNoStorage, 1, frame.op->qualified);
    return false;
  }
  if ((frame.flags & kCallRandom) != 0) count(kRandom, 1, frame.op->qualified);
  capture_overwritten(frame);
  if (searches()) copy_before(frame);
  frame.function = &function;
  frame.exceptions = std::uncaught_exceptions();
  frame.start_ns = now_ns();
  return true;
}

std::vector<Session::DeclaredWrite> Session::declared_writes(const at::RecordFunction& function,
                                                             const OpInfo& op) {
  std::vector<DeclaredWrite> writes;
  const auto inputs = function.inputs();
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (op.role(i) == ArgumentRole::kRead) continue;
    each_tensor(inputs[i], [&](const at::Tensor& tensor) {
      if (!has_memory(tensor)) return;
      c10::StorageImpl* impl = storage_of(tensor);
      writes.push_back({c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl),
                        tensors_.storage(impl).version});
    });
  }
  return writes;
}

void Session::forget_unseen(const std::vector<DeclaredWrite>& writes) {
  const std::lock_guard lock(mutex_);
  for (const DeclaredWrite& write : writes) {
    StorageEntry& entry = tensors_.storage(write.storage.get());
    if (entry.version == write.version) entry.content = Content::kUnknown;
  }
}

std::uint32_t Session::ambient_id(const OpInfo& op, ThreadState& thread) {
  const AmbientBits bits =
      read_ambient(!thread.ambient_known || op.multiplies_matrices, thread.ambient_bits);
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
  if (value.isStorage()) {
    encode_storage_argument(value.toStorage(), frame);
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

// set_ looks into memory as a tensor does.
void Session::encode_storage_argument(const c10::Storage& storage, Frame& frame) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  StorageEntry& entry = tensors_.storage(impl);
  frame.inputs.push_back({impl, &entry, ArgumentRole::kRead, frame.nodes.size(), impl->nbytes()});
  frame.nodes.push_back({NodeKind::kStorage, 0, entry.id});
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
    if (reads) check_watched(entry, impl);
  } else if (role != ArgumentRole::kRead && reads) {
    capture_external(entry, impl, ExternalKind::kFirstRead);
  } else if (role == ArgumentRole::kRead) {
    frame.unknown.push_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl));
  }
  frame.inputs.push_back({impl, &entry, role, frame.nodes.size(), impl->nbytes()});
  frame.nodes.push_back({NodeKind::kTensor, entry.version, tensors_.tensor(entry, tensor)});
  if (role != ArgumentRole::kRead) frame.written.push_back(tensor);
  return true;
}

// ---- external inputs ----------------------------------------------------------------------------

// Whether the storage's bytes are looked at when they are read.
bool Session::watched(const StorageEntry& entry, const c10::StorageImpl* impl) const {
  return entry.bytes > 0 && (options_.check_reads || entry.bytes <= kSmallStorage) &&
         impl->device_type() == c10::DeviceType::CPU && impl->data() != nullptr;
}

void Session::refresh_watched(StorageEntry& entry, const c10::StorageImpl* impl) {
  if (watched(entry, impl)) entry.content_hash = content_hash(entry, impl);
}

void Session::check_watched(StorageEntry& entry, const c10::StorageImpl* impl) {
  if (!watched(entry, impl) || content_hash(entry, impl) == entry.content_hash) return;
  capture_external(entry, const_cast<c10::StorageImpl*>(impl), ExternalKind::kHole);
}

// Stores the storage's bytes as an input of the program, to be put there before the next call.
void Session::capture_external(StorageEntry& entry, c10::StorageImpl* impl, ExternalKind kind) {
  entry.content = Content::kKnown;
  refresh_watched(entry, impl);
  if (entry.bytes == 0) return;
  External external;
  external.call = builder_.next_call();
  external.storage = entry.id;
  external.version = ++entry.version;
  external.kind = kind;
  const at::Tensor whole = whole_storage(impl);
  const bool on_device = device_->handles(whole);
  ValueBuffer bytes;
  if (!on_device) {
    bytes = copy_of(whole);
    external.hash = hash_bytes(bytes.bytes());
  }
  builder_.chunk().externals.push_back(external);
  if (kind == ExternalKind::kHole) {
    count(kHoles, 1,
          "storage " + std::to_string(entry.id) + " before call " + std::to_string(external.call));
  } else {
    count(kExternalInputs);
    count(kExternalBytes, entry.bytes);
  }
  // Of a whole storage no dtype is known; planes of 8 bytes suit numbers of fewer bytes too.
  constexpr std::size_t kItemSize = 8;
  if (on_device) {
    add_pending(device_->launch(whole, {}, /*with_bytes=*/true), /*external=*/true, kItemSize);
  } else {
    keep_value(external.hash, std::move(bytes), kItemSize);
  }
}

// The bytes are put there before this call: what it reads is that version.
void Session::capture_argument(c10::StorageImpl* impl, Frame& frame) {
  StorageEntry& entry = tensors_.storage(impl);
  if (entry.content == Content::kKnown) return;
  capture_external(entry, impl, ExternalKind::kFirstRead);
  renumber_arguments(impl, entry.version, frame);
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

// ---- calls that differ from a golden trace ------------------------------------------------------

void Session::copy_before(Frame& frame) {
  for (const Frame::Input& input : frame.inputs) {
    if (input.role == ArgumentRole::kRead) continue;
    frame.before.emplace_back(input.storage, copy_of(whole_storage(input.storage)));
  }
}

// The call's digests are known, its writes not registered yet.
void Session::keep_if_it_differs(Frame& frame) {
  std::vector<Write> writes;
  for (const Frame::NewBytes& news : frame.news) writes.push_back(news.write);
  const auto answer =
      golden_->compare(builder_.scope_path(frame.scope), frame.op->qualified, writes);
  if (answer == GoldenHashes::Answer::kEqual) return;
  count(kDiffering, 1,
        "call " + std::to_string(builder_.next_call()) + ", " + frame.op->qualified + " in " +
            builder_.scope_path(frame.scope));
  if (differing_left_ == 0) return;
  --differing_left_;
  for (Frame::NewBytes& news : frame.news) {
    if ((news.write.flags & (kWriteHashed | kWriteValue)) != kWriteHashed) continue;
    news.write.flags |= kWriteValue;
    news.value = copy_of(*news.tensor);
  }
  repeat_arguments(frame);
}

// The bytes of its arguments, as inputs of the program that are there before the call. Parameters
// come from the checkpoint.
void Session::repeat_arguments(Frame& frame) {
  constexpr std::size_t kItemSize = 8;
  for (const Frame::Input& input : frame.inputs) {
    StorageEntry& entry = *input.entry;
    if (entry.parameter || entry.content != Content::kKnown || entry.bytes == 0) continue;
    if (entry.repeated == builder_.next_call() + 1) continue;  // another argument of it
    entry.repeated = builder_.next_call() + 1;
    const auto before =
        std::ranges::find(frame.before, input.storage, [](const auto& item) { return item.first; });
    ValueBuffer bytes = before != frame.before.end() ? std::move(before->second)
                                                     : copy_of(whole_storage(input.storage));
    External external;
    external.call = builder_.next_call();
    external.storage = entry.id;
    external.version = ++entry.version;
    external.kind = ExternalKind::kRepeated;
    external.hash = hash_bytes(bytes.bytes());
    builder_.chunk().externals.push_back(external);
    keep_value(external.hash, std::move(bytes), kItemSize);
    renumber_arguments(input.storage, entry.version, frame);
  }
}

void Session::renumber_arguments(const c10::StorageImpl* impl, std::uint32_t version,
                                 Frame& frame) {
  for (const Frame::Input& input : frame.inputs) {
    if (input.storage == impl && frame.nodes[input.node].kind == NodeKind::kTensor) {
      frame.nodes[input.node].version = version;
    }
  }
}

// ---- what a call read ---------------------------------------------------------------------------

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

ValueBuffer Session::copy_of(const at::Tensor& tensor) {
  ValueBuffer buffer = writer_.buffers().take(tensor.nbytes());
  write_dense(view_of(host_tensor(tensor)), buffer.bytes());
  return buffer;
}

// Does nothing when the value is kept already.
void Session::keep_value(const Hash128& hash, ValueBuffer bytes, std::size_t item_size) {
  if (!kept_values_.insert(hash).second) {
    writer_.buffers().give_back(std::move(bytes));
    return;
  }
  const std::uint64_t size = bytes.capacity();
  writer_.push(WriterThread::Value{hash, std::move(bytes), item_size}, size);
}

}  // namespace goldentrace
