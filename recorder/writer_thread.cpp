#include "recorder/writer_thread.h"

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
    : writer_(std::move(writer)), queue_(kMaxQueuedBytes, [this](const Item& item) {
        return std::visit(WriteItem{*writer_}, item);
      }) {}

void WriterThread::push(Item item, std::uint64_t bytes) {
  queue_.admit(bytes);
  (void)queue_.push(std::move(item), bytes);
}

Status WriterThread::close(const Summary& summary) {
  GOLDENTRACE_RETURN_IF_ERROR(queue_.finish());
  return writer_->close(summary);
}

}  // namespace goldentrace
