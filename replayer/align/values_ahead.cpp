#include "replayer/align/values_ahead.h"

#include <utility>

namespace goldentrace {
namespace {

// Bytes that are read before they are got; one value is, whatever its size.
constexpr std::uint64_t kAhead = 64u << 20;
// Memory of so many values of at least so many bytes is used again.
constexpr std::size_t kSpare = 8;
constexpr std::uint64_t kLarge = 64u << 10;

}  // namespace

Result<std::unique_ptr<ValuesAhead>> ValuesAhead::open(const std::string& path) {
  auto trace = TraceReader::open(path);
  if (!trace.ok()) return trace.status();
  return std::unique_ptr<ValuesAhead>(new ValuesAhead(std::move(*trace)));
}

ValuesAhead::ValuesAhead(std::unique_ptr<TraceReader> trace) : trace_(std::move(trace)) {
  thread_ = std::thread([this] { read_all(); });
}

ValuesAhead::~ValuesAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uint64_t ValuesAhead::ask(const Hash128& hash) {
  const std::lock_guard lock(mutex_);
  asked_.push_back(hash);
  changed_.notify_all();
  return next_++;
}

Result<std::span<const std::byte>> ValuesAhead::get(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  wanted_ = number;
  changed_.notify_all();
  while (ready_.empty() || ready_.front().number != number) {
    if (ready_.empty()) {
      changed_.wait(lock);
      continue;
    }
    current_ = take_first();
  }
  spare(std::move(current_.bytes));
  current_ = take_first();
  changed_.notify_all();
  if (!current_.status.ok()) return current_.status;
  return std::span<const std::byte>(current_.bytes);
}

ValuesAhead::Value ValuesAhead::take_first() {
  Value value = std::move(ready_.front());
  ready_.pop_front();
  ready_bytes_ -= value.bytes.capacity();
  return value;
}

void ValuesAhead::spare(Bytes&& bytes) {
  if (bytes.capacity() >= kLarge && spare_.size() < kSpare) spare_.push_back(std::move(bytes));
}

void ValuesAhead::read_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] {
      return stop_ || (!asked_.empty() && (ready_.empty() || ready_bytes_ < kAhead));
    });
    if (stop_) return;
    Value value;
    value.number = next_ - asked_.size();
    const Hash128 hash = asked_.front();
    asked_.pop_front();
    if (value.number < wanted_) continue;
    if (!spare_.empty() && trace_->value_size(hash).value_or(0) >= kLarge) {
      value.bytes = std::move(spare_.back());
      spare_.pop_back();
    }
    lock.unlock();
    read(hash, value);
    lock.lock();
    ready_bytes_ += value.bytes.capacity();
    ready_.push_back(std::move(value));
    changed_.notify_all();
  }
}

void ValuesAhead::read(const Hash128& hash, Value& value) const {
  const auto size = trace_->value_size(hash);
  value.bytes.resize(size.value_or(0));
  value.status = size ? trace_->read_value(hash, value.bytes)
                      : Status(Code::kNotFound, trace_->name() + ": a value is missing");
}

}  // namespace goldentrace
