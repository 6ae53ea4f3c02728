#include <cuda_runtime_api.h>

#include "src/digest/block_digest.h"
#include "src/digest/cuda/digest_kernel.h"

namespace goldentrace {
namespace {

constexpr unsigned kLanes = 64;
constexpr unsigned kWarp = 32;
constexpr unsigned kThreads = 2 * kLanes;  // lanes and sketch sums side by side
constexpr unsigned kWarps = kThreads / kWarp;

// ---- one unit, one thread block ---------------------------------------------------------------

template <std::size_t kSize>
struct Item;
template <>
struct Item<1> {
  std::uint8_t bits;
};
template <>
struct Item<2> {
  std::uint16_t bits;
};
template <>
struct Item<4> {
  std::uint32_t bits;
};
template <>
struct Item<8> {
  std::uint64_t bits;
};
template <>
struct Item<16> {
  std::uint64_t bits[2];
};

// Brings elements [begin, begin + count) into shared memory, and zeros to the end of a hash block.
template <std::size_t kSize>
__device__ void stage(const void* __restrict__ data, const GatherLayout& layout, std::size_t begin,
                      unsigned count, std::uint64_t* __restrict__ unit) {
  using Element = Item<kSize>;
  const auto* const from = static_cast<const Element*>(data);
  auto* const to = reinterpret_cast<Element*>(unit);
  unsigned done = 0;
  if (layout.rank == 0 && reinterpret_cast<std::uintptr_t>(data) % 8 == 0) {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(from + begin);
    const unsigned whole = count * kSize / 8;
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < whole; i += kThreads) unit[i] = words[i];
    done = whole * 8 / kSize;
  }
  for (unsigned i = done + threadIdx.x; i < count; i += kThreads) {
    to[i] = from[offset_of(layout, begin + i)];
  }
  constexpr unsigned kPerLeaf = kLeafWords * 8 / kSize;
  const unsigned padded = (count + kPerLeaf - 1) / kPerLeaf * kPerLeaf;
  for (unsigned i = count + threadIdx.x; i < padded; i += kThreads) to[i] = {};
}

// By one warp: a thread for each accumulator and quarter.
__device__ void hash_block(const std::uint64_t* block, std::uint64_t* leaf) {
  constexpr unsigned kAll = 0xffffffffu;
  const unsigned thread = threadIdx.x % kWarp;
  const unsigned accumulator = thread % kAccumulators;
  const std::uint64_t sum = quarter_sum(block, thread / kAccumulators, accumulator);
  // From here on each accumulator is known to four threads.
  std::uint64_t value = leaf_start(accumulator);
  for (unsigned quarter = 0; quarter < kQuarters; ++quarter) {
    if (quarter > 0) value = scramble(value, accumulator);
    value += __shfl_sync(kAll, sum, static_cast<int>(quarter * kAccumulators + accumulator));
  }
  const std::uint64_t other = __shfl_xor_sync(kAll, value, 1);
  const bool even = accumulator % 2 == 0;
  std::uint64_t pairs = merge_pair(even ? value : other, even ? other : value, accumulator / 2);
  pairs += __shfl_xor_sync(kAll, pairs, 2);
  pairs += __shfl_xor_sync(kAll, pairs, 4);
  if (thread == 0) *leaf = finish_leaf(pairs);
}

// Stats and sketch of superblock `number`. All threads come here.
template <class Element>
__device__ void add_superblock(const std::uint64_t* superblock, unsigned count, std::size_t number,
                               PartialDigest* found) {
  __shared__ PartialStats lanes[kLanes];
  __shared__ std::uint64_t signs[kLanes];
  const unsigned thread = threadIdx.x;
  if (thread < kLanes) signs[thread] = sketch_signs(thread);
  __syncthreads();
  if (thread < kLanes) {
    lanes[thread] = lane_stats<Element>(superblock, count, thread);
  } else {
    const unsigned k = thread - kLanes;
    const SketchMix mix = sketch_mix(number);
    place_sum(sketch_sum<Element>(superblock, count, k, mix, signs), k, mix, *found);
  }
  __syncthreads();
  if (thread == 0) {
    PartialStats total = no_stats();
    for (const PartialStats& lane : lanes) add_stats(lane, total);
    found->stats = total;
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads)
    digest_unit(const void* data, const __grid_constant__ GatherLayout layout,
                std::uint64_t* leaves, PartialDigest* superblocks) {
  extern __shared__ std::uint64_t unit[];
  constexpr std::size_t kUnit = unit_elements(Element::kSize);
  constexpr unsigned kLeaves = kUnit * Element::kSize / (kLeafWords * 8);
  const std::size_t number = blockIdx.x;
  const std::size_t begin = number * kUnit;
  const std::size_t left = layout.count - begin;
  const unsigned count = static_cast<unsigned>(left < kUnit ? left : kUnit);
  stage<Element::kSize>(data, layout, begin, count, unit);
  __syncthreads();
  if constexpr (Element::kReal) {
    add_superblock<Element>(unit, count, number, superblocks + number);
  }
  // The first leaf goes to the last warp: the first warp still adds up lanes.
  for (unsigned leaf = kWarps - 1 - threadIdx.x / kWarp; leaf < kLeaves; leaf += kWarps) {
    if (leaf * kLeafWords * 8 >= count * Element::kSize) break;
    hash_block(unit + leaf * kLeafWords, leaves + number * kLeaves + leaf);
  }
}

// ---- all superblocks, one thread block --------------------------------------------------------

// The order is fixed, so only the 64 sums and the stats go side by side. All threads bring a chunk
// into shared memory first: else each addition would wait for its own load.
__global__ void __launch_bounds__(kThreads)
    add_superblocks_in_order(const PartialDigest* superblocks, std::size_t count,
                             PartialDigest* total) {
  constexpr std::size_t kChunk = 32;
  constexpr unsigned kWords = sizeof(PartialDigest) / sizeof(std::uint64_t);
  static_assert(sizeof(PartialDigest) % sizeof(std::uint64_t) == 0);
  __shared__ PartialDigest chunk[kChunk];
  const unsigned thread = threadIdx.x;
  PartialStats stats = no_stats();
  double sum = 0;
  for (std::size_t first = 0; first < count; first += kChunk) {
    const auto here = static_cast<unsigned>(count - first < kChunk ? count - first : kChunk);
    const auto* const from = reinterpret_cast<const std::uint64_t*>(superblocks + first);
#pragma unroll 4
    for (unsigned i = thread; i < here * kWords; i += kThreads) {
      reinterpret_cast<std::uint64_t*>(chunk)[i] = from[i];
    }
    __syncthreads();
    for (unsigned i = 0; i < here; ++i) {
      if (thread < kLanes) sum = add(sum, static_cast<double>(chunk[i].sketch[thread]));
      if (thread == kLanes) add_stats(chunk[i].stats, stats);
    }
    __syncthreads();
  }
  if (thread < kLanes) total->sketch[thread] = static_cast<float>(sum);
  if (thread == kLanes) total->stats = stats;
}

// ---- launches ---------------------------------------------------------------------------------

cudaLaunchConfig_t launch_config(std::size_t blocks, std::size_t shared_bytes,
                                 cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return config;
}

template <class Element>
cudaError_t enqueue(const void* data, const GatherLayout& layout, void* device_scratch,
                    void* pinned_result, cudaStream_t stream) {
  const DeviceDigestPlan plan(layout.count, Element::kSize);
  auto* const bytes = static_cast<std::byte*>(device_scratch);
  auto* const total = reinterpret_cast<PartialDigest*>(bytes);
  auto* const leaves = reinterpret_cast<std::uint64_t*>(bytes + plan.kLeavesAt);
  auto* const superblocks = reinterpret_cast<PartialDigest*>(bytes + plan.superblocks_at());
  constexpr std::size_t kUnit = unit_elements(Element::kSize);
  if (layout.count > 0) {
    const std::size_t units = (layout.count + kUnit - 1) / kUnit;
    if (units > 0x7fffffff) return cudaErrorInvalidValue;  // more than a grid has blocks
    const auto config = launch_config(units, kUnit * Element::kSize, stream);
    const cudaError_t error =
        cudaLaunchKernelEx(&config, digest_unit<Element>, data, layout, leaves, superblocks);
    if (error != cudaSuccess) return error;
  }
  if constexpr (Element::kReal) {
    const auto config = launch_config(1, 0, stream);
    const cudaError_t error =
        cudaLaunchKernelEx(&config, add_superblocks_in_order,
                           static_cast<const PartialDigest*>(superblocks), plan.superblocks, total);
    if (error != cudaSuccess) return error;
  }
  return cudaMemcpyAsync(pinned_result, device_scratch, plan.result_bytes(), cudaMemcpyDeviceToHost,
                         stream);
}

}  // namespace

int launch_digest(const void* device_data, DType dtype, const GatherLayout& layout,
                  void* device_scratch, void* pinned_result, void* stream) {
  const auto with = [&](auto element) {
    return enqueue<decltype(element)>(device_data, layout, device_scratch, pinned_result,
                                      static_cast<cudaStream_t>(stream));
  };
  switch (dtype) {
    case DType::kBFloat16:
      return with(BFloat16());
    case DType::kFloat16:
      return with(Float16());
    case DType::kFloat32:
      return with(Float32());
    case DType::kFloat64:
      return with(Float64());
    default:
      break;
  }
  switch (item_size(dtype)) {
    case 1:
      return with(Opaque<1>());
    case 2:
      return with(Opaque<2>());
    case 4:
      return with(Opaque<4>());
    case 8:
      return with(Opaque<8>());
    case 16:
      return with(Opaque<16>());
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace goldentrace
