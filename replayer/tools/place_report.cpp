#include "replayer/tools/place_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "replayer/report/format.h"
#include "replayer/report/lines.h"

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMaxEnvironment = 2;
constexpr const char* kVerdictWords[] = {"AGREE  ", "DIVERGE  ", "UNDECIDED  "};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

std::string times(double ratio) {
  return std::isfinite(ratio) ? number(ratio) + " x" : "infinite times";
}

// JSON has no infinity.
json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

std::string headline(const PlaceReport& report) {
  const ZoneReport& zone = report.verdict.zone;
  const std::string place = scope_name(report.place.name());
  const std::string ratio = times(zone.ratio) + " eager's own error";
  switch (zone.zone) {
    case Zone::kInBand:
      return report.verdict.identical ? "the oracle's own bits" : "in band: " + ratio;
    case Zone::kRoundingPolicy:
      return "rounding policy: " + place + " rounds at other points than eager";
    case Zone::kFault:
      break;
    case Zone::kTooSmall:
      return "too few elements to tell noise from a fault";
  }
  if (report.verdict.sums.one_sided > 0) return "kernel: " + place + ": NaN, infinite or mask";
  if (report.place.moves && std::isinf(zone.ratio)) {
    return "kernel: " + place + " moves numbers only, and is not exact";
  }
  if (zone.ratio > zone.band) return "kernel: " + place + " is off, " + ratio;
  return "kernel: " + place + (zone.biased ? " is biased" : " is off in one slice");
}

// "the token at position 12", "channel 40", "index 3 of dimension 1".
std::string slice_name(const PlaceReport& report) {
  const WorstSlice& slice = report.verdict.sums.slice;
  const std::vector<std::int64_t>& sizes = report.place.sizes;
  const std::size_t tokens = report.positions.size();
  const auto token_dimension = static_cast<std::size_t>(
      std::ranges::find(sizes, static_cast<std::int64_t>(tokens)) - sizes.begin());
  if (tokens > 1 && slice.dimension == token_dimension && slice.index < tokens) {
    return "the token at position " + std::to_string(report.positions[slice.index]);
  }
  if (slice.dimension + 1 == sizes.size()) return "channel " + std::to_string(slice.index);
  return "index " + std::to_string(slice.index) + " of dimension " +
         std::to_string(slice.dimension);
}

// In two rows where a path is long, so that it can still be typed.
void add_next(Lines& lines, const PlaceReport& report) {
  std::string command = "replay ENGINE.fb --against " + report.oracle.path;
  std::string rest = "--weights " + report.weights;
  if (report.exit() != 0) {
    command = "replay export " + report.oracle.path;
    rest = "--slice " + report.place.name() +
           (report.place.step > 0 ? " --step " + std::to_string(report.place.step) : "") + " " +
           rest + " -o slice/";
  }
  constexpr std::size_t kMargin = 13;
  if (columns(printable(command + " " + rest)) + kMargin <= kReportWidth) {
    lines.row("next", command + " " + rest);
  } else {
    lines.row("next", command + " \\");
    lines.detail(rest);
  }
}

void add_errors(Lines& lines, const PlaceReport& report) {
  const TensorVerdict& verdict = report.verdict;
  const ZoneReport& zone = verdict.zone;
  if (verdict.sums.one_sided > 0) {
    lines.row("values", "NaN, infinite or mask on one side only in " +
                            counted(verdict.sums.one_sided, "element", "elements"));
  }
  lines.row("error", percent(verdict.relative(verdict.sums.candidate)) +
                         " away from the wide run; eager " +
                         percent(verdict.relative(verdict.sums.eager)) + ", fully rounded " +
                         percent(verdict.relative(verdict.sums.rounded)));
  lines.row("local", times(zone.ratio) + " eager's own error (band " + number(zone.band) + "), " +
                         times(zone.rounded_ratio) + " full rounding's (band " +
                         number(zone.rounded_band) + ")");
  const Bias bias = verdict.sums.bias(verdict.sums.candidate);
  lines.row("bias", "scaled by " + number(100 * bias.scale) + " % +- " +
                        number(100 * bias.standard_error) + " %: " + number(zone.bias_sigmas) +
                        " sigma (band " + number(zone.bias_band) + ")" +
                        (zone.biased ? ", out of band" : ""));
  const WorstSlice& slice = verdict.sums.slice;
  if (slice.excess > 0) {
    lines.row("worst", slice_name(report) + ": " + times(slice.ratio) + " eager's error there, " +
                           times(slice.excess) + " what noise makes");
  }
}

}  // namespace

