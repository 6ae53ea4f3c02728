// What a trace knows beside its calls: who ran, on what, with which parameters, text and tokens.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/digest.h"
#include "src/event/placement.h"

namespace goldentrace {

// First chunk of every trace.
struct Header {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
  std::string engine;          // "transformers"
  std::string engine_version;  // "5.24.0"
  std::string device;          // "cpu", "cuda"
  std::string dtype;           // of the weights as run: "bfloat16"
  std::string model_config;    // the whole config as JSON; "" when unknown
  // Numerics switches and versions, sorted by key; the keys are listed in FORMAT.md.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> command;
  std::int64_t started_unix_ns = 0;
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::string mesh;  // free-form until ranks are joined
  // What ran at each module path ("transformers.models.x.modeling_x.XMLP"), sorted by path.
  std::vector<std::pair<std::string, std::string>> modules;
  // What makes the run a doubtful oracle, each "kind: text"; the kinds are listed in FORMAT.md.
  std::vector<std::string> warnings;

  bool operator==(const Header&) const = default;

  // The value under `key`, or "".
  [[nodiscard]] const std::string& environment_value(const std::string& key) const;
};

// How a module's parameter comes from the checkpoint's tensors. Stored: append only.
enum class Recipe : std::uint8_t {
  kValue = 0,   // it does not: the bytes are in a values chunk under the parameter's hash
  kSame = 1,    // equal to sources[0]
  kCast = 2,    // sources[0] converted to the parameter's dtype
  kTied = 3,    // the same memory as the parameter named sources[0]
  kStack = 4,   // the sources, converted to its dtype, stacked along a new first dimension
  kConcat = 5,  // the sources' elements, converted to its dtype, one after the other, in its shape
  kComputed = 6,  // recorded calls have made it by then
};

enum class ParameterKind : std::uint8_t { kParameter = 0, kBuffer = 1 };

struct Parameter {
  std::string name;  // as the module calls it: "model.layers.0.input_layernorm.weight"
  ParameterKind kind = ParameterKind::kParameter;
  std::uint32_t tensor = 0;  // tensor id
  Hash128 hash;              // of the tensor's dense bytes
  Recipe recipe = Recipe::kValue;
  std::vector<std::string> sources;
  Placement placement;
  std::uint64_t call = 0;  // its bytes are in place before this call
  bool operator==(const Parameter&) const = default;
};

// A setting and who chose it: "request", "model" (a file of the model) or "default".
struct Setting {
  std::string name;
  std::string value;
  std::string origin;
  bool operator==(const Setting&) const = default;
};

struct Request {
  std::uint32_t id = 0;
  std::string prompt;  // text; "" when the run was given ids
  std::vector<std::int64_t> prompt_ids;
  std::vector<std::string> prompt_pieces;  // the tokenizer's piece for each id; may be empty
  std::vector<Setting> sampling;
  std::vector<std::int64_t> stop_ids;
  std::vector<std::int64_t> output_ids;
  std::vector<std::string> output_pieces;
  std::string output;         // text; "" when unknown
  std::string finish_reason;  // "stop", "length", the engine's own; "" when unknown
  bool operator==(const Request&) const = default;

  // The run was fed output_ids, whatever the model chose: the setting "forced" is "true".
  [[nodiscard]] bool forced() const;
};

// What a logprob was taken from. Stored: append only.
enum class LogprobKind : std::uint8_t {
  kRaw = 0,        // the model's logits: temperature 1, nothing penalised or filtered
  kProcessed = 1,  // what the sampler drew from
};

// What one forward pass gave one request, and the token chosen from it.
struct Step {
  std::uint32_t step = 0;
  std::vector<Row> rows;  // all of one request
  std::int64_t chosen = -1;
  std::vector<std::int64_t> top_ids;  // by falling logit, lowest id first among equals
  std::vector<float> top_logits;      // one an id, or none
  // Top-2 gap in units in the last place of the top logit's dtype; NaN when unknown.
  double gap_ulp = std::numeric_limits<double>::quiet_NaN();
  double logits_rms = 0;  // root mean square of the finite logits; 0 when unknown
  // Natural log of the chosen token's probability; NaN when unknown.
  double logprob = std::numeric_limits<double>::quiet_NaN();
  std::vector<float> top_logprobs;      // one an id, or none
  std::vector<std::string> top_pieces;  // one an id, or none
  LogprobKind logprob_kind = LogprobKind::kRaw;
  bool operator==(const Step&) const = default;
};

enum class CounterSeverity : std::uint8_t { kInfo = 0, kLoss = 1, kError = 2 };
enum class CounterOrigin : std::uint8_t { kRecording = 0, kReading = 1 };

// Loss is data. Names are listed in FORMAT.md.
struct Counter {
  std::string name;
  CounterSeverity severity = CounterSeverity::kInfo;
  CounterOrigin origin = CounterOrigin::kRecording;
  std::uint64_t value = 0;
  std::string first;  // where it happened first, for people; may be empty
  bool operator==(const Counter&) const = default;
};

// Last chunk before the index; its presence says that the recorder closed the file itself.
struct Summary {
  std::vector<Counter> counters;
  std::uint64_t calls = 0;
  std::uint64_t duration_ns = 0;
  bool operator==(const Summary&) const = default;

  [[nodiscard]] std::uint64_t counter(const std::string& name) const;
};

// Which of its request's output tokens a step gave: its last row tells, and where there is none,
// `order`, the number of the request's steps before it.
std::size_t output_of(const Request& request, const Step& step, std::size_t order);

}  // namespace goldentrace
