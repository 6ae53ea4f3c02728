// From one output of three runs to what judge() needs of it: sums, and the worst slice.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "replayer/band/local_error.h"

namespace goldentrace {

// Family-wise: the chance that rounding alone is called out anywhere in a replay.
inline constexpr double kAlarmRate = 1e-3;

// Operators, named with or without overload, that move numbers and compute none.
bool moves_numbers(std::string_view op);

// Mean square of what one rounding moves, beside the number's own.
double one_rounding(double roundoff);

struct CutOptions {
  Beside beside = Beside::kEager;
  bool exact = false;                      // it moves numbers: no slice is noise
  DType working_dtype = DType::kBFloat16;  // of the run
  double alarm_rate = 0;                   // of all its slices together
};

class CutMeter {
 public:
  // Adds one output to `sums`. Of `values`, rows and channels are set here. Calls
  // visit(dimension, its slices, elements of one) for every dimension that has several, unless the
  // output is exact.
  template <typename Visit>
  void add(CutValues values, std::span<const std::int64_t> sizes, const CutOptions& options,
           CutSums& sums, Visit visit) {
    measure(values, sizes, options, sums);
    if (options.exact) return;
    visit_dimensions(sizes, [&](std::size_t dimension, const SliceSums& slices, double elements) {
      note_worst(dimension, slices, elements, sums);
      visit(dimension, slices, elements);
    });
  }
  // Of the output that was added last.
  [[nodiscard]] const OutputErrors& errors() const { return errors_; }

 private:
  void measure(CutValues& values, std::span<const std::int64_t> sizes, const CutOptions& options,
               CutSums& sums);
  void note_worst(std::size_t dimension, const SliceSums& slices, double elements, CutSums& sums);

  template <typename Visit>
  void visit_dimensions(std::span<const std::int64_t> sizes, Visit visit) {
    const std::size_t rows = errors_.rows.wide.size();
    const auto elements = [&](std::size_t slices) {
      return static_cast<double>(errors_.elements) / static_cast<double>(slices);
    };
    std::size_t inner = rows;
    for (std::size_t d = 0; d + 1 < sizes.size(); ++d) {
      const auto size = static_cast<std::size_t>(sizes[d]);
      if (size == 0) return;
      inner /= size;
      if (size < 2) continue;
      if (size == rows) {
        visit(d, errors_.rows, elements(size));
        continue;
      }
      slices_.reset(size);
      for (std::size_t r = 0; r < rows; ++r) slices_.add(r / inner % size, errors_.rows, r);
      visit(d, slices_, elements(size));
    }
    if (!errors_.channels.wide.empty()) {
      visit(sizes.size() - 1, errors_.channels, elements(errors_.channels.wide.size()));
    }
  }

  OutputErrors errors_;
  SliceSums slices_;
  // Of the output that is looked at.
  Beside beside_ = Beside::kEager;
  double floor_ = 0;
  double alarm_rate_ = 0;  // of one dimension
};

}  // namespace goldentrace
