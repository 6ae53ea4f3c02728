// `replay verify`: executes a recorded program again through the dispatcher and compares every
// output with what was recorded. This header needs no Torch; the rest of replayer/execute/ does.
//
// Bits are demanded where the environment is the recorded one. In another one (torch, processor,
// instruction set), and when float dtypes are promoted, rounding moves the bits: there, outputs of
// control (kWriteDecision) are taken from the trace, and the rest is judged by the default band.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/status.h"
#include "src/event/run.h"

namespace goldentrace {

struct VerifyOptions {
  std::string trace;
  std::string weights;                // as find_weights takes it
  bool allow_incomplete = false;      // a trace that is not whole may pass as far as it goes
  std::optional<DType> promote = {};  // kFloat32 or kFloat64: see Memory
  // Elsewhere: share of calls that may be lost, and of outputs that nothing judges, 0 to 1.
  double max_loss = 0.01;
};

enum class VerifyMode : std::uint8_t { kExact, kElsewhere, kPromoted };

// One output that did not come out as recorded, or one call that could not run.
struct VerifyFinding {
  std::uint64_t call = 0;
  std::string op;
  std::string scope;
  std::uint32_t step = 0;
  std::string what;  // "bfloat16 [1, 96, 128]: bytes differ", "throws: ..."
};

// Calls of one operator that could not run.
struct LostOperator {
  std::uint64_t calls = 0;
  std::string why;  // of the first
};

struct VerifyReport {
  std::string trace;
  VerifyMode mode = VerifyMode::kExact;
  std::optional<DType> promote;
  double max_loss = 0.01;
  std::uint64_t calls = 0;
  std::uint64_t executed = 0;
  std::uint64_t threw_when_recorded = 0;     // left out: the model caught the exception
  std::uint64_t not_executable = 0;          // an argument was not stored, or the call throws here
  std::map<std::string, LostOperator> lost;  // by operator; their calls are not_executable
  std::uint64_t in_recorded_dtype =
      0;                     // promoted: calls that have no kernel for promoted arguments
  std::uint64_t hashes = 0;  // outputs with a recorded hash, decisions too
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

  // Elsewhere and promoted only; exact mode computes decisions and compares them like the rest.
  std::uint64_t decisions = 0;        // outputs of control, taken from the trace
  std::uint64_t decisions_equal = 0;  // what was computed here is the same
  std::uint64_t other_shapes = 0;
  // Outputs whose bits moved.
  std::uint64_t in_band = 0;
  std::uint64_t drifted = 0;  // over the band, but no call on the way doubled the distance
  std::uint64_t out_of_band = 0;
  std::uint64_t too_small = 0;   // fewer than 16 elements: seen in what reads them
  std::uint64_t not_judged = 0;  // of a kind that has no stats, or recorded without
  double band = 0;
  double worst = 0;  // relative distance of the worst output in band
  std::string worst_where;

  // Weights that are not those recorded; nothing is executed then.
  std::vector<std::string> wrong_parameters;
  std::vector<VerifyFinding> findings;   // the first ones
  std::vector<std::string> environment;  // "torch 2.15.0 when recorded, 2.16.0 here"
  double seconds = 0;

  // Every bit that could be computed came out as recorded.
  [[nodiscard]] bool nothing_differs() const {
    return wrong_parameters.empty() && hashes == hashes_equal && views == views_equal &&
           scalars == scalars_equal;
  }
  // Every bit came out as recorded.
  [[nodiscard]] bool reproduced() const { return nothing_differs() && not_executable == 0; }
  [[nodiscard]] bool loses_too_much() const {
    return static_cast<double>(not_executable) > max_loss * static_cast<double>(calls) ||
           static_cast<double>(not_judged) > max_loss * static_cast<double>(hashes);
  }
};

// 0 reproduced, elsewhere in band; 1 not, or with other weights; 2 no answer: too much was lost.
// Promoted: 0 when every call ran and every shape is the recorded one.
inline int verify_exit_status(const VerifyReport& report) {
  if (!report.wrong_parameters.empty()) return 1;
  if (report.calls == 0) return 2;
  switch (report.mode) {
    case VerifyMode::kExact:
      if (report.reproduced()) return 0;
      return report.nothing_differs() ? 2 : 1;
    case VerifyMode::kElsewhere:
      if (report.out_of_band > 0 || report.other_shapes > 0) return 1;
      return report.loses_too_much() ? 2 : 0;
    case VerifyMode::kPromoted:
      return report.not_executable == 0 && report.other_shapes == 0 ? 0 : 1;
  }
  return 2;
}

// How this machine and its torch differ from those of the recording, a line each.
std::vector<std::string> compare_environment(const Header& header);

// Not ok when the trace or the weights can't be read; what differs is in the report.
Result<VerifyReport> verify(const VerifyOptions& options);

}  // namespace goldentrace
