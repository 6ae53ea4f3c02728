#include "recorder/cuda_digest.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "recorder/tensor_facts.h"
#include "src/digest/cuda/digest_kernel.h"

namespace goldentrace {
namespace {

// Only what is small comes to the host: a 512th of the tensor's bytes, and stats and sketch.
class KernelWork : public DeviceWork {
 public:
  KernelWork(DType dtype, std::size_t count, const DigestOptions& options, at::Tensor result,
             c10::Event event)
      : dtype_(dtype),
        count_(count),
        options_(options),
        result_(std::move(result)),
        event_(std::move(event)) {}

  bool done() override { return event_.query(); }
  Digest digest() override {
    Digest digest = finish_digest(result_.const_data_ptr(), dtype_, count_);
    if (!options_.stats) digest.stats = {};
    return digest;
  }
  std::vector<std::byte> bytes() override { return {}; }
  std::uint64_t held_bytes() const override { return result_.nbytes(); }

 private:
  const DType dtype_;
  const std::size_t count_;
  const DigestOptions options_;
  at::Tensor result_;  // pinned
  c10::Event event_;
};

}  // namespace

std::unique_ptr<DeviceWork> launch_cuda_digest(const at::Tensor& tensor,
                                               const DigestOptions& options) {
  const auto layout = gather_layout(view_of(tensor));
  if (!layout) return nullptr;
  const auto dtype = static_cast<DType>(tensor.scalar_type());
  const auto count = static_cast<std::size_t>(tensor.numel());
  const at::AutoDispatchBelowADInplaceOrView guard;
  const c10::impl::VirtualGuardImpl device(tensor.device().type());
  const c10::DeviceGuard on_device(tensor.device());
  const auto bytes = at::TensorOptions().dtype(at::kByte);
  // The device's allocator hands the scratch to nobody before the stream is past the kernels.
  const at::Tensor scratch =
      at::empty({static_cast<std::int64_t>(device_scratch_bytes(count, item_size(dtype)))},
                bytes.device(tensor.device()));
  at::Tensor result =
      at::empty({static_cast<std::int64_t>(device_result_bytes(count, item_size(dtype)))},
                bytes.pinned_memory(true));
  const c10::Stream stream = device.getStream(tensor.device());
  if (launch_digest(tensor.const_data_ptr(), dtype, *layout, scratch.mutable_data_ptr(),
                    result.mutable_data_ptr(), stream.native_handle()) != 0) {
    return nullptr;
  }
  c10::Event event(tensor.device().type());
  event.record(stream);
  return std::make_unique<KernelWork>(dtype, count, options, std::move(result), std::move(event));
}

}  // namespace goldentrace
