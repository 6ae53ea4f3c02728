// How the C interface answers: no exception passes, and every failure leaves a message for its
// thread.
#pragma once

#include <exception>
#include <new>

#include "src/base/status.h"
#include "src/capi/goldentrace.h"

namespace goldentrace::capi {

// Keeps `message` (cut where it is very long) for goldentrace_message() on this thread.
goldentrace_status answer(Code code, const char* message) noexcept;
inline goldentrace_status answer(const Status& status) noexcept {
  return answer(status.code(), status.message().c_str());
}

// Runs `body`, which returns a Status.
template <typename Body>
goldentrace_status guarded(Body body) noexcept {
  try {
    return answer(body());
  } catch (const std::bad_alloc&) {
    return answer(Code::kInternal, "out of memory");
  } catch (const std::exception& error) {
    return answer(Code::kInternal, error.what());
  } catch (...) {
    return answer(Code::kInternal, "an unknown exception");
  }
}

inline Status invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

}  // namespace goldentrace::capi
