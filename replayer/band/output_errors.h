// The errors of one output of the candidate against the wide result, summed over the whole and over
// the slices along every dimension: one pass, vectors where the machine has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/dtype.h"

namespace goldentrace {

// Of the errors d = x - wide of one run, over elements.
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

// Dense elements of a real float dtype, aligned as any bytes are.
struct FloatArray {
  const std::byte* data = nullptr;
  DType dtype = DType::kFloat64;
};

// All of `rows` times `channels` elements, row by row.
struct CutValues {
  FloatArray wide;
  FloatArray candidate;
  FloatArray beside;                 // another run of the oracle's calls; no data: none
  DType recorded = DType::kFloat64;  // `result` is the wide result rounded to it
  std::size_t rows = 0;
  std::size_t channels = 0;  // of the last dimension
};

// Sums of slices along one dimension, an entry a slice.
struct SliceSums {
  std::vector<double> wide;       // squares of
  std::vector<double> candidate;  // squares of its errors
  std::vector<double> beside;
  std::vector<double> beside_fourths;

  void reset(std::size_t slices);
  void add(std::size_t slice, const SliceSums& other, std::size_t at);
};

struct OutputErrors {
  std::uint64_t elements = 0;   // ordinary ones
  std::uint64_t one_sided = 0;  // NaN, infinite or mask values on one side only
  double wide = 0;              // sum of wide^2
  ErrorSums candidate;
  ErrorSums beside;
  ErrorSums result;
  SliceSums rows;
  SliceSums channels;
};

// How an error looks, element by element; for reports.
struct Magnitude {
  std::uint64_t elements = 0;  // ordinary ones
  // The greatest, in units in the last place that the recorded dtype has at the wide result, or at
  // the tensor's root mean square where that is more.
  double max_ulps = 0;
  std::uint64_t over_ulp = 0;  // elements that are off by more than one unit
  std::uint64_t above = 0;     // candidate over the wide result
  std::uint64_t below = 0;

  // Of as many signs drawn by chance, how many standard deviations the difference of the two is.
  [[nodiscard]] double sign_sigmas() const;
};
void add_magnitude(const CutValues& values, Magnitude& magnitude);

// Overwrites `errors`, and keeps its memory. Elements that are NaN, the same infinity, or masks
// (abs >= 1e30) in wide and candidate are left out; where only `beside` is, of its sums alone.
void measure_errors(const CutValues& values, OutputErrors& errors);

}  // namespace goldentrace
