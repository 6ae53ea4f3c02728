#include "replayer/band/local_error.h"

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>

namespace goldentrace {
namespace {

constexpr double kMask = 1e30;  // as in the stats digest
constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool ordinary(double x) { return std::fabs(x) < kMask; }  // not NaN either

// Values that stand for no number, and are the same in both.
bool same_special(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return !ordinary(x) && !ordinary(y) && std::signbit(x) == std::signbit(y);
}

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

void ErrorSums::add(double d, double wide) {
  const double square = d * d;
  squares += square;
  fourths += square * square;
  along += d * wide;
}

void ErrorSums::add(const ErrorSums& other) {
  squares += other.squares;
  fourths += other.fourths;
  along += other.along;
}

double ErrorSums::degrees_of_freedom() const {
  return fourths > 0 ? 3 * squares * squares / fourths : 0;
}

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
}

Bias CutSums::bias(const ErrorSums& errors) const {
  if (wide <= 0 || elements < 2) return {};
  Bias bias;
  bias.scale = errors.along / wide;
  const double rest = std::max(0.0, errors.squares - errors.along * bias.scale);
  bias.standard_error = std::sqrt(rest / static_cast<double>(elements - 1) / wide);
  return bias;
}

void add_values(const CutValues& values, CutSums& sums) {
  const bool eager = !values.eager.empty();
  const bool rounded = !values.rounded.empty();
  sums.has_rounded = sums.has_rounded || rounded;
  for (std::size_t i = 0; i < values.wide.size(); ++i) {
    const double w = values.wide[i];
    const double c = values.candidate[i];
    if (!ordinary(w) || !ordinary(c)) {
      if (!same_special(w, c)) ++sums.one_sided;
      continue;
    }
    ++sums.elements;
    sums.wide += w * w;
    sums.candidate.add(c - w, w);
    sums.result.add(values.result[i] - w, w);
    if (eager && ordinary(values.eager[i])) sums.eager.add(values.eager[i] - w, w);
    if (rounded && ordinary(values.rounded[i])) sums.rounded.add(values.rounded[i] - w, w);
  }
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
    policy = report.rounded_ratio <= report.rounded_band && excused;
  }
  if (sums.one_sided > 0) {
    report.zone = Zone::kFault;
  } else if (sums.candidate.squares <= options.noise_floor && !report.biased) {
    report.zone = Zone::kInBand;
  } else if (options.exact && own.squares == 0) {
    report.zone = sums.candidate.squares > 0 ? Zone::kFault : Zone::kInBand;
  } else if (static_cast<double>(sums.elements) < kMinDegreesOfFreedom) {
    report.zone = Zone::kTooSmall;
  } else if (report.ratio <= report.band && !report.biased) {
    report.zone = Zone::kInBand;
  } else {
    report.zone = policy ? Zone::kRoundingPolicy : Zone::kFault;
  }
  return report;
}

}  // namespace goldentrace
