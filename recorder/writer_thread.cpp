#include "recorder/writer_thread.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace goldentrace {
namespace {

constexpr std::size_t kMaxSpares = 4;

}  // namespace

WriterThread::WriterThread(std::unique_ptr<TraceWriter> writer)
    : writer_(std::move(writer)), thread_([this] { run(); }) {}

WriterThread::~WriterThread() {
  if (!thread_.joinable()) return;
  queue_.end();
  thread_.join();
}

void WriterThread::run() {
  while (Item* item = queue_.take()) {
    Status status = write(*item);
    if (status_.ok()) status_ = std::move(status);
    if (auto* program = std::get_if<Program>(item)) give_back(std::move(program->chunk));
    if (auto* value = std::get_if<Value>(item)) buffers_.give_back(std::move(value->bytes));
    *item = {};
    queue_.finish();
  }
}

Status WriterThread::write(Item& item) {
  try {
    if (auto* program = std::get_if<Program>(&item)) return write(*program);
    if (const auto* value = std::get_if<Value>(&item)) {
      return writer_->write_value(value->hash, value->bytes.bytes(), value->item_size);
    }
    if (const auto* parameters = std::get_if<std::vector<Parameter>>(&item)) {
      return writer_->write_parameters(*parameters);
    }
    return writer_->write_text(std::get<Text>(item));
  } catch (const std::bad_alloc&) {
    return {Code::kInternal, "out of memory"};  // short enough to need none
  } catch (const std::exception& error) {
    return {Code::kInternal, std::string("the writer failed: ") + error.what()};
  }
}

Status WriterThread::write(Program& program) {
  for (PendingDigest& pending : program.pending) {
    const Hash128 hash = pending.fill_in(*program.chunk);
    if (!pending.keeps_value(*program.chunk)) continue;
    GOLDENTRACE_RETURN_IF_ERROR(
        writer_->write_value(hash, pending.work->bytes(), pending.item_size));
  }
  return writer_->write_program(*program.chunk);
}

void WriterThread::give_back(std::unique_ptr<ProgramChunk> chunk) {
  const std::lock_guard lock(spares_mutex_);
  if (spares_.size() < kMaxSpares) spares_.push_back(std::move(chunk));
}

std::unique_ptr<ProgramChunk> WriterThread::spare() {
  const std::lock_guard lock(spares_mutex_);
  if (spares_.empty()) return std::make_unique<ProgramChunk>();
  auto chunk = std::move(spares_.back());
  spares_.pop_back();
  return chunk;
}

Status WriterThread::close(const Summary& summary) {
  queue_.end();
  thread_.join();
  GOLDENTRACE_RETURN_IF_ERROR(status_);
  return writer_->close(summary);
}

}  // namespace goldentrace
