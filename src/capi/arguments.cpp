#include "src/capi/arguments.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "src/base/machine.h"
#include "src/event/program.h"

namespace goldentrace::capi {
namespace {

// The array's items, or kInvalidArgument when it is not there.
template <typename Item>
Result<std::span<const Item>> read_array(const Item* items, std::size_t count, const char* what) {
  if (items == nullptr && count > 0) return invalid(std::string(what) + " is NULL");
  return std::span<const Item>(items, count);
}

Result<std::string> read_bytes(const goldentrace_bytes& from, const char* what) {
  if (from.data == nullptr && from.size > 0) return invalid(std::string(what) + " is NULL");
  return from.size == 0 ? std::string() : std::string(from.data, from.size);
}

// One an id, or none at all.
Result<std::vector<std::string>> read_pieces(const goldentrace_bytes* from, std::size_t count,
                                             const char* what) {
  std::vector<std::string> pieces;
  for (std::size_t i = 0; from != nullptr && i < count; ++i) {
    auto piece = read_bytes(from[i], what);
    if (!piece.ok()) return piece.status();
    pieces.push_back(std::move(*piece));
  }
  return pieces;
}

Result<std::vector<std::int64_t>> read_ids(const std::int64_t* ids, std::size_t count,
                                           const char* what) {
  const auto items = read_array(ids, count, what);
  if (!items.ok()) return items.status();
  return std::vector<std::int64_t>(items->begin(), items->end());
}

std::vector<float> read_numbers(const float* numbers, std::size_t count) {
  return numbers == nullptr ? std::vector<float>() : std::vector<float>(numbers, numbers + count);
}

template <typename Item>
void reorder(std::vector<Item>& items, const std::vector<std::size_t>& order) {
  if (items.empty()) return;
  std::vector<Item> moved;
  moved.reserve(items.size());
  for (const std::size_t from : order) moved.push_back(std::move(items[from]));
  items = std::move(moved);
}

// By falling logit (or logprob), lowest id first among equals; NaN ahead of all, as argmax has it.
void sort_top(Step& step) {
  const auto& by = step.top_logits.empty() ? step.top_logprobs : step.top_logits;
  if (by.empty()) return;
  std::vector<std::size_t> order(by.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t left, std::size_t right) {
    const auto [l, r] = std::pair(by[left], by[right]);
    if (std::isnan(l) != std::isnan(r)) return std::isnan(l);
    if (l != r && !std::isnan(l)) return l > r;
    return step.top_ids[left] < step.top_ids[right];
  });
  reorder(step.top_ids, order);
  reorder(step.top_pieces, order);
  reorder(step.top_logits, order);
  reorder(step.top_logprobs, order);
}

}  // namespace

Result<Shape> read_shape(std::uint32_t dtype, std::uint32_t rank, const std::int64_t* sizes,
                         const std::int64_t* strides) {
  Shape shape;
  const std::size_t item = dtype > 0xff ? 0 : item_size(static_cast<DType>(dtype));
  if (item == 0) return invalid("dtype " + std::to_string(dtype) + " is none");
  shape.dtype = static_cast<DType>(dtype);
  if (rank > kMaxRank) {
    return invalid("rank " + std::to_string(rank) + " is more than " + std::to_string(kMaxRank));
  }
  if (rank > 0 && sizes == nullptr) return invalid("sizes is NULL");
  shape.sizes.assign(sizes, sizes + rank);
  if (std::ranges::any_of(shape.sizes, [](std::int64_t size) { return size < 0; })) {
    return invalid("a size is negative");
  }
  // Of an empty tensor, the others' product: its dense strides are computed too.
  std::int64_t count = 1;
  shape.strides.resize(rank);
  for (std::size_t d = rank; d-- > 0;) {
    shape.strides[d] = strides == nullptr ? count : strides[d];
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(shape.sizes[d], 1), &count) ||
        count > kMaxTensorBytes / static_cast<std::int64_t>(item)) {
      return invalid("the sizes ask for more bytes than any tensor has");
    }
  }
  if (std::ranges::count(shape.sizes, 0) > 0) return shape;
  shape.bytes = count * static_cast<std::int64_t>(item);
  std::int64_t highest = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t step = 0;
    std::int64_t& end = shape.strides[d] < 0 ? shape.lowest : highest;
    if (__builtin_mul_overflow(shape.sizes[d] - 1, shape.strides[d], &step) ||
        __builtin_add_overflow(end, step, &end) || end > kMaxTensorBytes ||
        end < -kMaxTensorBytes) {
      return invalid("the strides reach further than any memory");
    }
  }
  shape.span_bytes = (highest - shape.lowest + 1) * static_cast<std::int64_t>(item);
  return shape;
}

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

