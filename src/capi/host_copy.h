// A tensor's elements on their way to the writer's thread: in host memory already, or in a copy
// that a device has been asked for and completes when it likes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/capi/arguments.h"
#include "src/digest/digest.h"

namespace goldentrace::capi {

class HostCopy {
 public:
  HostCopy() = default;
  // Waits for a copy that is still under way: its memory is the device's until then.
  ~HostCopy() { release(); }
  HostCopy(HostCopy&& other) noexcept { swap(other); }
  HostCopy& operator=(HostCopy&& other) noexcept {
    swap(other);
    return *this;
  }

  // Copies from host memory, without gaps whatever the strides.
  static Result<HostCopy> of_host(const void* data, const Shape& shape);
  // Enqueues a copy of the memory that the tensor spans, gaps included. kInternal when the device
  // refuses. Never waits for it.
  static Result<HostCopy> of_device(const void* data, const Shape& shape,
                                    const goldentrace_device& device, void* stream);

  // Bytes that of_host or of_device will hold.
  static std::uint64_t bytes_needed(const Shape& shape, bool of_device) {
    return static_cast<std::uint64_t>(of_device ? shape.span_bytes : shape.bytes);
  }

  // Until the elements are there; kInternal when the device failed. Then the elements are good.
  Status wait();
  // Row-major without gaps. Moves them together first where a device copy had gaps.
  std::span<const std::byte> dense(const Shape& shape);

 private:
  void swap(HostCopy& other) noexcept;
  void release() noexcept;
  Status poll() noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool with_gaps_ = false;
  bool pending_ = false;
  void* ticket_ = nullptr;
  goldentrace_device device_{};         // of a device copy
  std::unique_ptr<std::byte[]> owned_;  // what data_ points to, unless device_ allocated it
};

}  // namespace goldentrace::capi
