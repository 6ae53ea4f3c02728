// Traces of made-up runs, with real numbers in them: hashes, stats and kept bytes are those of the
// values that a test gives, so that two runs differ exactly where the test says.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "src/digest/digest.h"
#include "src/format/trace_writer.h"
#include "tests/support/temp_folder.h"

namespace goldentrace::testing {

// How much of an output is kept; each level has the one before.
enum class Keep { kNothing, kHash, kStats, kValues };

struct RunOutput {
  std::vector<double> values;  // rounded to `dtype` when written
  DType dtype = DType::kBFloat16;
  Keep keep = Keep::kStats;
  bool decision = false;
  std::optional<Stats> stats{};  // in place of the true ones
};

struct RunCall {
  std::string scope;
  std::string op = "aten::mul";
  std::vector<RunOutput> outputs;
  std::vector<Node> arguments{};  // no tensors: alignment and bands do not look at them
  std::vector<Node> results{};    // beside the outputs: numbers that go back to Python
  std::uint8_t flags = 0;         // CallFlag
};

struct MadeRun {
  Header header;
  Text text;
  std::vector<Parameter> parameters;  // of tensor 0
  std::vector<std::vector<RunCall>> steps;
  std::vector<Counter> counters;
};

inline Node double_node(double value, NodeKind kind = NodeKind::kDouble) {
  return {kind, 0, std::bit_cast<std::int64_t>(value)};
}

// Bits of the float16 nearest to `value`, ties to even.
inline std::uint16_t float16_bits(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double size = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (size < 0x1p-14) {
    return static_cast<std::uint16_t>(sign | static_cast<int>(std::nearbyint(size * 0x1p24)));
  }
  const int exponent = std::ilogb(size);
  const int fraction = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + fraction));
}

// Bits of the bfloat16 nearest to `value`, ties to even.
inline std::uint16_t bfloat16_bits(double value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline Bytes dense_of(DType dtype, const std::vector<double>& values) {
  Bytes bytes(values.size() * item_size(dtype));
  const auto put = [&](std::size_t i, auto item) {
    std::memcpy(bytes.data() + i * sizeof(item), &item, sizeof(item));
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::kBFloat16:
        put(i, bfloat16_bits(values[i]));
        break;
      case DType::kFloat16:
        put(i, float16_bits(values[i]));
        break;
      case DType::kFloat32:
        put(i, static_cast<float>(values[i]));
        break;
      case DType::kFloat64:
        put(i, values[i]);
        break;
      case DType::kInt64:
        put(i, static_cast<std::int64_t>(values[i]));
        break;
      default:
        throw std::invalid_argument("dense_of: no such dtype in these tests");
    }
  }
  return bytes;
}

inline Digest digest_of(DType dtype, const std::vector<double>& values) {
  const Bytes bytes = dense_of(dtype, values);
  const std::int64_t sizes[] = {static_cast<std::int64_t>(values.size())};
  const std::int64_t strides[] = {1};
  return digest_tensor({bytes.data(), dtype, sizes, strides}, {.stats = true});
}

// `count` numbers of about `scale`, always the same for the same seed.
inline std::vector<double> numbers(std::uint32_t seed, std::size_t count, double scale = 1) {
  std::mt19937 generator(seed);
  std::vector<double> values(count);
  for (double& value : values) {
    value = scale * (static_cast<double>(generator() % 20001) / 10000 - 1);
  }
  return values;
}

// Turns runs into program chunks: one chunk a step, definitions where they are used first.
class RunWriter {
 public:
  explicit RunWriter(TraceWriter& writer) : writer_(writer) {}

  void write_step(std::uint32_t step, const std::vector<RunCall>& calls) {
    chunk_ = {};
    chunk_.base = base_;
    if (base_.calls == 0) {
      chunk_.strings = {"cpu"};
      chunk_.ambients = {{}};
    }
    for (const RunCall& call : calls) add(step, call);
    (void)writer_.write_program(chunk_);  // latches; close() tells
    base_ = chunk_.next_base();
  }
  [[nodiscard]] std::uint64_t calls() const { return base_.calls; }

 private:
  template <typename Key, typename Value>
  static std::uint32_t intern(std::map<Key, std::uint32_t>& known, const Key& key,
                              std::vector<Value>& defined, Value value) {
    const auto [found, added] = known.try_emplace(key, static_cast<std::uint32_t>(known.size()));
    if (added) defined.push_back(std::move(value));
    return found->second;
  }

  void add(std::uint32_t step, const RunCall& from) {
    Call call;
    call.op = intern(ops_, from.op, chunk_.operators, Operator{from.op, ""});
    call.scope = intern(scopes_, from.scope, chunk_.scopes, from.scope);
    call.step = step;
    call.flags = from.flags;
    call.arguments = static_cast<std::uint16_t>(from.arguments.size());
    call.results = static_cast<std::uint16_t>(from.outputs.size() + from.results.size());
    call.writes = static_cast<std::uint16_t>(from.outputs.size());
    call.first_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    call.first_write = static_cast<std::uint32_t>(chunk_.writes.size());
    chunk_.nodes.insert(chunk_.nodes.end(), from.arguments.begin(), from.arguments.end());
    call.first_result = static_cast<std::uint32_t>(chunk_.nodes.size());
    for (const RunOutput& output : from.outputs) add(output);
    chunk_.nodes.insert(chunk_.nodes.end(), from.results.begin(), from.results.end());
    call.end_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    chunk_.timings.push_back({0, base_.calls + chunk_.calls.size(), 1});
    chunk_.calls.push_back(call);
  }

