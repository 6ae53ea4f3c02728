// What a session does after a recorded call: what it brought into being is digested, and the call
// is appended to the program.
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "recorder/session.h"
#include "recorder/tensor_facts.h"

namespace goldentrace {
namespace {

// All results are tensors without memory: a factory on the meta device, or of fake tensors.
bool lives_elsewhere(const std::vector<c10::IValue>& outputs, const Frame& frame) {
  return !frame.results.empty() &&
         std::ranges::none_of(frame.results, &Frame::Result::has_memory) &&
         std::ranges::all_of(outputs, [](const c10::IValue& output) {
           bool tensors = false;
           each_tensor(output, [&](const at::Tensor&) { tensors = true; });
           return tensors;
         });
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
  find_results(outputs, frame);
  if (!failed && lives_elsewhere(outputs, frame)) {
    const std::lock_guard lock(mutex_);
    count(kSkippedNoStorage, 1, frame.op->qualified);
    return;
  }

  // What is new is decided by storage: a result whose memory no argument had, and arguments that
  // the call wrote into. Views bring no bytes.
  for (const Frame::Result& result : frame.results) find_new_bytes(result, frame);
  for (const at::Tensor& written : frame.written) {
    add_new_bytes(written, storage_of(written), /*fresh=*/false, frame);
  }
  digest_new_bytes(frame);

  const std::lock_guard lock(mutex_);
  // Not after the last call that fits: what a module hands back is marked when the module is left.
  if (!parameters_.empty()) flush_parameters();
  if (is_time_to_flush()) flush_chunk();
  if (failed) {
    forget_written(frame);
  } else {
    capture_read(outputs, frame);
  }
  if (golden_ != nullptr && !failed) keep_if_it_differs(frame);
  register_writes(frame);
  const std::size_t arguments_end = frame.nodes.size();
  std::size_t next = 0;
  for (const c10::IValue& output : outputs) encode_result(output, next, frame);

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
      chunk.stats.push_back(news.digest.stats);
    }
    if ((news.write.flags & kWriteSketch) != 0) {
      news.write.sketch_index = static_cast<std::uint32_t>(chunk.sketches.size());
      chunk.sketches.push_back(news.digest.sketch);
    }
    chunk.writes.push_back(news.write);
    if (news.work != nullptr) {
      add_pending(std::move(news.work), /*external=*/false, news.tensor->element_size());
    } else if ((news.write.flags & kWriteValue) != 0) {
      keep_value(news.write.hash, std::move(news.value), news.tensor->element_size());
    }
  }
  if (keeps_cuts()) note_last(frame, thread, call.first_write);
  chunk.calls.push_back(call);
  chunk.timings.push_back({thread.number, frame.start_ns, end_ns - frame.start_ns});
  ++calls_;
  if ((frame.flags & kCallFailed) != 0) count(kFailed, 1, frame.op->qualified);
}

void Session::find_results(const std::vector<c10::IValue>& outputs, Frame& frame) {
  for (const c10::IValue& output : outputs) {
    each_tensor(output, [&](const at::Tensor& tensor) {
      const bool memory = has_memory(tensor);
      frame.results.push_back(
          {&tensor, memory && has_known_dtype(tensor) ? storage_of(tensor) : nullptr, memory});
    });
  }
}

void Session::find_new_bytes(const Frame::Result& result, Frame& frame) {
  if (result.storage == nullptr) return;
  for (const Frame::Input& input : frame.inputs) {
    if (input.storage != result.storage) continue;
    if (input.role != ArgumentRole::kRead) {
      add_new_bytes(*result.tensor, result.storage, /*fresh=*/false, frame);
    } else if (input.bytes != result.storage->nbytes()) {  // resize_
      add_new_bytes(*result.tensor, result.storage, /*fresh=*/true, frame);
    }
    return;
  }
  add_new_bytes(*result.tensor, result.storage, /*fresh=*/true, frame);
}

void Session::add_new_bytes(const at::Tensor& tensor, c10::StorageImpl* storage, bool fresh,
                            Frame& frame) {
  for (const Frame::NewBytes& known : frame.news) {
    // One storage may be written through several views; the same view twice is one write.
    if (known.storage == storage && known.tensor->sizes() == tensor.sizes() &&
        known.tensor->strides() == tensor.strides() &&
        known.tensor->storage_offset() == tensor.storage_offset() &&
        known.tensor->scalar_type() == tensor.scalar_type()) {
      return;
    }
  }
  Frame::NewBytes& news = frame.news.emplace_back();
  news.tensor = &tensor;
  news.storage = storage;
  news.fresh = fresh;
}

void Session::digest_new_bytes(Frame& frame) {
  for (Frame::NewBytes& news : frame.news) {
    if (frame.op->undefined_results && news.fresh) {
      news.write.flags = kWriteUndefined;
    } else {
      digest(news, frame.level, frame);
    }
  }
}

