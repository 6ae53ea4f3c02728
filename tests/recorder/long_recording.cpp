// A recording that takes a while, for tests that end it in the middle: long_recording OUT.fb STEPS.
// The same program each time, so that what is left of one can be held against a whole one.
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tanh.h>
#include <c10/core/GradMode.h>

#include <cstdio>
#include <cstdlib>

#include "recorder/recorder.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const c10::AutoGradMode no_grad(false);
  const at::Tensor weight = at::linspace(-1, 1, 16 * 16).reshape({16, 16});
  goldentrace::RecorderOptions options;
  options.path = argv[1];
  options.keep = goldentrace::KeepRules(goldentrace::Keep::kAll);
  auto recorder = goldentrace::Recorder::start(std::move(options));
  if (!recorder.ok()) return 2;
  std::puts("recording");
  std::fflush(stdout);
  at::Tensor x = at::linspace(0, 1, 16);
  const auto steps = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  for (std::uint32_t step = 0; step < steps; ++step) {
    (*recorder)->set_step(step);
    const goldentrace::ModuleScope scope("loop");
    x = at::tanh(at::linear(x, weight));
  }
  const goldentrace::Status status = (*recorder)->stop();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 2;
}