Result<std::string> read_name(const char* text, const char* what) {
  if (text == nullptr || *text == '\0') return invalid(std::string(what) + " is not given");
  return std::string(text);
}

Result<Placement> read_placement(const goldentrace_placement& from) {
  if (from.kind > GOLDENTRACE_PARTIAL_SUM) {
    return invalid("placement.kind " + std::to_string(from.kind) + " is none");
  }
  if (from.kind == GOLDENTRACE_REPLICATED) return Placement();
  if (from.index >= from.count) return invalid("placement.index is not below placement.count");
  return Placement{static_cast<PlacementKind>(from.kind), from.dim, from.index, from.count};
}

Result<std::vector<Row>> read_rows(const goldentrace_row* rows, std::size_t count) {
  const auto items = read_array(rows, count, "rows");
  if (!items.ok()) return items.status();
  if (count > kMaxNoteBytes / sizeof(TensorRow)) return invalid("more rows than a tensor can have");
  std::vector<Row> read;
  read.reserve(count);
  for (const goldentrace_row& row : *items) {
    if (row.reserved != 0) return invalid("row.reserved is not 0");
    if (row.position < 0 || row.position > std::numeric_limits<std::int64_t>::max() - row.count) {
      return invalid("row.position " + std::to_string(row.position) + " is none of a text");
    }
    read.push_back({row.request, row.first_row, row.count, row.position});
  }
  return read;
}

Result<std::vector<std::string>> read_texts(const char* const* texts, std::size_t count,
                                            const char* what) {
  const auto items = read_array(texts, count, what);
  if (!items.ok()) return items.status();
  std::vector<std::string> read;
  for (const char* text : *items) {
    if (text == nullptr) return invalid(std::string("an entry of ") + what + " is NULL");
    read.emplace_back(text);
  }
  return read;
}

Result<Header> read_header(const goldentrace_writer_options& options) {
  auto engine = read_name(options.engine, "options.engine");
  if (!engine.ok()) return engine.status();
  auto command = read_texts(options.command, options.command_count, "options.command");
  if (!command.ok()) return command.status();
  const auto environment =
      read_array(options.environment, options.environment_count, "options.environment");
  if (!environment.ok()) return environment.status();
  Header header;
  header.engine = std::move(*engine);
  header.engine_version = text_or_empty(options.engine_version);
  header.device = options.device == nullptr ? "cpu" : options.device;
  header.dtype = text_or_empty(options.dtype);
  header.model_config = text_or_empty(options.model_config);
  header.command = std::move(*command);
  header.mesh = text_or_empty(options.mesh);
  header.rank = options.rank;
  header.world = options.world == 0 ? 1 : options.world;
  if (header.rank >= header.world) return invalid("options.rank is not below options.world");
  for (const goldentrace_pair& pair : *environment) {
    if (pair.key == nullptr || pair.value == nullptr) {
      return invalid("an entry of options.environment is NULL");
    }
    header.environment.emplace_back(pair.key, pair.value);
  }
  for (auto& pair : machine_environment()) {
    if (pair.first == "cpu" && header.environment_value("cpu").empty()) {
      header.environment.push_back(std::move(pair));
    }
  }
  std::ranges::sort(header.environment);
  header.started_unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  return header;
}

namespace {

std::uint64_t size_of(const std::vector<std::string>& texts) {
  std::uint64_t size = 0;
  for (const std::string& text : texts) size += text.size() + 12;
  return size;
}

}  // namespace

