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

// Overwrites `errors`, and keeps its memory. Elements that are NaN, the same infinity, or masks
// (abs >= 1e30) in wide and candidate are left out; where only `beside` is, of its sums alone.
void measure_errors(const CutValues& values, OutputErrors& errors);

}  // namespace goldentrace
