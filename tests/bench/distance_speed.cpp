// Speed of the distance's kernel on one thread, beside a plain loop that only sums. Bytes are those
// of both sides. Ratios of one run mean something; machines are shared.
//   distance_speed [--benchmark_filter=bfloat16]
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <vector>

#include "replayer/band/distance.h"

namespace goldentrace {
namespace {

constexpr std::int64_t kInCache = 512 << 10;
constexpr std::int64_t kLarge = 8 << 20;
constexpr std::int64_t kInMemory = 256 << 20;

// Two tensors of `bytes` bytes together: normal numbers, the second with noise.
struct Pair {
  Pair(DType dtype, std::int64_t bytes, bool masked)
      : count(static_cast<std::size_t>(bytes) / 2 / item_size(dtype)),
        want(count * item_size(dtype)),
        got(count * item_size(dtype)) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> numbers(1 << 16);
    for (float& x : numbers) x = normal(random);
    for (std::size_t i = 0; i < count; ++i) {
      const float w = masked && i % 2 == 0 ? -1e38F : numbers[i % numbers.size()];
      put(dtype, i, w, want);
      put(dtype, i, w * (1 + 0.01F * numbers[i * 7 % numbers.size()]), got);
    }
  }

  // float16 gets the upper half too: numbers of another size, of the same speed.
  static void put(DType dtype, std::size_t i, float x, std::vector<std::byte>& to) {
    const std::size_t size = item_size(dtype);
    const double wide = x;
    const auto* bytes = size == 8 ? reinterpret_cast<const std::byte*>(&wide)
                                  : reinterpret_cast<const std::byte*>(&x) + sizeof x - size;
    std::memcpy(&to[i * size], bytes, size);
  }

  std::size_t count;
  std::vector<std::byte> want;
  std::vector<std::byte> got;
};

void kernel(benchmark::State& state, DType dtype, bool masked) {
  const Pair pair(dtype, state.range(0), masked);
  for (auto _ : state) {
    benchmark::DoNotOptimize(sum_pairs(dtype, pair.want.data(), pair.got.data(), pair.count));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// What it is held against: float32 throughout, in any order, and NaN in is NaN out.
void plain_loop(benchmark::State& state) {
  const Pair pair(DType::kFloat32, state.range(0), false);
  const auto* want = reinterpret_cast<const float*>(pair.want.data());
  const auto* got = reinterpret_cast<const float*>(pair.got.data());
  for (auto _ : state) {
    float difference = 0;
    float norm = 0;
    for (std::size_t i = 0; i < pair.count; ++i) {
      const float d = got[i] - want[i];
      difference += d * d;
      norm += want[i] * want[i];
    }
    benchmark::DoNotOptimize(difference);
    benchmark::DoNotOptimize(norm);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK(plain_loop)->Arg(kInCache)->Arg(kLarge)->Arg(kInMemory);
BENCHMARK_CAPTURE(kernel, float32, DType::kFloat32, false)
    ->Arg(kInCache)
    ->Arg(kLarge)
    ->Arg(kInMemory);
BENCHMARK_CAPTURE(kernel, bfloat16, DType::kBFloat16, false)
    ->Arg(kInCache)
    ->Arg(kLarge)
    ->Arg(kInMemory);
BENCHMARK_CAPTURE(kernel, float16, DType::kFloat16, false)
    ->Arg(kInCache)
    ->Arg(kLarge)
    ->Arg(kInMemory);
BENCHMARK_CAPTURE(kernel, float64, DType::kFloat64, false)
    ->Arg(kInCache)
    ->Arg(kLarge)
    ->Arg(kInMemory);
BENCHMARK_CAPTURE(kernel, float32_half_masked, DType::kFloat32, true)
    ->Arg(kInCache)
    ->Arg(kLarge)
    ->Arg(kInMemory);
BENCHMARK_CAPTURE(kernel, bfloat16_half_masked, DType::kBFloat16, true)
    ->Arg(kInCache)
    ->Arg(kLarge)
    ->Arg(kInMemory);

}  // namespace
}  // namespace goldentrace

BENCHMARK_MAIN();
