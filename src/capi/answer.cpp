#include "src/capi/answer.h"

#include <array>
#include <cstring>

namespace goldentrace::capi {
namespace {

// Fixed memory: telling of a failure must not fail.
thread_local std::array<char, 4096> last_message{};

static_assert(static_cast<int>(Code::kOk) == GOLDENTRACE_OK);
static_assert(static_cast<int>(Code::kInvalidArgument) == GOLDENTRACE_INVALID_ARGUMENT);
static_assert(static_cast<int>(Code::kNotFound) == GOLDENTRACE_NOT_FOUND);
static_assert(static_cast<int>(Code::kIo) == GOLDENTRACE_IO);
static_assert(static_cast<int>(Code::kCorrupt) == GOLDENTRACE_CORRUPT);
static_assert(static_cast<int>(Code::kUnsupported) == GOLDENTRACE_UNSUPPORTED);
static_assert(static_cast<int>(Code::kInternal) == GOLDENTRACE_INTERNAL);

}  // namespace

goldentrace_status answer(Code code, const char* message) noexcept {
  const std::size_t size = strnlen(message, last_message.size() - 1);
  std::memcpy(last_message.data(), message, size);
  last_message[size] = '\0';
  return static_cast<goldentrace_status>(code);
}

}  // namespace goldentrace::capi

extern "C" {

const char* goldentrace_message(void) { return goldentrace::capi::last_message.data(); }

const char* goldentrace_version(void) { return GOLDENTRACE_VERSION; }
}
