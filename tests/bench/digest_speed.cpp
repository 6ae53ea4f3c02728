// Speed of the digests on one thread, beside that of memcpy and of XXH3-128 on the same bytes.
// Ratios of one run mean something; machines are shared.
//   digest_speed [--benchmark_filter=bfloat16]
#include <benchmark/benchmark.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>

#include "src/digest/digest.h"

namespace goldentrace {
namespace {

constexpr std::int64_t kInCache = 256 << 10;
constexpr std::int64_t kInMemory = 64 << 20;

// Normal numbers, as activations are, aligned as PyTorch's tensors are.
class Tensor {
 public:
  Tensor(DType dtype, std::int64_t bytes)
      : data_(new (std::align_val_t(64)) std::byte[static_cast<std::size_t>(bytes)]),
        dtype_(dtype),
        count_(bytes / static_cast<std::int64_t>(item_size(dtype))) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < count_; ++i) {
      const float x = normal(random);
      const auto* upper = reinterpret_cast<const std::byte*>(&x) + sizeof x - item_size(dtype);
      std::memcpy(data_.get() + i * static_cast<std::int64_t>(item_size(dtype)), upper,
                  item_size(dtype));
    }
  }
  [[nodiscard]] const std::byte* data() const { return data_.get(); }
  [[nodiscard]] TensorView view() const { return {data_.get(), dtype_, {&count_, 1}, {&kOne, 1}}; }

 private:
  struct Delete {
    void operator()(std::byte* data) const { operator delete[](data, std::align_val_t(64)); }
  };
  static constexpr std::int64_t kOne = 1;
  std::unique_ptr<std::byte[], Delete> data_;
  DType dtype_;
  std::int64_t count_;
};

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy(benchmark::State& state) {
  const Tensor from(DType::kFloat32, state.range(0));
  Tensor to(DType::kFloat32, state.range(0));
  for (auto _ : state) {
    std::memcpy(const_cast<std::byte*>(to.data()), from.data(),
                static_cast<std::size_t>(state.range(0)));
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void xxh3(benchmark::State& state) {
  const Tensor tensor(DType::kFloat32, state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(XXH3_128bits(tensor.data(), static_cast<std::size_t>(state.range(0))));
  }
  count_bytes(state);
}

void digest(benchmark::State& state, DType dtype, const DigestOptions& options) {
  const Tensor tensor(dtype, state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(digest_tensor(tensor.view(), options));
  count_bytes(state);
}

constexpr DigestOptions kStats{.stats = true};
constexpr DigestOptions kSketch{.stats = true, .sketch = true};

BENCHMARK(copy)->Arg(kInCache)->Arg(4 << 20)->Arg(kInMemory);
BENCHMARK(xxh3)->Arg(kInCache)->Arg(4 << 20)->Arg(kInMemory);
BENCHMARK_CAPTURE(digest, hash, DType::kBFloat16, {})->Arg(kInCache)->Arg(4 << 20)->Arg(kInMemory);
BENCHMARK_CAPTURE(digest, bfloat16_stats, DType::kBFloat16, kStats)->Arg(kInCache)->Arg(4 << 20)->Arg(kInMemory);
BENCHMARK_CAPTURE(digest, bfloat16_all, DType::kBFloat16, kSketch)->Arg(kInCache)->Arg(4 << 20)->Arg(kInMemory);
BENCHMARK_CAPTURE(digest, float32_stats, DType::kFloat32, kStats)->Arg(kInCache)->Arg(4 << 20)->Arg(kInMemory);
BENCHMARK_CAPTURE(digest, float32_all, DType::kFloat32, kSketch)->Arg(kInCache)->Arg(4 << 20)->Arg(kInMemory);

}  // namespace
}  // namespace goldentrace

BENCHMARK_MAIN();
