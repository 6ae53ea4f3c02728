#include "replayer/execute/device.h"

#include <ATen/Context.h>
#include <dlfcn.h>

namespace goldentrace {

Result<c10::Device> open_device(const std::string& name) {
  if (name == "cpu") return c10::Device(c10::DeviceType::CPU);
  // One build serves machines with and without: what is linked knows the CPU only.
  if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return Status(Code::kUnsupported, "--device cuda: this LibTorch has no CUDA kernels");
  }
  if (!at::globalContext().hasCUDA()) {
    return Status(Code::kUnsupported, "--device cuda: this machine has no CUDA device");
  }
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return c10::Device(c10::DeviceType::CUDA, 0);
}

}  // namespace goldentrace