void Session::digest(Frame::NewBytes& news, DigestLevel level, const Frame& frame) {
  const auto dtype = static_cast<DType>(news.tensor->scalar_type());
  // Control is kept by value, whatever else is: re-execution takes it from here.
  const bool decision = is_integral(dtype) && frame.float_input;
  const bool random = (frame.flags & kCallRandom) != 0;
  const bool value = decision || random || level == DigestLevel::kValues;
  const bool real = is_real_float(dtype);
  const bool stats = real && level >= DigestLevel::kStats;
  const bool sketch = real && level == DigestLevel::kSketch;
  if (level == DigestLevel::kNone && !value) return;
  news.write.flags = static_cast<std::uint8_t>(
      kWriteHashed | (stats ? kWriteStats : 0) | (sketch ? kWriteSketch : 0) |
      (decision ? kWriteDecision : 0) | (value ? kWriteValue : 0));
  DigestOptions options{.stats = stats, .sketch = sketch};
  const bool waits = golden_ != nullptr || keeps_cuts();  // for the hash
  if (!waits && device_->handles(*news.tensor)) {
    news.work = device_->launch(*news.tensor, options, value);
    return;
  }
  const at::Tensor host = host_tensor(*news.tensor);
  const TensorView view = view_of(host);
  options.run = frame.run;
  news.digest = digest_tensor(view, options);
  news.write.hash = news.digest.hash;
  if (!value) return;
  {
    const std::lock_guard lock(mutex_);
    if (kept_values_.contains(news.write.hash)) return;
  }
  news.value = copy_of(host);
}

void Session::note_last(const Frame& frame, ThreadState& thread, std::uint32_t first_write) {
  for (std::size_t i = frame.news.size(); i-- > 0;) {
    const Frame::NewBytes& news = frame.news[i];
    if ((news.write.flags & kWriteHashed) == 0 || !news.tensor->is_floating_point()) continue;
    thread.last = {*news.tensor, builder_.chunk().base.calls,
                   first_write + static_cast<std::uint32_t>(i), news.write.hash};
    return;
  }
}

void Session::keep_cut(ThreadState& thread) noexcept {
  if (!thread.last.tensor.defined()) return;
  try {
    const ThreadState::Last last = std::exchange(thread.last, {});
    if (thread.session != number_) return;  // of an earlier recording
    ValueBuffer bytes = copy_of(last.tensor);
    const std::lock_guard lock(mutex_);
    ProgramChunk& chunk = builder_.chunk();
    // Another thread's calls may have filled the chunk; readers find the value by its hash.
    if (chunk.base.calls == last.chunk) chunk.writes[last.write].flags |= kWriteValue;
    keep_value(last.hash, std::move(bytes), last.tensor.element_size());
  } catch (const std::exception& error) {
    fault(error.what());
  }
}

// Of the last write or external input of the chunk.
void Session::add_pending(std::unique_ptr<DeviceWork> work, bool external, std::size_t item_size) {
  const ProgramChunk& chunk = builder_.chunk();
  const std::size_t place = (external ? chunk.externals.size() : chunk.writes.size()) - 1;
  pending_bytes_ += work->held_bytes();
  pending_.push_back({std::move(work), external, static_cast<std::uint32_t>(place), item_size});
}

// Ids and write counters of the new bytes.
void Session::register_writes(Frame& frame) {
  for (Frame::NewBytes& news : frame.news) {
    StorageEntry& entry = tensors_.storage(news.storage);
    const bool undefined = (news.write.flags & kWriteUndefined) != 0;
    if (undefined) {
      entry.content = Content::kUndefined;
    } else {
      entry.content = Content::kKnown;
      refresh_watched(entry, news.storage);
    }
    entry.parameter = false;
    news.write.tensor = tensors_.tensor(entry, *news.tensor);
    news.write.version = ++entry.version;
  }
}

// `next` is the place of its first tensor among the results.
void Session::encode_result(const c10::IValue& value, std::size_t& next, Frame& frame) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    c10::StorageImpl* const storage = tensor.defined() ? frame.results[next++].storage : nullptr;
    if (!tensor.defined()) {
      frame.nodes.push_back({NodeKind::kUndefinedTensor, 0, 0});
    } else if (storage == nullptr) {
      frame.nodes.push_back({NodeKind::kUnstorable, 0,
                             builder_.string("tensor of a kind that has no "
                                             "place in the format")});
    } else {
      StorageEntry& entry = tensors_.storage(storage);
      frame.nodes.push_back({NodeKind::kTensor, entry.version, tensors_.tensor(entry, tensor)});
    }
    return;
  }
  if (value.isList()) {
    const auto items = value.toListRef();
    frame.nodes.push_back({NodeKind::kList, 0, static_cast<std::int64_t>(items.size())});
    for (const c10::IValue& item : items) encode_result(item, next, frame);
    return;
  }
  if (!encode_plain(value, frame)) {
    frame.nodes.push_back({NodeKind::kUnstorable, 0, builder_.string(value.tagKind())});
  }
}

}  // namespace goldentrace
