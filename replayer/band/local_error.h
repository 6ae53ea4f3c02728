// Local error: what one call, or a few, of the candidate did wrong by themselves. The oracle's
// calls are executed from the candidate's own inputs, in a wider dtype; what is left between the
// two results is not what had piled up before.
//
// Three runs of the same calls from the same inputs are held against the wide one: the candidate's,
// the oracle's own (eager, in the recorded dtypes), and the wide one with every result rounded to
// the run's working dtype, the worst rounding that a correct engine may do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replayer/band/output_errors.h"

namespace goldentrace {

// The factor that the errors make of the wide result: x = (1 + scale) * wide + rest.
struct Bias {
  double scale = 0;
  double standard_error = 0;
  // scale / standard_error; 0 where nothing scatters and nothing is off.
  [[nodiscard]] double sigmas() const;
};

// Of the slices along one dimension (a token's, a head's, a channel's), the one that noise explains
// least: a fault in few elements drowns in the sums over all.
struct WorstSlice {
  double excess = 0;  // its error over the most that noise makes; above 1 it is no noise
  double ratio = 0;   // its error over the noise
  std::size_t dimension = 0;
  std::size_t index = 0;
};

// Of `slices` with `elements` each. `floor` is the share of a slice's own squares that counts as
// noise at least; `alarm_rate` the chance that noise alone gives an excess above 1 anywhere in
// them.
WorstSlice worst_slice(const SliceSums& slices, double elements, double floor, double alarm_rate);
// Those above 1.
std::vector<std::size_t> slices_in_excess(const SliceSums& slices, double elements, double floor,
                                          double alarm_rate);

// One output of one call, summed over the steps (or layers) that are judged as one.
struct CutSums {
  std::uint64_t elements = 0;   // ordinary ones
  std::uint64_t channels = 0;   // of the last dimension
  std::uint64_t rows = 0;       // that may each carry a factor of their own: tokens, or heads
  std::uint64_t one_sided = 0;  // NaN, infinite or mask values on one side only
  double wide = 0;              // sum of wide^2
  ErrorSums candidate;
  ErrorSums eager;
  ErrorSums result;   // the wide result itself, rounded to the dtype that was recorded
  ErrorSums rounded;  // when `has_rounded`
  bool has_rounded = false;
  WorstSlice slice;          // against eager
  WorstSlice rounded_slice;  // against the fully rounded run

  void add(const CutSums& other);
  [[nodiscard]] Bias bias(const ErrorSums& errors) const;
};

// Adds one output; what ran beside is eager, or the fully rounded run.
enum class Beside : std::uint8_t {
  kEager,    // in the recorded dtypes
  kRounded,  // wide, every float result rounded to the working dtype
};
void add_errors(const OutputErrors& errors, Beside beside, CutSums& sums);

// ---- judgement ----------------------------------------------------------------------------------

enum class Zone : std::uint8_t {
  kInBand,          // no more than eager's own noise
  kRoundingPolicy,  // no more than a correct engine may round
  kFault,
  kTooSmall,  // in no zone: too few independent errors to say
};

// "in_band", ...: as JSON has it; append only.
const char* zone_name(Zone zone);

struct ZoneReport {
  Zone zone = Zone::kInBand;
  double ratio = 0;          // of the candidate's error to eager's own
  double band = 1;           // what that may be
  double rounded_ratio = 0;  // to the fully rounded run's
  double rounded_band = 1;
  double bias_sigmas = 0;  // of the candidate's
  double bias_band = 0;
  bool biased = false;
  bool sliced = false;  // a slice is in excess: see WorstSlice
};

struct JudgeOptions {
  bool exact = false;  // a copy, view, gather or cast: where it loses nothing, nothing may be lost
  double noise_floor = 0;  // sum of squares up to which nothing is an error
  double roundoff = 0;     // of the working dtype: what one rounding may move
  double alarm_rate = 0;   // the chance that rounding alone is called out here
};

// Without `has_rounded`, what is not in band is kFault: the fully rounded run is still owed.
//
// Eager's noise is independent from element to element. A rounding policy's need not be: a weight
// that is rounded once errs alike in a whole channel, a factor of a row alike in the row. So the
// second band counts channels, and allows a scale that the rounding of one factor a row makes.
ZoneReport judge(const CutSums& sums, const JudgeOptions& options);

// Fewer degrees of freedom are reported, not judged.
inline constexpr double kMinDegreesOfFreedom = 16;

// The x that an F-distributed variable with these degrees of freedom exceeds with probability
// `tail`; both at least 1.
double f_quantile(double numerator_dof, double denominator_dof, double tail);
// The x that a normal variable's size exceeds with probability `tail`.
double normal_quantile(double tail);

}  // namespace goldentrace
