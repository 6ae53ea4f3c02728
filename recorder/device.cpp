#include "recorder/device.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "recorder/tensor_facts.h"
#ifdef GOLDENTRACE_CUDA
#include "recorder/cuda_digest.h"
#endif

namespace goldentrace {
namespace {

// A copy in pinned memory. Knows no kind of device: ATen and c10 ask the one that is there.
class Copy : public DeviceWork {
 public:
  Copy(const at::Tensor& tensor, const DigestOptions& options)
      : options_(options), event_(tensor.device().type()) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
    host_.copy_(tensor, /*non_blocking=*/true);
    event_.record(c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
  }

  bool done() override { return event_.query(); }
  Digest digest() override { return digest_tensor(view_of(host_), options_); }
  std::vector<std::byte> bytes() override { return dense_bytes(view_of(host_)); }
  std::uint64_t held_bytes() const override { return host_.nbytes(); }

 private:
  const DigestOptions options_;
  at::Tensor host_;
  c10::Event event_;
};

class Digester : public DeviceDigester {
 public:
  bool handles(const at::Tensor& tensor) const override { return !tensor.is_cpu(); }
  std::unique_ptr<DeviceWork> launch(const at::Tensor& tensor, const DigestOptions& options,
                                     bool with_bytes) override {
#ifdef GOLDENTRACE_CUDA
    if (tensor.is_cuda() && !with_bytes) {
      if (auto work = launch_cuda_digest(tensor, options)) return work;
    }
#endif
    (void)with_bytes;  // a copy has them anyway
    return std::make_unique<Copy>(tensor, options);
  }
};

}  // namespace

std::unique_ptr<DeviceDigester> make_device_digester() { return std::make_unique<Digester>(); }

}  // namespace goldentrace
