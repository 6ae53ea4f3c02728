// Bytes in and out. Traces are read at offsets and written in order; tests do both in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace goldentrace {

// Random access to bytes that do not change while they are read.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Fills `out` from `offset` or fails; a read past the end is kCorrupt with offset, wanted,
  // available.
  virtual Status read(std::uint64_t offset, std::span<std::byte> out) const = 0;
  // What to call it in messages.
  [[nodiscard]] virtual const std::string& name() const = 0;
  // All bytes in memory, for as long as this lives; empty where that can't be had. They are paged
  // in when they are looked at. What is written there stays in this process.
  [[nodiscard]] virtual std::span<std::byte> map() const { return {}; }
};

// kNotFound when there is no such file, kIo when it is no regular file or can't be opened.
Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);
std::unique_ptr<ByteSource> open_memory(std::string name, std::vector<std::byte> bytes);

// Append-only. The first error latches: later writes do nothing and close() reports it.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
  virtual Status close() = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;
};

Result<std::unique_ptr<ByteSink>> create_file(const std::string& path);
// Appends to `*target`, which must outlive the sink.
std::unique_ptr<ByteSink> write_memory(std::vector<std::byte>* target);

// Whole file as text; for small files such as config.json. kCorrupt over `limit` bytes.
Result<std::string> read_text_file(const std::string& path, std::uint64_t limit);

}  // namespace goldentrace
