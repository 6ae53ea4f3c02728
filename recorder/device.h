// Digests of tensors in a device's memory. Nothing here waits on the thread that runs the model:
// work is put on the tensor's own stream, where whatever comes later in the program comes later
// too, and the writer thread asks whether it is done.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/digest/digest.h"

namespace goldentrace {

// One tensor's digest on its way. Owns what it needs: the tensor may be gone or overwritten.
class DeviceWork {
 public:
  virtual ~DeviceWork() = default;
  // Never waits.
  [[nodiscard]] virtual bool done() = 0;
  // Once it is done.
  [[nodiscard]] virtual Digest digest() = 0;
  // The dense bytes, where they were asked for; once it is done.
  [[nodiscard]] virtual std::vector<std::byte> bytes() = 0;
  // Of host memory that it holds.
  [[nodiscard]] virtual std::uint64_t held_bytes() const = 0;
};

class DeviceDigester {
 public:
  virtual ~DeviceDigester() = default;
  // Whether the tensor's bytes have to be asked for that way.
  [[nodiscard]] virtual bool handles(const at::Tensor& tensor) const = 0;
  // Digests what `tensor` holds at this point of its stream. `options.run` is not used.
  [[nodiscard]] virtual std::unique_ptr<DeviceWork> launch(const at::Tensor& tensor,
                                                           const DigestOptions& options,
                                                           bool with_bytes) = 0;
};

// Of this build: the kernel where it was built for CUDA and the tensor is there; else a copy to
// pinned memory, which is digested by the writer thread.
std::unique_ptr<DeviceDigester> make_device_digester();

}  // namespace goldentrace
