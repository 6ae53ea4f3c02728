#include "src/capi/host_copy.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace goldentrace::capi {
namespace {

TensorView view_of(const std::byte* first, const Shape& shape) {
  return {first, shape.dtype, shape.sizes, shape.strides};
}

bool has_gaps(const Shape& shape) { return !is_dense(view_of(nullptr, shape)); }

// From the element that lies first in memory to the one at index 0, 0, ...
std::int64_t offset_bytes(const Shape& shape) {
  return -shape.lowest * static_cast<std::int64_t>(item_size(shape.dtype));
}

}  // namespace

Result<HostCopy> HostCopy::of_host(const void* data, const Shape& shape) {
  HostCopy copy;
  copy.size_ = static_cast<std::size_t>(shape.bytes);
  copy.owned_ = std::make_unique_for_overwrite<std::byte[]>(copy.size_);
  copy.data_ = copy.owned_.get();
  if (copy.size_ == 0) return copy;
  if (data == nullptr) return invalid("data is NULL");
  const auto* first = static_cast<const std::byte*>(data);
  if (has_gaps(shape)) {
    write_dense(view_of(first, shape), {copy.data_, copy.size_});
  } else {
    std::memcpy(copy.data_, first, copy.size_);
  }
  return copy;
}

Result<HostCopy> HostCopy::of_device(const void* data, const Shape& shape,
                                     const goldentrace_device& device, void* stream) {
  if (shape.span_bytes == 0) return of_host(data, shape);
  if (data == nullptr) return invalid("data is NULL");
  HostCopy copy;
  copy.size_ = static_cast<std::size_t>(shape.span_bytes);
  copy.with_gaps_ = has_gaps(shape);
  copy.device_ = device;
  if (device.allocate != nullptr) {
    copy.data_ = static_cast<std::byte*>(device.allocate(device.context, copy.size_));
    if (copy.data_ == nullptr) {
      return Status(Code::kInternal, "the device has no host memory for a copy of " +
                                         std::to_string(copy.size_) + " bytes");
    }
  } else {
    copy.owned_ = std::make_unique_for_overwrite<std::byte[]>(copy.size_);
    copy.data_ = copy.owned_.get();
  }
  const auto* source = static_cast<const std::byte*>(data) - offset_bytes(shape);
  const int answer =
      device.copy(device.context, copy.data_, source, copy.size_, stream, &copy.ticket_);
  if (answer != 0) {
    return Status(Code::kInternal,
                  "the device refused a copy, with the number " + std::to_string(answer));
  }
  copy.pending_ = true;
  return copy;
}

Status HostCopy::poll() noexcept {
  using std::chrono::microseconds;
  auto pause = microseconds(10);
  while (true) {
    const int answer = device_.done(device_.context, ticket_);
    if (answer != 0) {
      pending_ = false;
      return answer > 0 ? Status() : Status(Code::kInternal, "a device copy failed");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, microseconds(1000));
  }
}

Status HostCopy::wait() { return pending_ ? poll() : Status(); }

std::span<const std::byte> HostCopy::dense(const Shape& shape) {
  if (!with_gaps_) return {data_, size_};
  auto moved = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(shape.bytes));
  write_dense(view_of(data_ + offset_bytes(shape), shape),
              {moved.get(), static_cast<std::size_t>(shape.bytes)});
  release();
  owned_ = std::move(moved);
  data_ = owned_.get();
  size_ = static_cast<std::size_t>(shape.bytes);
  with_gaps_ = false;
  return {data_, size_};
}

void HostCopy::release() noexcept {
  if (pending_) (void)poll();
  if (data_ != nullptr && owned_ == nullptr) device_.release(device_.context, data_);
  owned_.reset();
  data_ = nullptr;
}

void HostCopy::swap(HostCopy& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(with_gaps_, other.with_gaps_);
  std::swap(pending_, other.pending_);
  std::swap(ticket_, other.ticket_);
  std::swap(device_, other.device_);
  std::swap(owned_, other.owned_);
}

}  // namespace goldentrace::capi
