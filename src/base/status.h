// Status and Result: how every fallible function of goldentrace answers.
// Libraries never print, exit or abort; asserts are for our own bugs, never for bad input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace goldentrace {

enum class Code : std::uint8_t {
  kOk = 0,
  kInvalidArgument,  // the caller asked for something that makes no sense
  kNotFound,         // no such file, tensor, call
  kIo,               // the operating system said no
  kCorrupt,          // bytes that break the format's rules
  kUnsupported,      // well-formed, but newer than this build or not built in
  kInternal,         // a fault of goldentrace itself
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == Code::kOk; }
  [[nodiscard]] Code code() const { return code_; }
  // One line, no final full stop; empty when ok.
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  // Only when ok().
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace goldentrace

// Returns the status of `expression` from the enclosing function unless it is ok.
#define GOLDENTRACE_RETURN_IF_ERROR(expression)                                    \
  do {                                                                             \
    if (::goldentrace::Status macro_status_ = (expression); !macro_status_.ok()) { \
      return macro_status_;                                                        \
    }                                                                              \
  } while (false)
