#include "replayer/tools/show_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "replayer/band/band.h"
#include "replayer/report/format.h"
#include "replayer/report/lines.h"
#include "replayer/tools/elements.h"
#include "src/digest/digest.h"

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMaxElementRows = 16;
constexpr std::size_t kMaxElements = 1000;  // in JSON
constexpr std::size_t kMaxEnvironment = 2;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

std::size_t count_of(const DenseTensor& tensor) {
  return tensor.bytes.size() / item_size(tensor.dtype);
}

Stats stats_of(const DenseTensor& tensor) {
  std::vector<std::int64_t> strides(tensor.sizes.size(), 1);
  for (std::size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * tensor.sizes[d];
  return digest_tensor({tensor.bytes.data(), tensor.dtype, tensor.sizes, strides}, {.stats = true})
      .stats;
}

double ordinary(const Stats& stats) {
  return static_cast<double>(stats.count - stats.nan - stats.positive_infinity -
                             stats.negative_infinity - stats.sentinel);
}

// Where the least and the greatest element of integers are.
std::pair<std::size_t, std::size_t> extremes(const DenseTensor& tensor) {
  const std::size_t item = item_size(tensor.dtype);
  const bool is_signed = tensor.dtype == DType::kInt8 || tensor.dtype == DType::kInt16 ||
                         tensor.dtype == DType::kInt32 || tensor.dtype == DType::kInt64;
  const auto key = [&](std::size_t i) -> std::uint64_t {
    std::uint64_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + i * item, item);
    if (!is_signed) return bits;
    const std::size_t unused = 64 - 8 * item;
    const auto value = static_cast<std::int64_t>(bits << unused) >> unused;
    return static_cast<std::uint64_t>(value) ^ (1ull << 63);  // in the order of unsigned ones
  };
  std::pair<std::size_t, std::size_t> found{0, 0};
  for (std::size_t i = 1; i < count_of(tensor); ++i) {
    if (key(i) < key(found.first)) found.first = i;
    if (key(i) > key(found.second)) found.second = i;
  }
  return found;
}

std::string stats_text(const DenseTensor& tensor) {
  if (tensor.bytes.empty()) return "no elements";
  if (is_integral(tensor.dtype)) {
    const auto [least, greatest] = extremes(tensor);
    return "min " + element_text(tensor, least) + ", max " + element_text(tensor, greatest);
  }
  if (!is_real_float(tensor.dtype)) return "none of " + std::string(dtype_name(tensor.dtype));
  const Stats stats = stats_of(tensor);
  std::string text = "min " + number(stats.min) + ", max " + number(stats.max);
  if (ordinary(stats) > 0) text += ", mean " + number(stats.sum / ordinary(stats));
  text += ", norm " + number(std::sqrt(stats.sum_squares)) + "; " + grouped(stats.nan) + " NaN, " +
          grouped(stats.positive_infinity + stats.negative_infinity) + " infinite";
  if (stats.sentinel > 0) text += ", " + grouped(stats.sentinel) + " masks";
  return text + ", " + grouped(stats.zero) + " zeros";
}

json stats_json(const DenseTensor& tensor) {
  if (!is_real_float(tensor.dtype)) return nullptr;
  const Stats stats = stats_of(tensor);
  json mean = nullptr;
  if (ordinary(stats) > 0) mean = stats.sum / ordinary(stats);
  return {{"count", stats.count},
          {"nan", stats.nan},
          {"positive_infinity", stats.positive_infinity},
          {"negative_infinity", stats.negative_infinity},
          {"sentinel", stats.sentinel},
          {"zero", stats.zero},
          {"min", stats.min},
          {"max", stats.max},
          {"mean", mean},
          {"norm", std::sqrt(stats.sum_squares)}};
}

// JSON has no NaN and no infinity: they are text, as complex numbers are.
json element_json(const DenseTensor& tensor, std::size_t i) {
  if (tensor.dtype == DType::kBool) return tensor.bytes[i] != std::byte{0};
  if (is_integral(tensor.dtype)) return json::parse(element_text(tensor, i));
  if (!is_real_float(tensor.dtype)) return element_text(tensor, i);
  const double value = load_real(tensor.dtype, tensor.bytes.data(), i);
  return std::isfinite(value) ? json(value) : json(element_text(tensor, i));
}

Result<DenseTensor> kept_value(const TraceReader& trace, const Place& place) {
  auto bytes = trace.value(*place.hash);
  if (!bytes.ok()) return bytes.status();
  DenseTensor tensor{place.dtype, place.sizes, std::move(*bytes)};
  std::uint64_t size = item_size(place.dtype);
  for (const std::int64_t dimension : place.sizes) size *= static_cast<std::uint64_t>(dimension);
  if (tensor.bytes.size() != size) {
    return Status(Code::kCorrupt, trace.name() + ": the value of " + place.name() +
                                      " has another size: `replay check` tells more");
  }
  return tensor;
}

