// A file that is there whole or not at all: it is written under another name beside its own and
// renamed at the end. What is no regular file (a pipe, /dev/null) is written as it is.
#pragma once

#include <memory>
#include <string>

#include "src/base/io.h"

namespace goldentrace {

class OutputFile {
 public:
  // kInvalidArgument when `path` is the file `input`.
  static Result<OutputFile> create(const std::string& path, const std::string& input);
  // Without commit(), removes what was written.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  ByteSink& sink() { return *sink_; }
  // For someone who writes and closes it; commit() is still to be called.
  std::unique_ptr<ByteSink> take_sink() { return std::move(sink_); }
  // Closes what is not taken and puts the file in its place.
  Status commit();

 private:
  OutputFile(std::string path, std::string partial, std::unique_ptr<ByteSink> sink)
      : path_(std::move(path)), partial_(std::move(partial)), sink_(std::move(sink)) {}

  std::string path_;
  std::string partial_;  // "" when there is none (any more)
  std::unique_ptr<ByteSink> sink_;
};

}  // namespace goldentrace