std::uint64_t size_of(const Request& request) {
  std::uint64_t size = 256 + request.prompt.size() + request.output.size();
  size += 8 * (request.prompt_ids.size() + request.stop_ids.size() + request.output_ids.size());
  size += size_of(request.prompt_pieces) + size_of(request.output_pieces);
  for (const Setting& setting : request.sampling) {
    size += 64 + setting.name.size() + setting.value.size() + setting.origin.size();
  }
  return size;
}

std::uint64_t size_of(const Parameter& parameter) {
  return 96 + parameter.name.size() + size_of(parameter.sources);
}

std::uint64_t size_of(const Step& step) {
  return 128 + 24 * step.rows.size() + 16 * step.top_ids.size() + size_of(step.top_pieces);
}

Result<Request> read_request(const goldentrace_request& from) {
  auto prompt = read_bytes(from.prompt, "prompt");
  if (!prompt.ok()) return prompt.status();
  auto prompt_ids = read_ids(from.prompt_ids, from.prompt_count, "prompt_ids");
  if (!prompt_ids.ok()) return prompt_ids.status();
  auto prompt_pieces = read_pieces(from.prompt_pieces, from.prompt_count, "a prompt piece");
  if (!prompt_pieces.ok()) return prompt_pieces.status();
  auto stop_ids = read_ids(from.stop_ids, from.stop_count, "stop_ids");
  if (!stop_ids.ok()) return stop_ids.status();
  auto output_ids = read_ids(from.output_ids, from.output_count, "output_ids");
  if (!output_ids.ok()) return output_ids.status();
  auto output_pieces = read_pieces(from.output_pieces, from.output_count, "an output piece");
  if (!output_pieces.ok()) return output_pieces.status();
  auto output = read_bytes(from.output, "output");
  if (!output.ok()) return output.status();
  const auto sampling = read_array(from.sampling, from.sampling_count, "sampling");
  if (!sampling.ok()) return sampling.status();
  Request request{from.id,
                  std::move(*prompt),
                  std::move(*prompt_ids),
                  std::move(*prompt_pieces),
                  {},
                  std::move(*stop_ids),
                  std::move(*output_ids),
                  std::move(*output_pieces),
                  std::move(*output),
                  text_or_empty(from.finish_reason)};
  for (const goldentrace_setting& setting : *sampling) {
    auto name = read_name(setting.name, "a setting's name");
    if (!name.ok()) return name.status();
    request.sampling.push_back({std::move(*name), text_or_empty(setting.value),
                                setting.origin == nullptr ? "default" : setting.origin});
  }
  if (size_of(request) > kMaxTextBytes) return invalid("the request is too large for a trace");
  return request;
}

Result<Step> read_result(const goldentrace_result& from) {
  auto rows = read_rows(from.rows, from.rows_count);
  if (!rows.ok()) return rows.status();
  auto top_ids = read_ids(from.top_ids, from.top_count, "top_ids");
  if (!top_ids.ok()) return top_ids.status();
  auto top_pieces = read_pieces(from.top_pieces, from.top_count, "a top piece");
  if (!top_pieces.ok()) return top_pieces.status();
  if (from.logprob_kind > GOLDENTRACE_LOGPROB_PROCESSED) {
    return invalid("logprob_kind " + std::to_string(from.logprob_kind) + " is none");
  }
  Step step;
  step.rows = std::move(*rows);
  if (std::ranges::any_of(
          step.rows, [&](const Row& row) { return row.request != step.rows.front().request; })) {
    return invalid("rows of several requests: give one result a request");
  }
  step.chosen = from.chosen;
  step.top_ids = std::move(*top_ids);
  step.top_logits = read_numbers(from.top_logits, from.top_count);
  step.top_logprobs = read_numbers(from.top_logprobs, from.top_count);
  step.top_pieces = std::move(*top_pieces);
  step.gap_ulp = from.gap_ulp;
  step.logprob = from.logprob;
  step.logits_rms = from.logits_rms;
  step.logprob_kind = static_cast<LogprobKind>(from.logprob_kind);
  sort_top(step);
  if (size_of(step) > kMaxTextBytes) return invalid("the result is too large for a trace");
  return step;
}

}  // namespace goldentrace::capi
