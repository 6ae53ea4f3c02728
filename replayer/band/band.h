// The default band for one tensor of a whole run: how far rounding alone may carry it.
//
// Distance is relative L2: ||got - want|| / ||want|| over ordinary elements; `want` is the
// oracle's. Measured drift that the bands leave room for: 0.2 % at a first projection, 3.8 % at the
// logits, sdpa against eager attention 1.1 %; a missing +1 in a norm is about 100 % at that norm.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/digest.h"
#include "src/base/dtype.h"

namespace goldentrace {

// bfloat16 6e-2, float16 1e-2, float32 and float64 1e-4; other dtypes must be exact (0).
double default_band(DType dtype);

// Half the gap between 1 and the next number: 2^-8 for bfloat16. What one rounding may move.
double unit_roundoff(DType dtype);

struct Distance {
  double difference = 0;    // ||got - want||
  double norm = 0;          // ||want||
  bool non_finite = false;  // NaN, infinities or sentinels on one side only: never in band
  std::string note;         // what is non-finite where; empty when nothing is

  // difference / norm; infinite when only the norm is 0.
  [[nodiscard]] double relative() const;
};

// The distance of one call's output over all steps, as one: root of the summed squares. A single
// decode step's tensors are small, and one ill-conditioned element can carry a small tensor out of
// any band (measured with sdpa against eager: 9 % at a state of 256 elements whose steps together
// are 3 % away), so the band holds for the pool, and four times the band for each step alone. With
// fewer than kMinElements elements in all, nothing is claimed.
class PooledDistance {
 public:
  static constexpr std::uint64_t kMinElements = 16;
  static constexpr double kSingleLimit = 4;

  void add(const Distance& distance, std::uint64_t elements);
  // A step whose output is bit-identical: its norm counts, its difference is 0.
  void add_identical(double norm, std::uint64_t elements);
  [[nodiscard]] double relative() const { return pooled().relative(); }
  [[nodiscard]] bool judged() const { return non_finite_ || elements_ >= kMinElements; }
  [[nodiscard]] bool in_band(double band) const;

 private:
  [[nodiscard]] Distance pooled() const;

  double difference_squares_ = 0;
  double norm_squares_ = 0;
  double worst_single_ = 0;  // of steps with kMinElements elements themselves
  std::uint64_t elements_ = 0;
  bool non_finite_ = false;
};

// Of two dense arrays of one real float dtype, equally long. Pairs that are both NaN, the same
// infinity, or both sentinels count as equal; one-sided ones set non_finite.
Distance distance_from_values(DType dtype, std::span<const std::byte> want,
                              std::span<const std::byte> got);

// An estimate of the distance, which sketches give with a standard error of 9 %. `norm` is the
// oracle's tensor's. Infinite or NaN elements are not in it.
Distance distance_from_sketches(const Sketch& want, const Sketch& got, double norm);

// The band for an output whose rounding was measured: `largest` of a few runs is no upper bound of
// what another may do, and no element is known better than its dtype has it.
double measured_band(double largest, DType dtype);

// A lower bound of the distance, which is all that stats can give: with n ordinary elements,
//   ||got - want|| >= | ||got|| - ||want|| |           (triangle inequality)
//   ||got - want|| >= | sum got - sum want | / sqrt(n)  (Cauchy-Schwarz)
//   ||got - want|| >= | max got - max want |, and min    (one element moved at least that far)
// Different counts of NaN, infinities or sentinels set non_finite.
Distance distance_from_stats(const Stats& want, const Stats& got);

}  // namespace goldentrace
