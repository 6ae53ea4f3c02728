// Local error: what one call, or a few, of the candidate did wrong by themselves. The oracle's
// calls are executed from the candidate's own inputs, in a wider dtype; what is left between the
// two results is not what had piled up before.
//
// Three runs of the same calls from the same inputs are held against the wide one: the candidate's,
// the oracle's own (eager, in the recorded dtypes), and the wide one with every result rounded to
// the run's working dtype, the worst rounding that a correct engine may do.
#pragma once

#include <cstdint>
#include <span>

namespace goldentrace {

// Of the errors d = x - wide of one such run, over elements.
struct ErrorSums {
  double squares = 0;  // sum of d^2
  double fourths = 0;  // sum of d^4
  double along = 0;    // sum of d * wide

  void add(double d, double wide);
  void add(const ErrorSums& other);
  // Independent errors that would scatter as these do: 3 (sum d^2)^2 / sum d^4, the number of
  // elements for normal ones, fewer where a few of them carry most.
  [[nodiscard]] double degrees_of_freedom() const;
};

// The factor that the errors make of the wide result: x = (1 + scale) * wide + rest.
struct Bias {
  double scale = 0;
  double standard_error = 0;
  // scale / standard_error; 0 where nothing scatters and nothing is off.
  [[nodiscard]] double sigmas() const;
};

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

  void add(const CutSums& other);
  [[nodiscard]] Bias bias(const ErrorSums& errors) const;
};

// Adds one output. All spans are equally long; `eager` or `rounded` may be empty. Elements that are
// NaN, the same infinity, or masks (abs >= 1e30) in all of them are left out.
struct CutValues {
  std::span<const double> wide;
  std::span<const double> candidate;
  std::span<const double> eager;
  std::span<const double> result;
  std::span<const double> rounded;
};
void add_values(const CutValues& values, CutSums& sums);

// ---- judgement ----------------------------------------------------------------------------------

enum class Zone : std::uint8_t {
  kInBand,          // no more than eager's own noise
  kRoundingPolicy,  // no more than a correct engine may round
  kFault,
  kTooSmall,  // in no zone: too few independent errors to say
};

struct ZoneReport {
  Zone zone = Zone::kInBand;
  double ratio = 0;          // of the candidate's error to eager's own
  double band = 1;           // what that may be
  double rounded_ratio = 0;  // to the fully rounded run's
  double rounded_band = 1;
  double bias_sigmas = 0;  // of the candidate's
  double bias_band = 0;
  bool biased = false;
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
