#include "replayer/band/local_error.h"

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "replayer/band/band.h"

namespace goldentrace {
namespace {

constexpr double kMask = 1e30;  // as in the stats digest
constexpr double kInfinite = std::numeric_limits<double>::infinity();

double ratio_of(double errors, double noise) {
  if (errors == 0) return 0;
  return noise > 0 ? std::sqrt(errors / noise) : kInfinite;
}

// What the ratio of two root mean squares may be when both are noise of one size and kind. The
// candidate's own scatter says nothing here: a fault in a few elements is not to widen its band.
double ratio_band(double dof, double alarm_rate) {
  return std::sqrt(f_quantile(dof, dof, alarm_rate));
}

}  // namespace

double Bias::sigmas() const {
  if (scale == 0) return 0;
  return standard_error > 0 ? scale / standard_error : std::copysign(kInfinite, scale);
}

void CutSums::add(const CutSums& other) {
  elements += other.elements;
  channels = std::max(channels, other.channels);
  rows += other.rows;
  one_sided += other.one_sided;
  wide += other.wide;
  candidate.add(other.candidate);
  eager.add(other.eager);
  result.add(other.result);
  rounded.add(other.rounded);
  has_rounded = has_rounded || other.has_rounded;
  if (other.slice.excess > slice.excess) slice = other.slice;
  if (other.rounded_slice.excess > rounded_slice.excess) rounded_slice = other.rounded_slice;
}

Bias CutSums::bias(const ErrorSums& errors) const {
  if (wide <= 0 || elements < 2) return {};
  Bias bias;
  bias.scale = errors.along / wide;
  const double rest = std::max(0.0, errors.squares - errors.along * bias.scale);
  bias.standard_error = std::sqrt(rest / static_cast<double>(elements - 1) / wide);
  return bias;
}

double Magnitude::sign_sigmas() const {
  const double moved = static_cast<double>(above + below);
  return moved > 0 ? (static_cast<double>(above) - static_cast<double>(below)) / std::sqrt(moved)
                   : 0;
}

void add_magnitude(const CutValues& values, Magnitude& magnitude) {
  const double roundoff = unit_roundoff(values.recorded);
  const std::size_t count = values.rows * values.channels;
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double wide = load_real(values.wide.dtype, values.wide.data, i);
    if (std::fabs(wide) < kMask) squares += wide * wide;
  }
  const double least =
      std::max(std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, count))),
               std::numeric_limits<double>::min());
  for (std::size_t i = 0; i < count; ++i) {
    const double wide = load_real(values.wide.dtype, values.wide.data, i);
    const double got = load_real(values.candidate.dtype, values.candidate.data, i);
    if (!(std::fabs(wide) < kMask && std::fabs(got) < kMask)) continue;
    ++magnitude.elements;
    const double error = got - wide;
    if (error > 0) ++magnitude.above;
    if (error < 0) ++magnitude.below;
    const double ulps =
        std::fabs(error) / std::ldexp(2 * roundoff, std::ilogb(std::max(std::fabs(wide), least)));
    magnitude.max_ulps = std::max(magnitude.max_ulps, ulps);
    if (ulps > 1) ++magnitude.over_ulp;
  }
}

void add_errors(const OutputErrors& errors, Beside beside, CutSums& sums) {
  if (beside == Beside::kRounded) {
    sums.rounded.add(errors.beside);
    sums.has_rounded = true;
    return;
  }
  sums.elements += errors.elements;
  sums.one_sided += errors.one_sided;
  sums.wide += errors.wide;
  sums.candidate.add(errors.candidate);
  sums.eager.add(errors.beside);
  sums.result.add(errors.result);
}

namespace {

// Quantiles for degrees of freedom in coarse steps, rounded down: there are few of them.
class Limits {
 public:
  explicit Limits(double tail) : tail_(tail) {}
  double operator()(double dof) {
    constexpr double kStepsPerDoubling = 4;
    const double step = std::floor(kStepsPerDoubling * std::log2(std::max(1.0, dof)));
    const auto known = of_.find(step);
    if (known != of_.end()) return known->second;
    const double rounded = std::exp2(step / kStepsPerDoubling);
    return of_.emplace(step, f_quantile(rounded, rounded, tail_)).first->second;
  }

 private:
  double tail_;
  std::map<double, double> of_;
};

// visit(slice, ratio of squares, what that may be) for slices that may be in excess.
template <typename Visit>
void visit_slices(const SliceSums& slices, double elements, double floor, double alarm_rate,
                  Visit visit) {
  const std::size_t count = slices.wide.size();
  if (count < 2 || elements < kMinDegreesOfFreedom) return;
  // What is all but zero beside the others is measured by them.
  constexpr double kNothing = 1e-12;
  const double mean =
      std::accumulate(slices.wide.begin(), slices.wide.end(), 0.0) / static_cast<double>(count);
  Limits limit(alarm_rate / static_cast<double>(count));
  const double least = limit(elements);
  for (std::size_t i = 0; i < count; ++i) {
    const double lowest = floor * std::max(slices.wide[i], kNothing * mean);
    const double noise = std::max(slices.beside[i], lowest);
    if (!(slices.candidate[i] > least * noise)) continue;
    const double fourths = slices.beside_fourths[i];
    // Under the floor, too: a slice that one element dominates has few, whoever rounds it.
    const double beside = slices.beside[i];
    const double dof = fourths > 0 ? std::min(elements, 3 * beside * beside / fourths) : elements;
    visit(i, noise > 0 ? slices.candidate[i] / noise : kInfinite, limit(dof));
  }
}

}  // namespace

