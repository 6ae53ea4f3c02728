// What a session does after a recorded call: what it brought into being is digested, and the call
// is appended to the program.
#include <ATen/core/ivalue.h>

#include <exception>
#include <utility>

#include "recorder/session.h"
#include "recorder/tensor_facts.h"

namespace goldentrace {
namespace {

constexpr std::uint64_t kSweepEvery = 4096;  // calls

// All results are tensors without memory: a factory on the meta device, or of fake tensors.
bool lives_elsewhere(const std::vector<c10::IValue>& outputs) {
  bool elsewhere = !outputs.empty();
  for (const c10::IValue& output : outputs) {
    bool tensors = false;
    each_tensor(output, [&](const at::Tensor& tensor) {
      tensors = true;
      elsewhere &= !has_memory(tensor);
    });
    elsewhere &= tensors;
  }
  return elsewhere;
}

}  // namespace

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

  if (!failed && lives_elsewhere(outputs)) {
    const std::lock_guard lock(mutex_);
    count(kSkippedNoStorage, 1, frame.op->qualified);
    return;
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
    if ((news.write.flags & kWriteValue) != 0) {
      keep_value(news.write.hash, std::move(news.value), news.tensor.element_size());
    }
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
      refresh_watched(entry, impl);
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

}  // namespace goldentrace