void compare(const TraceReader& trace, const ShowTensorOptions& options, ShownTensor& shown) {
  const Place& place = shown.place;
  if (options.promote || !place.hash) return;
  shown.as_recorded = hash_bytes(shown.tensor.bytes) == *place.hash;
  if (*shown.as_recorded) return;
  shown.environment = options.compare_environment(trace.header());
  if (place.stats && is_real_float(place.dtype)) {
    shown.moved = distance_from_stats(*place.stats, stats_of(shown.tensor)).relative();
  }
}

std::string value_text(const ShownTensor& shown) {
  if (shown.kept) return "as the trace keeps it";
  const std::string again = "computed again";
  if (shown.promote) {
    return again + ", the whole program in " + std::string(dtype_name(*shown.promote));
  }
  if (!shown.as_recorded) return again + "; no hash was recorded: nothing to hold it against";
  if (*shown.as_recorded) return again + ", as recorded, bit by bit";
  std::string text = again + "; NOT the recorded bits";
  if (shown.moved > 0) text += ", at least " + percent(shown.moved) + " away";
  return text + (shown.environment.empty() ? "" : ": this is another machine");
}

}  // namespace

Result<ShownTensor> show_tensor(const ShowTensorOptions& options) {
  const auto name = parse_place(options.place);
  if (!name.ok()) return name.status();
  const auto trace = TraceReader::open(options.trace);
  if (!trace.ok()) return trace.status();
  auto place = find_place(**trace, *name, options.step);
  if (!place.ok()) return place.status();
  if (place->undefined) {
    return Status(Code::kInvalidArgument,
                  place->name() + " is memory that no call filled: it has no value");
  }
  ShownTensor shown;
  shown.trace = options.trace;
  shown.weights = options.execute.weights;
  shown.promote = options.promote;
  shown.kept = place->kept && !options.promote;
  shown.place = std::move(*place);
  if (!shown.kept && options.execute.weights.empty()) {
    return Status(Code::kInvalidArgument,
                  options.trace + ": the value of " + shown.place.name() +
                      (options.promote ? " is kept as recorded" : " was not kept") +
                      ": --weights MODEL_DIR computes it again");
  }
  if (!shown.kept && !options.recompute) {
    return Status(Code::kUnsupported, "--weights: this replay was built without LibTorch");
  }
  const Promotion promotion = !options.promote                      ? Promotion::kNone
                              : *options.promote == DType::kFloat64 ? Promotion::kFloat64
                                                                    : Promotion::kFloat32;
  auto tensor = shown.kept ? kept_value(**trace, shown.place)
                           : options.recompute(**trace, options.execute,
                                               {shown.place.call, shown.place.tensor}, promotion);
  if (!tensor.ok()) return tensor.status();
  shown.tensor = std::move(*tensor);
  compare(**trace, options, shown);
  return shown;
}

std::string text_report(const ShownTensor& shown) {
  const Place& place = shown.place;
  Lines lines;
  lines.add(scope_name(place.name()) + "    step " + std::to_string(place.step) +
            (place.step == 0 ? " (prefill)" : " (decode)"));
  lines.row("tensor", type_text(shown.tensor) + ", call " + grouped(place.call) + ", " +
                          place.call_op + " in " + scope_name(place.call_scope));
  lines.row("value", value_text(shown));
  for (std::size_t i = 0; i < std::min(kMaxEnvironment, shown.environment.size()); ++i) {
    lines.row("elsewhere", shown.environment[i]);
  }
  lines.row("stats", stats_text(shown.tensor));
  for (const std::string& row : element_rows(shown.tensor, kMaxElementRows)) {
    lines.add("    " + row);
  }
  return lines.take();
}

std::string json_report(const ShownTensor& shown) {
  const Place& place = shown.place;
  json elements = json::array();
  for (std::size_t i = 0; i < std::min(kMaxElements, count_of(shown.tensor)); ++i) {
    elements.push_back(element_json(shown.tensor, i));
  }
  json object = {{"report", "tensor"},
                 {"version", 1},
                 {"trace", shown.trace},
                 {"place", place.name()},
                 {"scope", place.scope},
                 {"step", place.step},
                 {"call", place.call},
                 {"call_scope", place.call_scope},
                 {"call_op", place.call_op},
                 {"dtype", dtype_name(shown.tensor.dtype)},
                 {"shape", shown.tensor.sizes},
                 {"value", shown.kept ? "kept" : "computed"},
                 {"promoted", shown.promote.has_value()},
                 {"hash", to_hex(hash_bytes(shown.tensor.bytes))},
                 {"recorded_hash", nullptr},
                 {"as_recorded", nullptr},
                 {"environment", shown.environment},
                 {"stats", stats_json(shown.tensor)},
                 {"first_elements", std::move(elements)}};
  if (place.hash) object["recorded_hash"] = to_hex(*place.hash);
  if (shown.as_recorded) object["as_recorded"] = *shown.as_recorded;
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace goldentrace
