#include "replayer/execute/environment.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

namespace goldentrace {
namespace {

// In the order of at::Float32MatmulPrecision.
constexpr const char* kPrecisionNames[] = {"highest", "high", "medium"};

c10::ScalarType scalar_type(DType dtype) { return static_cast<c10::ScalarType>(dtype); }

}  // namespace

struct Environment::Settings {
  Settings() = default;
  ~Settings() {
    c10::set_default_dtype(dtype);
    at::globalContext().setDeterministicAlgorithms(deterministic, warn_only);
    at::globalContext().setFloat32MatmulPrecision(kPrecisionNames[precision % 3]);
    at::autocast::set_autocast_dtype(at::kCPU, autocast_dtype);
    at::autocast::set_autocast_enabled(at::kCPU, autocast);
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  const c10::AutoGradMode no_grad{false};
  caffe2::TypeMeta dtype = c10::get_default_dtype();
  bool deterministic = at::globalContext().deterministicAlgorithms();
  bool warn_only = at::globalContext().deterministicAlgorithmsWarnOnly();
  std::size_t precision = static_cast<std::size_t>(at::globalContext().float32MatmulPrecision());
  at::ScalarType autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  bool autocast = at::autocast::is_autocast_enabled(at::kCPU);
  int threads = at::get_num_threads();
};

Environment::Environment() : found_(std::make_unique<Settings>()) {}

Environment::~Environment() = default;

void Environment::apply(const Ambient& ambient, Promotion promotion) {
  if (known_ && promotion_ == promotion && applied_ == ambient) return;
  c10::set_default_dtype(
      caffe2::TypeMeta::fromScalarType(scalar_type(promoted(ambient.default_dtype, promotion))));
  at::globalContext().setDeterministicAlgorithms(ambient.deterministic, /*warn_only=*/false);
  at::globalContext().setFloat32MatmulPrecision(ambient.matmul_precision);
  // Autocast only ever narrows, which promotion undoes.
  const bool autocast = ambient.autocast && promotion == Promotion::kNone;
  at::autocast::set_autocast_enabled(at::kCPU, autocast);
  if (autocast) at::autocast::set_autocast_dtype(at::kCPU, scalar_type(ambient.autocast_dtype));
  if (ambient.threads > 0 && at::get_num_threads() != static_cast<int>(ambient.threads)) {
    at::set_num_threads(static_cast<int>(ambient.threads));
  }
  applied_ = ambient;
  promotion_ = promotion;
  known_ = true;
}

}  // namespace goldentrace
