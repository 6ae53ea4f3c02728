#include "replayer/band/cut.h"

#include <algorithm>
#include <array>

#include "replayer/band/band.h"

namespace goldentrace {
namespace {

constexpr std::array<std::string_view, 34> kMoving = {"aten::copy_",
                                                      "aten::clone",
                                                      "aten::contiguous",
                                                      "aten::cat",
                                                      "aten::stack",
                                                      "aten::index_select",
                                                      "aten::index",
                                                      "aten::gather",
                                                      "aten::embedding",
                                                      "aten::repeat",
                                                      "aten::pad",
                                                      "aten::constant_pad_nd",
                                                      "aten::triu",
                                                      "aten::tril",
                                                      "aten::flip",
                                                      "aten::roll",
                                                      "aten::neg",
                                                      "aten::abs",
                                                      "aten::masked_fill",
                                                      "aten::masked_fill_",
                                                      "aten::fill_",
                                                      "aten::zero_",
                                                      "aten::zeros",
                                                      "aten::zeros_like",
                                                      "aten::ones",
                                                      "aten::ones_like",
                                                      "aten::full",
                                                      "aten::full_like",
                                                      "aten::select_copy",
                                                      "aten::slice_scatter",
                                                      "aten::repeat_interleave",
                                                      "aten::index_put_",
                                                      "aten::scatter",
                                                      "aten::to"};

// Two factors that a whole slice shares may be rounded to the working dtype, each off by half a
// unit in the last place at most; then the result once more.
double coherent_rounding(double roundoff) { return 4.5 * roundoff * roundoff; }

}  // namespace

bool moves_numbers(std::string_view op) {
  return std::ranges::find(kMoving, op.substr(0, op.find('.'))) != kMoving.end();
}

double one_rounding(double roundoff) { return roundoff * roundoff / 6; }

void CutMeter::measure(CutValues& values, std::span<const std::int64_t> sizes,
                       const CutOptions& options, CutSums& sums) {
  std::size_t elements = 1;
  for (const std::int64_t size : sizes) elements *= static_cast<std::size_t>(size);
  values.channels =
      sizes.empty() ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(1, sizes.back()));
  values.rows = elements / values.channels;
  measure_errors(values, errors_);
  add_errors(errors_, options.beside, sums);
  beside_ = options.beside;
  alarm_rate_ = options.alarm_rate / static_cast<double>(std::max<std::size_t>(1, sizes.size()));
  floor_ = beside_ == Beside::kEager ? one_rounding(unit_roundoff(values.recorded))
                                     : coherent_rounding(unit_roundoff(options.working_dtype));
  if (beside_ == Beside::kRounded) return;
  // A matrix a head is one quantity; else a vector a token is.
  const std::size_t matrix =
      sizes.size() >= 4 ? static_cast<std::size_t>(sizes[sizes.size() - 2]) : 1;
  sums.channels = values.channels;
  sums.rows += elements / std::max<std::size_t>(1, values.channels * matrix);
}

void CutMeter::note_worst(std::size_t dimension, const SliceSums& slices, double elements,
                          CutSums& sums) {
  WorstSlice found = worst_slice(slices, elements, floor_, alarm_rate_);
  found.dimension = dimension;
  WorstSlice& worst = beside_ == Beside::kEager ? sums.slice : sums.rounded_slice;
  if (found.excess > worst.excess) worst = found;
}

}  // namespace goldentrace
