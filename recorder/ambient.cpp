#include "recorder/ambient.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include "src/base/machine.h"

namespace goldentrace {
namespace {

constexpr const char* kPrecisionNames[] = {"highest", "high", "medium"};

std::string on_off(bool on) { return on ? "on" : "off"; }

// What at::show_config says after "BLAS_INFO=": "mkl".
std::string blas() {
  const std::string config = at::show_config();
  const std::string key = "BLAS_INFO=";
  const std::size_t at = config.find(key);
  if (at == std::string::npos) return "unknown";
  const std::size_t begin = at + key.size();
  return config.substr(begin, config.find_first_of(", \n", begin) - begin);
}

std::string sdp_backends(const at::Context& context) {
  const std::pair<const char*, bool> backends[] = {
      {"flash", context.userEnabledFlashSDP()},
      {"mem_efficient", context.userEnabledMemEfficientSDP()},
      {"math", context.userEnabledMathSDP()},
      {"cudnn", context.userEnabledCuDNNSDP()}};
  std::string names;
  for (const auto& [name, on] : backends) {
    if (on) names += (names.empty() ? "" : ",") + std::string(name);
  }
  return names;
}

bool reduced(at::CuBLASReductionOption option) {
  return option == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
}

// Asks for a switch that PyTorch refuses to tell where it was set through two interfaces.
template <typename Ask>
std::string asked(Ask ask) {
  try {
    return on_off(ask());
  } catch (const c10::Error&) {
    return "mixed";
  }
}

}  // namespace

AmbientBits read_ambient(bool matmul_precision, const AmbientBits& last) {
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
  bits.matmul_precision =
      matmul_precision ? static_cast<std::uint8_t>(at::globalContext().float32MatmulPrecision())
                       : last.matmul_precision;
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
  std::vector<std::pair<std::string, std::string>> environment = {
      {"blas", blas()},
      {"cpu_capability", at::get_cpu_capability()},
      {"cudnn_benchmark", on_off(context.benchmarkCuDNN())},
      {"cudnn_deterministic", on_off(context.deterministicCuDNN())},
      {"deterministic", on_off(context.deterministicAlgorithms())},
      {"matmul_precision",
       kPrecisionNames[static_cast<int>(at::globalContext().float32MatmulPrecision()) % 3]},
      {"mkldnn", on_off(at::globalContext().userEnabledMkldnn())},
      {"reduced_bf16_sums", on_off(reduced(context.allowBF16ReductionCuBLAS()))},
      {"reduced_fp16_sums", on_off(reduced(context.allowFP16ReductionCuBLAS()))},
      {"sdp_backends", sdp_backends(context)},
      {"tf32_cudnn", asked([&] { return context.allowTF32CuDNN(); })},
      {"tf32_matmul", asked([&] { return context.allowTF32CuBLAS(); })},
      {"threads", std::to_string(at::get_num_threads())},
  };
  for (auto& entry : machine_environment()) environment.push_back(std::move(entry));
  return environment;
}

}  // namespace goldentrace
