// Records a small network written in C++:  record_cpp OUT.fb
//
// Link goldentrace_record and LibTorch. The trace holds every operator call under the scopes that
// ModuleScope names, and `replay verify OUT.fb --weights FOLDER` executes it again. The parameters
// are stored by value here; with Recipe::kSame and a name from a checkpoint they are not.
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/relu.h>
#include <c10/core/GradMode.h>

#include <cstdio>
#include <utility>

#include "recorder/recorder.h"

using goldentrace::ModuleScope;
using goldentrace::ParameterKind;
using goldentrace::Recipe;
using goldentrace::Recorder;
using goldentrace::Status;

namespace {

struct Network {
  at::Tensor up = at::linspace(-1, 1, 32 * 16).reshape({32, 16});
  at::Tensor down = at::linspace(-1, 1, 16 * 32).reshape({16, 32});

  at::Tensor forward(const at::Tensor& x) const {
    const ModuleScope mlp("mlp");
    at::Tensor hidden;
    {
      const ModuleScope scope("mlp.up");
      hidden = at::relu(at::linear(x, up));
    }
    const ModuleScope scope("mlp.down");
    return at::linear(hidden, down);
  }
};

Status record(const char* path) {
  const c10::AutoGradMode no_grad(false);
  const Network network;
  goldentrace::RecorderOptions options;
  options.path = path;
  options.header.engine = "record_cpp";
  auto recorder = Recorder::start(std::move(options));
  if (!recorder.ok()) return recorder.status();
  for (const auto& [name, tensor] :
       {std::pair("mlp.up.weight", network.up), std::pair("mlp.down.weight", network.down)}) {
    const auto hash =
        (*recorder)->add_parameter(name, ParameterKind::kParameter, tensor, Recipe::kValue, {});
    if (!hash.ok()) return hash.status();
  }
  at::Tensor x = at::linspace(0, 1, 16);
  for (std::uint32_t step = 0; step < 2; ++step) {
    (*recorder)->set_step(step);
    x = network.forward(x);
  }
  return (*recorder)->stop();  // not ok: the trace is not whole
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: record_cpp OUT.fb\n");
    return 2;
  }
  const Status status = record(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "record_cpp: %s\n", status.message().c_str());
  return status.ok() ? 0 : 2;
}
