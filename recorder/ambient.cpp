#include "recorder/ambient.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include "src/base/machine.h"

namespace goldentrace {
namespace {

constexpr const char* kPrecisionNames[] = {"highest", "high", "medium"};

}  // namespace

AmbientBits read_ambient() {
  AmbientBits bits;
  bits.grad = at::GradMode::is_enabled();
  bits.inference = c10::InferenceMode::is_enabled();
  bits.deterministic = at::globalContext().deterministicAlgorithms();
  bits.autocast =
      at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA);
  if (bits.autocast) {
    const at::DeviceType device =
        at::autocast::is_autocast_enabled(at::kCPU) ? at::kCPU : at::kCUDA;
    bits.autocast_dtype = static_cast<std::uint8_t>(at::autocast::get_autocast_dtype(device));
  } else {
    bits.autocast_dtype = static_cast<std::uint8_t>(DType::kBFloat16);
  }
  bits.default_dtype = static_cast<std::uint8_t>(c10::get_default_dtype_as_scalartype());
  bits.matmul_precision = static_cast<std::uint8_t>(at::globalContext().float32MatmulPrecision());
  bits.threads = static_cast<std::uint32_t>(at::get_num_threads());
  return bits;
}

Ambient to_ambient(const AmbientBits& bits) {
  return {bits.grad,
          bits.inference,
          bits.deterministic,
          bits.autocast,
          static_cast<DType>(bits.autocast_dtype),
          static_cast<DType>(bits.default_dtype),
          kPrecisionNames[bits.matmul_precision % 3],
          bits.threads};
}

std::vector<std::pair<std::string, std::string>> numerics_environment() {
  const at::Context& context = at::globalContext();
  const auto on_off = [](bool on) { return std::string(on ? "on" : "off"); };
  std::vector<std::pair<std::string, std::string>> environment = {
      {"cpu_capability", at::get_cpu_capability()},
      {"deterministic", on_off(context.deterministicAlgorithms())},
      {"matmul_precision",
       kPrecisionNames[static_cast<int>(at::globalContext().float32MatmulPrecision()) % 3]},
      {"mkldnn", on_off(at::globalContext().userEnabledMkldnn())},
      {"threads", std::to_string(at::get_num_threads())},
  };
  for (auto& entry : machine_environment()) environment.push_back(std::move(entry));
  return environment;
}

}  // namespace goldentrace
