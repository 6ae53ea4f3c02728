#include "replayer/verdict/place_verdict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "replayer/band/band.h"
#include "replayer/band/cut.h"
#include "replayer/tools/load_tensor.h"
#include "src/digest/hash.h"

namespace goldentrace {
namespace {

FloatArray array_of(const DenseTensor& tensor) { return {tensor.bytes.data(), tensor.dtype}; }

// Dimensions of one element say nothing.
std::vector<std::int64_t> without_ones(std::vector<std::int64_t> sizes) {
  std::erase(sizes, 1);
  return sizes;
}

Status check_comparable(const DenseTensor& candidate, const Place& place,
                        const PlaceOptions& options) {
  if (!is_real_float(candidate.dtype)) {
    return {Code::kInvalidArgument,
            options.candidate + ": " + std::string(dtype_name(candidate.dtype)) +
                " can't be held against " + std::string(dtype_name(place.dtype)) + " at " +
                place.name()};
  }
  if (without_ones(candidate.sizes) != without_ones(place.sizes)) {
    return {Code::kInvalidArgument, options.candidate + ": " + type_text(candidate) + ", but " +
                                        place.name() + " is " +
                                        type_text(place.dtype, place.sizes)};
  }
  return {};
}

Result<std::vector<std::int64_t>> positions_of(const TraceReader& trace, std::uint32_t step) {
  const auto text = trace.text();
  if (!text.ok()) return text.status();
  std::vector<std::int64_t> positions;
  for (const Step& one : text->steps) {
    if (one.step != step) continue;
    for (const Row& row : one.rows) {
      for (std::uint32_t i = 0; i < row.count; ++i) positions.push_back(row.position + i);
    }
  }
  return positions;
}

}  // namespace

double TensorVerdict::relative(const ErrorSums& errors) const {
  if (errors.squares == 0) return 0;
  return std::sqrt(errors.squares / sums.wide);
}

TensorVerdict judge_tensor(const DenseTensor& candidate, const SliceOutput& oracle, bool moves,
                           DType working_dtype) {
  TensorVerdict verdict;
  verdict.identical =
      candidate.dtype == oracle.eager.dtype && candidate.bytes == oracle.eager.bytes;
  CutValues values;
  values.wide = array_of(oracle.wide);
  values.candidate = array_of(candidate);
  values.recorded = oracle.eager.dtype;
  CutMeter meter;
  // The chance is shared by the whole and its slices.
  CutOptions options{Beside::kEager, moves, working_dtype, kAlarmRate / 2};
  const auto nothing_more = [](std::size_t, const SliceSums&, double) {};
  values.beside = array_of(oracle.eager);
  meter.add(values, oracle.eager.sizes, options, verdict.sums, nothing_more);
  options.beside = Beside::kRounded;
  values.beside = array_of(oracle.rounded);
  meter.add(values, oracle.eager.sizes, options, verdict.sums, nothing_more);
  verdict.noise_floor =
      moves ? 0 : one_rounding(unit_roundoff(oracle.eager.dtype)) * verdict.sums.wide;
  verdict.zone = judge(verdict.sums,
                       {moves, verdict.noise_floor, unit_roundoff(working_dtype), kAlarmRate / 2});
  // Too few elements to blame anybody, but enough to see no more error than eager's.
  ZoneReport& zone = verdict.zone;
  if (zone.zone == Zone::kTooSmall && zone.ratio <= 1) zone.zone = Zone::kInBand;
  return verdict;
}

int PlaceReport::exit() const {
  switch (verdict.zone.zone) {
    case Zone::kInBand:
      return 0;
    case Zone::kRoundingPolicy:
      return strict ? 1 : 0;
    case Zone::kFault:
      return 1;
    case Zone::kTooSmall:
      break;
  }
  return 2;
}

Result<PlaceReport> judge_place(const PlaceOptions& options) {
  const auto name = parse_place(options.place);
  if (!name.ok()) return name.status();
  const auto trace = TraceReader::open(options.oracle);
  if (!trace.ok()) return trace.status();
  auto place = find_place(**trace, *name, options.step);
  if (!place.ok()) return place.status();
  if (!is_real_float(place->dtype) || place->undefined) {
    return Status(Code::kInvalidArgument, place->name() + " is " +
                                              type_text(place->dtype, place->sizes) +
                                              (place->undefined ? " that no call filled" : "") +
                                              ": bands are for float tensors");
  }
  auto candidate = load_tensor(options.candidate, place->name(), place->dtype);
  if (!candidate.ok()) return candidate.status();
  GOLDENTRACE_RETURN_IF_ERROR(check_comparable(*candidate, *place, options));
  if (!options.execute_slice) {
    return Status(Code::kUnsupported, "--at: this replay was built without LibTorch");
  }
  const SliceRequest request{place->calls, {}, {{place->call, place->tensor}}, options.float64};
  const auto values = options.execute_slice(**trace, options.execute, request);
  if (!values.ok()) return values.status();
  auto positions = positions_of(**trace, place->step);
  if (!positions.ok()) return positions.status();

  const SliceOutput& output = values->outputs.front();
  PlaceReport report;
  report.oracle = describe_side(**trace);
  report.candidate = options.candidate;
  report.candidate_type = type_text(*candidate);
  report.weights = options.execute.weights;
  report.verdict = judge_tensor(*candidate, output, place->moves, values->working_dtype);
  report.positions = std::move(*positions);
  if (place->hash) report.as_recorded = hash_bytes(output.eager.bytes) == *place->hash;
  if (!report.as_recorded.value_or(true)) {
    report.environment = options.compare_environment((*trace)->header());
  }
  report.strict = options.strict;
  report.place = std::move(*place);
  return report;
}

}  // namespace goldentrace
