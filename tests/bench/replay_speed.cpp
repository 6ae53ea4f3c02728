// Speed of `replay CANDIDATE --against ORACLE` on one thread, files in the page cache, in the
// processor's time:
//   values  pairs of 2 x 512 MB of values that all differ: bytes a second, those of both sides; with
//           checksums, decompression, proof of every value by its hash, and distances
//   calls   pairs of 1,000,000 calls with hash, stats and sketch that all differ: seconds
//   replay_speed FOLDER [values | calls]     FOLDER has room for 3 GB, and is left as it was
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "replayer/replay.h"
#include "src/digest/digest.h"
#include "src/format/trace_writer.h"

namespace {

using namespace goldentrace;

constexpr std::uint32_t kOps = 12;
constexpr std::uint32_t kKinds = 6;  // of shapes
constexpr std::size_t kCallsAChunk = 2048;

struct Plan {
  std::uint32_t steps = 1;
  std::uint32_t calls = 1;        // a step
  std::uint64_t value_bytes = 0;  // a call; 0: hash, stats and sketch alone
  DType dtype = DType::kBFloat16;
  ValueCompression compression = ValueCompression::kNone;
  std::uint32_t scopes = 40;
  std::uint32_t skip_every = 0;  // the candidate lacks every so many-th call
  bool fault = false;            // a call that is wrong in the second half of the steps
};

// One side of a pair: the same program, numbers with noise of their own.
class Side {
 public:
  Side(const Plan& plan, bool candidate, TraceWriter& writer)
      : plan_(plan), candidate_(candidate), writer_(writer) {
    chunk_.strings = {"cpu"};
    chunk_.ambients = {{}};
    for (std::uint32_t i = 0; i < kOps; ++i) {
      chunk_.operators.push_back({"aten::op" + std::to_string(i), "Tensor"});
    }
    for (std::uint32_t i = 0; i < plan.scopes; ++i) {
      chunk_.scopes.push_back("model.layers." + std::to_string(i / 4) + ".part" +
                              std::to_string(i % 4));
    }
    const auto elements = static_cast<std::int64_t>(plan.value_bytes / item_size(plan.dtype));
    for (std::int64_t i = 0; i < kKinds; ++i) {
      const std::int64_t count = elements > 0 ? elements : 256 << i;
      chunk_.geometries.push_back({{1, count}, {count, 1}});
    }
    std::mt19937 same;
    std::normal_distribution<float> normal;
    numbers_.resize(1u << 20);
    for (float& x : numbers_) x = normal(same);
    value_.resize(plan.value_bytes);
  }

  void write() {
    for (std::uint32_t step = 0; step < plan_.steps; ++step) {
      for (std::uint32_t i = 0; i < plan_.calls; ++i) {
        const std::uint64_t number = std::uint64_t{step} * plan_.calls + i;
        const bool skip = plan_.skip_every > 0 && number % plan_.skip_every == 7;
        if (!(candidate_ && skip)) add(step, i, number);
        if (chunk_.calls.size() == kCallsAChunk) flush();
      }
    }
    flush();
  }
  [[nodiscard]] std::uint64_t calls() const { return chunk_.base.calls; }

 private:
  void add(std::uint32_t step, std::uint32_t i, std::uint64_t number) {
    const std::uint32_t kind = i % kKinds;
    const std::uint32_t tensor = chunk_.next_base().tensors;
    const Geometry& geometry = geometries().at(kind);
    const auto elements = static_cast<std::uint64_t>(geometry.sizes[1]);
    chunk_.storages.push_back({elements * item_size(plan_.dtype), 0});
    chunk_.tensors.push_back({tensor, kind, plan_.dtype, 0, 0});
    Call call;
    call.op = i % kOps;
    call.scope = i * plan_.scopes / plan_.calls;
    call.step = step;
    call.results = call.writes = 1;
    call.first_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    for (std::uint32_t back = 1; back <= 2 && back <= tensor; ++back) {
      chunk_.nodes.push_back({NodeKind::kTensor, 1, tensor - back});
      ++call.arguments;
    }
    chunk_.nodes.push_back({NodeKind::kDouble, 0, 0x3ff0000000000000});
    ++call.arguments;
    call.first_result = static_cast<std::uint32_t>(chunk_.nodes.size());
    chunk_.nodes.push_back({NodeKind::kTensor, 1, tensor});
    call.end_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    call.first_write = static_cast<std::uint32_t>(chunk_.writes.size());
    chunk_.calls.push_back(call);
    chunk_.timings.push_back({0, number * 1000, 500});
    Write write{tensor, 1, kWriteHashed, {number, candidate_ ? 2u : 1u}, 0, 0};
    if (plan_.value_bytes > 0) {
      add_value(number, write);
    } else {
      add_digests(elements,
                  plan_.fault && candidate_ && 2 * step > plan_.steps && i == 1000 ? 2 : 1, write);
    }
    chunk_.writes.push_back(write);
  }

  void add_value(std::uint64_t number, Write& write) {
    const std::size_t size = item_size(plan_.dtype);
    for (std::size_t i = 0; i < value_.size() / size; ++i) {
      const std::size_t at = number * 4099 + i;
      float x = numbers_[at % numbers_.size()];
      if (candidate_) x *= 1 + 0.01F * numbers_[at * 3 % numbers_.size()];
      std::memcpy(&value_[i * size], reinterpret_cast<const std::byte*>(&x) + sizeof x - size,
                  size);
    }
    write.hash = hash_bytes(value_);
    write.flags |= kWriteValue;
    (void)writer_.write_value(write.hash, value_, size);  // latches
  }

