// The floor of any recorder: PyTorch's own callback, given inputs and outputs, that does nothing.
#include <ATen/record_function.h>

namespace {
at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
}

extern "C" __attribute__((visibility("default"))) void start_empty_callback() {
  handle = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; })
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

extern "C" __attribute__((visibility("default"))) void stop_empty_callback() {
  at::removeCallback(handle);
}