  void add(const RunOutput& output) {
    const Bytes bytes = dense_of(output.dtype, output.values);
    const auto count = static_cast<std::int64_t>(output.values.size());
    const Geometry geometry{{1, count}, {count, 1}};
    const auto tensor = base_.tensors + static_cast<std::uint32_t>(chunk_.tensors.size());
    const auto storage = base_.storages + static_cast<std::uint32_t>(chunk_.storages.size());
    chunk_.storages.push_back({bytes.size(), 0});
    chunk_.tensors.push_back(
        {storage, intern(geometries_, count, chunk_.geometries, geometry), output.dtype, 0, 0});
    chunk_.nodes.push_back({NodeKind::kTensor, 1, tensor});

    const Digest digest = digest_of(output.dtype, output.values);
    Write write{tensor, 1, 0, {}, 0};
    if (output.decision) write.flags |= kWriteDecision;
    if (output.keep == Keep::kNothing) write.flags |= kWriteUndefined;
    if (output.keep >= Keep::kHash) {
      write.flags |= kWriteHashed;
      write.hash = digest.hash;
    }
    if (output.keep >= Keep::kStats && is_real_float(output.dtype)) {
      write.flags |= kWriteStats;
      write.stats_index = static_cast<std::uint32_t>(chunk_.stats.size());
      chunk_.stats.push_back(output.stats.value_or(digest.stats));
    }
    if (output.keep >= Keep::kValues) {
      write.flags |= kWriteValue;
      (void)writer_.write_value(digest.hash, bytes, 4);
    }
    chunk_.writes.push_back(write);
  }

  TraceWriter& writer_;
  ProgramBase base_;
  ProgramChunk chunk_;
  std::map<std::string, std::uint32_t> ops_;
  std::map<std::string, std::uint32_t> scopes_;
  std::map<std::int64_t, std::uint32_t> geometries_;
};

// Writes `run` to `name` in `folder` and returns its path.
inline std::string write_run(const TempFolder& folder, const std::string& name,
                             const MadeRun& run) {
  const std::string path = folder.file(name);
  auto sink = create_file(path);
  if (!sink.ok()) throw std::runtime_error(sink.status().message());
  auto writer = TraceWriter::create(std::move(*sink), run.header);
  if (!writer.ok()) throw std::runtime_error(writer.status().message());
  RunWriter program(**writer);
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    if (run.steps[step].empty()) continue;
    program.write_step(static_cast<std::uint32_t>(step), run.steps[step]);
  }
  if (!run.parameters.empty()) (void)(*writer)->write_parameters(run.parameters);
  (void)(*writer)->write_text(run.text);
  const Status status = (*writer)->close({run.counters, program.calls(), 1000});
  if (!status.ok()) throw std::runtime_error(status.message());
  return path;
}

// A sound run: `steps` x `calls` outputs of 32 bfloat16 numbers, two calls a module, and tokens
// 100, 101, ... that nothing comes near.
inline MadeRun sample_run(std::uint32_t steps = 3, std::uint32_t calls = 6,
                          Keep keep = Keep::kStats) {
  MadeRun run;
  run.header.engine = "transformers";
  run.header.engine_version = "5.24.0";
  run.header.device = "cpu";
  run.header.dtype = "bfloat16";
  run.header.model_config = R"({"model_type": "tiny", "hidden_size": 32})";
  run.header.environment = {{"attention", "eager"}, {"torch", "2.15.0"}};
  Request request;
  request.prompt = "Hello";
  request.prompt_ids = {1, 2, 3};
  request.prompt_pieces = {"<s>", "Hel", "lo"};
  request.sampling = {{"do_sample", "false", "request"}, {"max_new_tokens", "8", "request"}};
  request.stop_ids = {2};
  for (std::uint32_t step = 0; step < steps; ++step) {
    std::vector<RunCall> made;
    for (std::uint32_t call = 0; call < calls; ++call) {
      made.push_back({"model.layers." + std::to_string(call / 2),
                      call % 2 == 0 ? "aten::linear" : "aten::mul",
                      {{numbers(step * 1000 + call, 32), DType::kBFloat16, keep}}});
    }
    run.steps.push_back(std::move(made));
    Step token;
    token.step = step;
    token.rows = {{0, 0, step == 0 ? 3u : 1u, step == 0 ? 0 : 2 + static_cast<std::int64_t>(step)}};
    token.chosen = 100 + static_cast<std::int64_t>(step);
    token.top_ids = {token.chosen, 7};
    token.top_logits = {20, 10};
    token.gap_ulp = 80;
    run.text.steps.push_back(token);
    request.output_ids.push_back(token.chosen);
    request.output_pieces.push_back(" t" + std::to_string(step));
  }
  run.text.requests = {request};
  run.parameters = {{"w", ParameterKind::kParameter, 0, {1, 2}, Recipe::kSame, {"w"}, {}}};
  return run;
}

// The values of output 0 of a call of `run`.
inline std::vector<double>& values_of(MadeRun& run, std::size_t step, std::size_t call) {
  return run.steps[step][call].outputs[0].values;
}

// Every value moved by `relative` of itself, up and down in turns: norm kept, distance `relative`.
inline void disturb(std::vector<double>& values, double relative) {
  double sign = 1;
  for (double& value : values) value *= 1 + std::exchange(sign, -sign) * relative;
}

}  // namespace goldentrace::testing
