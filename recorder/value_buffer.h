// Bytes of a value on their way to the writer thread. Mapped memory that is used again, not the
// allocator's: filled by one thread and freed by another, values of all sizes would tear its heap
// apart, and a recording's peak would grow with its length.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace goldentrace {

class ValueBuffer {
 public:
  ValueBuffer() = default;
  // std::bad_alloc when there is no memory.
  ValueBuffer(std::size_t size, std::size_t capacity) : size_(size), capacity_(capacity) {
    void* const memory =
        ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(memory);
  }
  ValueBuffer(ValueBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ValueBuffer& operator=(ValueBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~ValueBuffer() {
    if (data_ != nullptr) ::munmap(data_, capacity_);
  }

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] bool empty() const { return data_ == nullptr; }
  void resize(std::size_t size) { size_ = size; }  // within the capacity

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// Thread-safe.
class ValueBuffers {
 public:
  [[nodiscard]] ValueBuffer take(std::size_t size) {
    const std::size_t capacity = std::bit_ceil(std::max<std::size_t>(size, kPage));
    {
      const std::lock_guard lock(mutex_);
      const auto spare = std::ranges::find(spares_, capacity, &ValueBuffer::capacity);
      if (spare != spares_.end()) {
        ValueBuffer buffer = std::move(*spare);
        *spare = std::move(spares_.back());
        spares_.pop_back();
        spare_bytes_ -= capacity;
        buffer.resize(size);
        return buffer;
      }
    }
    return {size, capacity};
  }

  void give_back(ValueBuffer buffer) {
    if (buffer.empty()) return;
    const std::lock_guard lock(mutex_);
    if (spare_bytes_ + buffer.capacity() > kMaxSpareBytes || spares_.size() == kMaxSpares) return;
    spare_bytes_ += buffer.capacity();
    spares_.push_back(std::move(buffer));
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kMaxSpareBytes = 16u << 20;
  static constexpr std::size_t kMaxSpares = 64;

  std::mutex mutex_;
  std::vector<ValueBuffer> spares_;
  std::size_t spare_bytes_ = 0;
};

}  // namespace goldentrace
