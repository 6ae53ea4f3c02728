#include "src/base/io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace goldentrace {
namespace {

Status out_of_range(const std::string& name, std::uint64_t offset, std::uint64_t wanted,
                    std::uint64_t size) {
  const std::uint64_t available = offset < size ? size - offset : 0;
  return {Code::kCorrupt, name + ": at offset " + std::to_string(offset) + ": wanted " +
                              std::to_string(wanted) + " bytes, only " + std::to_string(available) +
                              " left (truncated?)"};
}

Status system_error(const std::string& name, const char* action, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
  return {code, name + ": can't " + action + ": " + std::strerror(error)};
}

class FileSource final : public ByteSource {
 public:
  FileSource(std::string name, int fd, std::uint64_t size)
      : name_(std::move(name)), fd_(fd), size_(size) {}
  ~FileSource() override {
    if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
    ::close(fd_);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  std::uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }

  std::span<std::byte> map() const override {
    if (mapped_.empty() && size_ > 0) {
      void* const at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd_, 0);
      if (at != MAP_FAILED) mapped_ = {static_cast<std::byte*>(at), size_};
    }
    return mapped_;
  }

  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size_ || out.size() > size_ - offset) {
      return out_of_range(name_, offset, out.size(), size_);
    }
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error(name_, "read", errno);
      if (got == 0) return out_of_range(name_, offset, out.size(), offset + done);
      done += static_cast<std::size_t>(got);
    }
    return {};
  }

 private:
  std::string name_;
  int fd_;
  std::uint64_t size_;
  mutable std::span<std::byte> mapped_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::vector<std::byte> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}

  std::uint64_t size() const override { return bytes_.size(); }
  const std::string& name() const override { return name_; }

  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return out_of_range(name_, offset, out.size(), bytes_.size());
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  std::string name_;
  std::vector<std::byte> bytes_;
};

class FileSink final : public ByteSink {
 public:
  FileSink(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}
  ~FileSink() override {
    if (fd_ >= 0) ::close(fd_);
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  const std::string& name() const override { return name_; }

  Status write(std::span<const std::byte> bytes) override {
    if (!status_.ok()) return status_;
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t put = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        status_ = system_error(name_, "write", errno);
        return status_;
      }
      done += static_cast<std::size_t>(put);
    }
    return {};
  }

  Status close() override {
    if (fd_ < 0) return status_;
    // A file that is called whole survives a power cut. Pipes and devices have nothing to flush.
    if (status_.ok() && ::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) {
      status_ = system_error(name_, "write", errno);
    }
    if (::close(std::exchange(fd_, -1)) != 0 && status_.ok()) {
      status_ = system_error(name_, "close", errno);
    }
    return status_;
  }

 private:
  std::string name_;
  int fd_;
  Status status_;
};

class MemorySink final : public ByteSink {
 public:
  explicit MemorySink(std::vector<std::byte>* target) : target_(target) {}
  const std::string& name() const override { return name_; }
  Status write(std::span<const std::byte> bytes) override {
    target_->insert(target_->end(), bytes.begin(), bytes.end());
    return {};
  }
  Status close() override { return {}; }

 private:
  std::string name_ = "memory";
  std::vector<std::byte>* target_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file(const std::string& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, "open", errno);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return Status(Code::kIo, path + ": is not a regular file");
  }
  return {std::make_unique<FileSource>(path, fd, static_cast<std::uint64_t>(info.st_size))};
}

std::unique_ptr<ByteSource> open_memory(std::string name, std::vector<std::byte> bytes) {
  return std::make_unique<MemorySource>(std::move(name), std::move(bytes));
}

Result<std::unique_ptr<ByteSink>> create_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return system_error(path, "create", errno);
  return {std::make_unique<FileSink>(path, fd)};
}

std::unique_ptr<ByteSink> write_memory(std::vector<std::byte>* target) {
  return std::make_unique<MemorySink>(target);
}

Result<std::string> read_text_file(const std::string& path, std::uint64_t limit) {
  auto source = open_file(path);
  if (!source.ok()) return source.status();
  const std::uint64_t size = (*source)->size();
  if (size > limit) {
    return Status(Code::kCorrupt, path + ": " + std::to_string(size) + " bytes, more than the " +
                                      std::to_string(limit) + " allowed here");
  }
  std::string text(size, '\0');
  GOLDENTRACE_RETURN_IF_ERROR((*source)->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace goldentrace