std::string text_report(const PlaceReport& report) {
  const Place& place = report.place;
  Lines lines;
  const int status = report.exit();
  lines.add(
      at_both_ends(kVerdictWords[status] + headline(report), "exit " + std::to_string(status)));
  const std::size_t width =
      std::max(columns(printable(report.oracle.path)), columns(printable(report.candidate)));
  const std::size_t room = std::min<std::size_t>(width, 32);
  const auto side = [&](const std::string& path, const std::string& text) {
    return padded(clipped_left(printable(path), room), room) + "  " + text;
  };
  lines.row("oracle", side(report.oracle.path, report.oracle.description));
  lines.row("candidate", side(report.candidate, report.candidate_type));
  lines.add_doubts(report.oracle.doubts);
  lines.row("place", scope_name(place.name()) + ", step " + std::to_string(place.step) + ", call " +
                         grouped(place.call) + ", " + type_text(place.dtype, place.sizes));
  const char* recorded = !report.as_recorded   ? "no hash was recorded"
                         : *report.as_recorded ? "its own result is as recorded"
                                               : "its own result is NOT as recorded";
  lines.row("slice", counted(place.calls.size(), "call", "calls") +
                         ", from the oracle's own inputs; " + recorded);
  for (std::size_t i = 0; i < std::min(kMaxEnvironment, report.environment.size()); ++i) {
    lines.row("elsewhere", report.environment[i]);
  }
  add_errors(lines, report);
  lines.row("not seen", "other steps and places; what other inputs make of it");
  add_next(lines, report);
  return lines.take();
}

std::string json_report(const PlaceReport& report) {
  const Place& place = report.place;
  const TensorVerdict& verdict = report.verdict;
  const ZoneReport& zone = verdict.zone;
  const Bias bias = verdict.sums.bias(verdict.sums.candidate);
  json object = {{"report", "place"},
                 {"version", 1},
                 {"verdict", zone_name(zone.zone)},
                 {"headline", headline(report)},
                 {"exit", report.exit()},
                 {"strict", report.strict},
                 {"oracle", report.oracle.path},
                 {"description", report.oracle.description},
                 {"candidate", report.candidate},
                 {"candidate_type", report.candidate_type},
                 {"place", place.name()},
                 {"scope", place.scope},
                 {"step", place.step},
                 {"call", place.call},
                 {"call_scope", place.call_scope},
                 {"call_op", place.call_op},
                 {"tensor", type_text(place.dtype, place.sizes)},
                 {"slice_calls", place.calls.size()},
                 {"exact", place.moves},
                 {"as_recorded", nullptr},
                 {"environment", report.environment},
                 {"identical", verdict.identical},
                 {"elements", verdict.sums.elements},
                 {"one_sided", verdict.sums.one_sided},
                 {"error", finite(verdict.relative(verdict.sums.candidate))},
                 {"eager_error", finite(verdict.relative(verdict.sums.eager))},
                 {"rounded_error", finite(verdict.relative(verdict.sums.rounded))},
                 {"ratio", finite(zone.ratio)},
                 {"band", finite(zone.band)},
                 {"rounded_ratio", finite(zone.rounded_ratio)},
                 {"rounded_band", finite(zone.rounded_band)},
                 {"scale", finite(bias.scale)},
                 {"scale_error", finite(bias.standard_error)},
                 {"bias_sigmas", finite(zone.bias_sigmas)},
                 {"bias_band", finite(zone.bias_band)},
                 {"biased", zone.biased},
                 {"sliced", zone.sliced},
                 {"worst_slice", nullptr}};
  if (report.as_recorded) object["as_recorded"] = *report.as_recorded;
  const WorstSlice& slice = verdict.sums.slice;
  if (slice.excess > 0) {
    object["worst_slice"] = {{"name", slice_name(report)},
                             {"dimension", slice.dimension},
                             {"index", slice.index},
                             {"ratio", finite(slice.ratio)},
                             {"excess", finite(slice.excess)}};
  }
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace goldentrace
