#include "recorder/writer_thread.h"

#include <exception>
#include <string>
#include <utility>

namespace goldentrace {
namespace {

constexpr std::uint64_t kMaxQueuedBytes = 256u << 20;

struct WriteItem {
  TraceWriter& writer;
  Status operator()(const ProgramChunk& chunk) const { return writer.write_program(chunk); }
  Status operator()(const WriterThread::Value& value) const {
    return writer.write_value(value.hash, value.bytes, value.item_size);
  }
  Status operator()(const std::vector<Parameter>& parameters) const {
    return writer.write_parameters(parameters);
  }
  Status operator()(const Text& text) const { return writer.write_text(text); }
};

}  // namespace

WriterThread::WriterThread(std::unique_ptr<TraceWriter> writer)
    : writer_(std::move(writer)), thread_([this] { run(); }) {}

WriterThread::~WriterThread() { drain_and_join(); }

void WriterThread::push(Item item, std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  // One item larger than the bound still passes, alone.
  changed_.wait(lock, [&] { return queue_.empty() || queued_bytes_ + bytes <= kMaxQueuedBytes; });
  queued_bytes_ += bytes;
  queue_.emplace_back(std::move(item), bytes);
  changed_.notify_all();
}

void WriterThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto [item, bytes] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    // The writer latches its first error; close() returns it.
    Status status;
    try {
      status = std::visit(WriteItem{*writer_}, item);
    } catch (const std::exception& error) {
      status = {Code::kInternal, std::string("the writer failed: ") + error.what()};
    }
    lock.lock();
    if (status_.ok()) status_ = status;
    queued_bytes_ -= bytes;
    changed_.notify_all();
  }
}

void WriterThread::drain_and_join() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status WriterThread::close(const Summary& summary) {
  drain_and_join();
  GOLDENTRACE_RETURN_IF_ERROR(status_);
  return writer_->close(summary);
}

}  // namespace goldentrace