  void add_digests(std::uint64_t elements, double scale, Write& write) {
    write.flags |= kWriteStats | kWriteSketch;
    write.stats_index = static_cast<std::uint32_t>(chunk_.stats.size());
    write.sketch_index = static_cast<std::uint32_t>(chunk_.sketches.size());
    const auto n = static_cast<double>(elements);
    Stats stats;
    stats.count = elements;
    stats.min = -3 + noise();
    stats.max = 3 + noise();
    stats.sum = std::sqrt(n) * noise();
    stats.sum_squares = n * scale * (1 + noise());
    chunk_.stats.push_back(stats);
    for (float& sum : chunk_.sketches.emplace_back()) {
      sum = static_cast<float>(std::sqrt(n / 64)) * numbers_[random_() % numbers_.size()];
    }
  }
  double noise() { return 0.01 * numbers_[random_() % numbers_.size()]; }

  std::vector<Geometry>& geometries() {
    if (!chunk_.geometries.empty()) geometries_ = chunk_.geometries;
    return geometries_;
  }

  void flush() {
    (void)writer_.write_program(chunk_);  // latches
    ProgramChunk next;
    next.base = chunk_.next_base();
    geometries();
    chunk_ = std::move(next);
  }

  const Plan& plan_;
  const bool candidate_;
  TraceWriter& writer_;
  ProgramChunk chunk_;
  std::vector<Geometry> geometries_;
  std::mt19937 random_{candidate_ ? 2u : 1u};
  std::vector<float> numbers_;
  Bytes value_;
};

Status write_side(const Plan& plan, bool candidate, const std::string& path) {
  auto sink = create_file(path);
  if (!sink.ok()) return sink.status();
  Header header;
  header.dtype = dtype_name(plan.dtype);
  WriterOptions options;
  options.values = plan.compression;
  auto writer = TraceWriter::create(std::move(*sink), header, options);
  if (!writer.ok()) return writer.status();
  Side side(plan, candidate, **writer);
  side.write();
  return (*writer)->close({{}, side.calls(), 1000});
}

// The best of five, as the machine is shared.
int measure(const char* what, const Plan& plan, const std::string& folder) {
  ReplayOptions options;
  options.oracle = folder + "/replay_speed_oracle.fb";
  options.candidate = folder + "/replay_speed_candidate.fb";
  Status status = write_side(plan, false, options.oracle);
  if (status.ok()) status = write_side(plan, true, options.candidate);
  double best = 1e9;
  std::string verdict;
  std::uint64_t outputs = 0;
  for (int i = 0; i < 5 && status.ok(); ++i) {
    const std::clock_t began = std::clock();
    const auto report = run_replay(options);
    const std::clock_t took = std::clock() - began;
    status = report.status();
    if (!status.ok()) break;
    best = std::min(best, static_cast<double>(took) / CLOCKS_PER_SEC);
    verdict = verdict_name(report->verdict);
    outputs = report->ops.outputs;
  }
  const auto size = status.ok() ? std::filesystem::file_size(options.candidate) : 0;
  std::filesystem::remove(options.oracle);
  std::filesystem::remove(options.candidate);
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", what, status.message().c_str());
    return 1;
  }
  std::printf("%-34s %4.0f MB a file  %7.3f s", what, static_cast<double>(size) * 1e-6, best);
  if (plan.value_bytes > 0) {
    const auto bytes = 2 * static_cast<double>(plan.value_bytes * plan.steps * plan.calls);
    std::printf("  %5.2f GB/s", bytes / best * 1e-9);
  }
  std::printf("  (%llu outputs, %s)\n", static_cast<unsigned long long>(outputs), verdict.c_str());
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string only = argc > 2 ? argv[2] : "";
  int failed = 0;
  if (only != "calls") {
    const Plan large{1, 256, 2u << 20};
    const auto with = [](Plan plan, DType dtype, ValueCompression compression) {
      plan.dtype = dtype;
      plan.compression = compression;
      return plan;
    };
    const Plan small{64, 1024, 8u << 10};  // as in decode steps: many a chunk
    using enum ValueCompression;
    failed |= measure("bfloat16, 2 MiB each, none", with(large, DType::kBFloat16, kNone), argv[1]);
    failed |=
        measure("bfloat16, 2 MiB each, planes", with(large, DType::kBFloat16, kFast), argv[1]);
    failed |= measure("float32, 2 MiB each, none", with(large, DType::kFloat32, kNone), argv[1]);
    failed |= measure("float32, 2 MiB each, planes", with(large, DType::kFloat32, kFast), argv[1]);
    failed |= measure("bfloat16, 8 KiB each, none", with(small, DType::kBFloat16, kNone), argv[1]);
    failed |=
        measure("bfloat16, 8 KiB each, planes", with(small, DType::kBFloat16, kFast), argv[1]);
  }
  if (only != "values") {
    const Plan same{250, 4000};
    Plan missing = same;
    missing.skip_every = 1000;
    Plan fault = same;
    fault.fault = true;
    fault.scopes = 10;
    fault.skip_every = 300;
    failed |= measure("1,000,000 calls, one program", same, argv[1]);
    failed |= measure("the same, 1,000 calls missing", missing, argv[1]);
    failed |= measure("the same, 3,333 missing, a fault", fault, argv[1]);
  }
  return failed;
}