WorstSlice worst_slice(const SliceSums& slices, double elements, double floor, double alarm_rate) {
  WorstSlice worst;
  visit_slices(slices, elements, floor, alarm_rate,
               [&](std::size_t slice, double ratio, double limit) {
                 const double excess = std::sqrt(ratio / limit);
                 if (excess <= worst.excess) return;
                 worst = {excess, std::sqrt(ratio), 0, slice};
               });
  return worst;
}

std::vector<std::size_t> slices_in_excess(const SliceSums& slices, double elements, double floor,
                                          double alarm_rate) {
  std::vector<std::size_t> found;
  visit_slices(slices, elements, floor, alarm_rate,
               [&](std::size_t slice, double ratio, double limit) {
                 if (ratio > limit) found.push_back(slice);
               });
  return found;
}

double f_quantile(double numerator_dof, double denominator_dof, double tail) {
  constexpr double kMost = 1e7;  // beyond, the distribution is as good as one point
  const boost::math::fisher_f distribution(std::clamp(numerator_dof, 1.0, kMost),
                                           std::clamp(denominator_dof, 1.0, kMost));
  return boost::math::quantile(boost::math::complement(distribution, tail));
}

double normal_quantile(double tail) {
  return boost::math::quantile(boost::math::complement(boost::math::normal(), tail / 2));
}

const char* zone_name(Zone zone) {
  switch (zone) {
    case Zone::kInBand:
      return "in_band";
    case Zone::kRoundingPolicy:
      return "rounding_policy";
    case Zone::kFault:
      return "fault";
    case Zone::kTooSmall:
      break;
  }
  return "too_small";
}

ZoneReport judge(const CutSums& sums, const JudgeOptions& options) {
  ZoneReport report;
  const double alarm_rate = options.alarm_rate / 2;  // of size and of bias
  // Eager's noise is an estimate; one rounding of the result is certain.
  const ErrorSums& own = sums.eager.squares >= sums.result.squares ? sums.eager : sums.result;
  const double noise = std::max(own.squares, options.noise_floor);
  const double dof = own.squares > options.noise_floor ? own.degrees_of_freedom()
                                                       : static_cast<double>(sums.elements);
  report.ratio = ratio_of(sums.candidate.squares, noise);
  report.band = ratio_band(dof, alarm_rate);

  const Bias candidate = sums.bias(sums.candidate);
  const Bias eager = sums.bias(own);
  const Bias rounded = sums.bias(sums.rounded);
  report.bias_sigmas = candidate.sigmas();
  const double accepted = std::max(std::fabs(eager.sigmas()), std::fabs(rounded.sigmas()));
  const double sigmas = normal_quantile(alarm_rate);
  report.bias_band = sigmas + 2 * accepted;
  const double off = std::fabs(candidate.scale);
  report.biased = std::fabs(report.bias_sigmas) > report.bias_band &&
                  off > std::fabs(eager.scale) + 3 * eager.standard_error &&
                  sums.candidate.squares > options.noise_floor;

  report.sliced = sums.slice.excess > 1 && sums.candidate.squares > options.noise_floor;

  bool policy = false;
  if (sums.has_rounded) {
    // One number a row shares nothing with its neighbours.
    const auto channels = static_cast<double>(sums.channels > 1 ? sums.channels : sums.elements);
    const auto rows = static_cast<double>(std::max<std::uint64_t>(1, sums.rows));
    const ErrorSums& larger = sums.rounded.squares >= own.squares ? sums.rounded : own;
    report.rounded_ratio = ratio_of(sums.candidate.squares, std::max(noise, larger.squares));
    report.rounded_band =
        ratio_band(std::min(larger.degrees_of_freedom(), 3 * channels), alarm_rate);
    // Evenly spread over one unit in the last place, its mean over the rows.
    const double of_a_factor = 2 * options.roundoff / std::sqrt(12 * rows);
    const bool excused = !report.biased || off <= std::fabs(rounded.scale) + sigmas * of_a_factor;
    policy =
        report.rounded_ratio <= report.rounded_band && excused && sums.rounded_slice.excess <= 1;
  }
  if (sums.one_sided > 0) {
    report.zone = Zone::kFault;
  } else if (sums.candidate.squares <= options.noise_floor && !report.biased) {
    report.zone = Zone::kInBand;
  } else if (options.exact && own.squares == 0) {
    report.zone = sums.candidate.squares > 0 ? Zone::kFault : Zone::kInBand;
  } else if (static_cast<double>(sums.elements) < kMinDegreesOfFreedom) {
    report.zone = Zone::kTooSmall;
  } else if (report.ratio <= report.band && !report.biased && !report.sliced) {
    report.zone = Zone::kInBand;
  } else {
    report.zone = policy ? Zone::kRoundingPolicy : Zone::kFault;
  }
  return report;
}

}  // namespace goldentrace
