// `replay verify`: executes a recorded program again through the dispatcher and compares every
// output with its recorded hash. This header needs no Torch; the rest of replayer/execute/ does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace goldentrace {

struct VerifyOptions {
  std::string trace;
  std::string weights;  // model folder or .safetensors file
};

// One output that did not come out as recorded, or one call that could not run.
struct VerifyFinding {
  std::uint64_t call = 0;
  std::string op;
  std::string scope;
  std::uint32_t step = 0;
  std::string what;  // "bfloat16 [1, 96, 128]: bytes differ", "throws: ..."
};

struct VerifyReport {
  std::string trace;
  std::uint64_t calls = 0;
  std::uint64_t executed = 0;
  std::uint64_t threw_when_recorded = 0;  // left out: the model caught the exception
  std::uint64_t not_executable = 0;       // an argument was not stored, or the call throws here
  std::uint64_t hashes = 0;               // outputs with a recorded hash
  std::uint64_t hashes_equal = 0;
  std::uint64_t views = 0;  // results that are views: geometry and memory compared
  std::uint64_t views_equal = 0;
  std::uint64_t scalars = 0;  // numbers that went back to Python
  std::uint64_t scalars_equal = 0;
  std::uint64_t undefined = 0;  // memory without content: nothing to compare
  std::uint64_t random = 0;     // outputs of random calls: taken from the trace
  std::uint64_t parameters = 0;
  std::uint64_t externals = 0;
  std::uint64_t holes = 0;
  // Weights that are not those recorded; nothing is executed then.
  std::vector<std::string> wrong_parameters;
  std::vector<VerifyFinding> findings;   // the first ones
  std::vector<std::string> environment;  // "torch 2.15.0 when recorded, 2.16.0 here"
  double seconds = 0;

  [[nodiscard]] bool reproduced() const {
    return wrong_parameters.empty() && not_executable == 0 && hashes == hashes_equal &&
           views == views_equal && scalars == scalars_equal;
  }
};

// 0 reproduced; 1 not, in the environment of the recording or with other weights; 2 not, but in
// another environment, where bits may move: no answer.
inline int verify_exit_status(const VerifyReport& report) {
  if (report.reproduced()) return 0;
  return report.wrong_parameters.empty() && !report.environment.empty() ? 2 : 1;
}

// Not ok when the trace or the weights can't be read; what differs is in the report.
Result<VerifyReport> verify(const VerifyOptions& options);

}  // namespace goldentrace
