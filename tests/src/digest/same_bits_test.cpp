// The digests have the same bits by every instruction set of this machine, by one thread and by
// several, of memory without gaps and with them, and whatever mode the processor is in.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <thread>

#if defined(__SSE2__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

#include "src/digest/digest.h"
#include "src/digest/leaf_hash.h"
#include "tests/src/digest/reference.h"
#include "tests/support/instruction_set.h"

namespace goldentrace {
namespace {

using testing::contents;
using testing::Elements;
using testing::expect_same;
using testing::InstructionSet;
using testing::kRealFloats;

constexpr DigestOptions kBoth = {.stats = true, .sketch = true};

Digest digest_of(const Elements& elements, const DigestOptions& options = kBoth) {
  const std::array<std::int64_t, 1> sizes{static_cast<std::int64_t>(elements.values.size())};
  const std::array<std::int64_t, 1> strides{1};
  return digest_tensor({elements.bytes.data(), elements.dtype, sizes, strides}, options);
}

void expect_same(const Digest& got, const Digest& want) {
  EXPECT_EQ(got.hash, want.hash);
  expect_same(got.stats, want.stats);
  expect_same(got.sketch, want.sketch);
}

class SameBits : public ::testing::TestWithParam<DType> {};

TEST_P(SameBits, OnEveryInstructionSet) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_GE(targets.size(), 1u);
  for (const std::size_t count :
       {0u,    1u,    2u,    63u,   64u,   65u,   100u,  127u,   255u,   256u,   257u,   511u,
        1023u, 1024u, 1025u, 4095u, 4096u, 4097u, 8191u, 12289u, 16383u, 16384u, 16385u, 20000u}) {
    for (Elements& elements : contents(GetParam(), count)) {
      SCOPED_TRACE(elements.why + ", " + std::to_string(count));
      const Stats stats = testing::reference_stats(elements.values);
      const Sketch sketch = testing::reference_sketch(elements.values);
      const Hash128 hash = hash_bytes(elements.bytes);
      // Elements lie at multiples of their size and of nothing more.
      const std::size_t shift = item_size(GetParam());
      elements.bytes.insert(elements.bytes.begin(), shift, std::byte{});
      const std::array<std::int64_t, 1> sizes{static_cast<std::int64_t>(count)};
      const std::array<std::int64_t, 1> strides{1};
      const TensorView view{elements.bytes.data() + shift, GetParam(), sizes, strides};
      for (const std::int64_t target : targets) {
        SCOPED_TRACE(hwy::TargetName(target));
        const InstructionSet chosen(target);
        const Digest both = digest_tensor(view, kBoth);
        EXPECT_EQ(both.hash, hash);
        expect_same(both.stats, stats);
        expect_same(both.sketch, sketch);
        const Digest without = digest_tensor(view, {.stats = true});
        EXPECT_EQ(without.hash, hash);
        expect_same(without.stats, stats);
        if (HasFailure()) return;
      }
    }
  }
}

// Every number there is, of the dtypes where one can say so.
class SameBitsOfTwoBytes : public ::testing::TestWithParam<DType> {};

TEST_P(SameBitsOfTwoBytes, OfEveryNumber) {
  Elements elements{"", GetParam(), {}, {}};
  for (std::uint64_t bits = 0; bits < 65536; ++bits) elements.add(bits * 0x9e37 & 0xffff);
  const Stats stats = testing::reference_stats(elements.values);
  const Sketch sketch = testing::reference_sketch(elements.values);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const InstructionSet chosen(target);
    expect_same(digest_of(elements).stats, stats);
    expect_same(digest_of(elements).sketch, sketch);
  }
}

#if defined(__SSE2__)
TEST_P(SameBits, InEveryModeOfTheProcessorWhichStaysAsItIs) {
  for (const std::size_t count : {3u, 20000u, 300000u}) {
    for (const Elements& elements : contents(GetParam(), count)) {
      if (count == 300000 && elements.why != "denormals" && elements.why != "some specials")
        continue;
      SCOPED_TRACE(elements.why + ", " + std::to_string(count));
      const Digest want = digest_of(elements);
      const unsigned before = _mm_getcsr();
      _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
      _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
      _MM_SET_ROUNDING_MODE(_MM_ROUND_TOWARD_ZERO);
      const unsigned mode = _mm_getcsr();
      const Digest got = digest_of(elements);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      EXPECT_EQ(mode & ~_MM_EXCEPT_MASK, after & ~_MM_EXCEPT_MASK);
      expect_same(got, want);
      if (HasFailure()) return;
    }
  }
}
#endif

// ---- threads
// -------------------------------------------------------------------------------------

std::atomic<std::size_t> tasks_run = 0;

void run_on_threads(std::size_t count, void (*task)(std::size_t, void*), void* context) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) task(count - 1 - i, context);
  };
  std::array<std::thread, 3> threads;
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  tasks_run += count;
}

constexpr DigestOptions kThreads = {.stats = true, .sketch = true, .run = run_on_threads};

TEST_P(SameBits, ByOneThreadAndBySeveral) {
  const std::size_t enough = (1u << 19) / item_size(GetParam());
  for (const std::size_t count : {enough - 1, enough, enough + 1, enough + 16384}) {
    for (const Elements& elements : contents(GetParam(), count)) {
      if (elements.why != "plain numbers" && elements.why != "some specials") continue;
      SCOPED_TRACE(elements.why + ", " + std::to_string(count));
      tasks_run = 0;
      expect_same(digest_of(elements, kThreads), digest_of(elements));
      EXPECT_EQ(tasks_run, count < enough ? 0 : (count + 16383) / 16384);
    }
  }
}

TEST_P(SameBits, OfATransposedTensorByOneThreadAndBySeveral) {
  const Elements elements = contents(GetParam(), 600 * 500).back();
  const std::array<std::int64_t, 2> sizes{500, 600};
  const std::array<std::int64_t, 2> strides{1, 500};
  const TensorView view{elements.bytes.data(), GetParam(), sizes, strides};
  Elements dense = elements;
  dense.bytes = dense_bytes(view);
  ASSERT_NE(dense.bytes, elements.bytes);
  const Digest want = digest_of(dense);
  expect_same(digest_tensor(view, kBoth), want);
  tasks_run = 0;
  expect_same(digest_tensor(view, kThreads), want);
  EXPECT_EQ(tasks_run, (300000u + 16383) / 16384);
}

INSTANTIATE_TEST_SUITE_P(, SameBits, ::testing::ValuesIn(kRealFloats),
                         [](const auto& dtype) { return std::string(dtype_name(dtype.param)); });

INSTANTIATE_TEST_SUITE_P(, SameBitsOfTwoBytes, ::testing::Values(DType::kFloat16, DType::kBFloat16),
                         [](const auto& dtype) { return std::string(dtype_name(dtype.param)); });

// More than what is put together at once: 512 pieces of 16,384 elements.
TEST(SameBitsOfLargeTensors, ByOneThreadAndBySeveral) {
  std::vector<std::uint16_t> memory(9'000'000);
  std::uint32_t state = 1;
  for (std::uint16_t& x : memory) {
    state = state * 1664525 + 1013904223;
    x = static_cast<std::uint16_t>((state >> 16 & 0x80ff) | 0x3f00);
  }
  const auto* data = reinterpret_cast<const std::byte*>(memory.data());
  const std::array<std::int64_t, 2> sizes{3000, 3000};
  for (const std::array<std::int64_t, 2>& strides :
       {std::array<std::int64_t, 2>{3000, 1}, {1, 3000}}) {
    const TensorView view{data, DType::kBFloat16, sizes, strides};
    tasks_run = 0;
    expect_same(digest_tensor(view, kThreads), digest_tensor(view, kBoth));
    EXPECT_EQ(tasks_run, 550u);
  }
}

TEST(SameBitsOfIntegers, ByOneThreadAndBySeveral) {
  Elements elements{"", DType::kComplex128, std::vector<std::byte>(16 * 40'000), {}};
  for (std::size_t i = 0; i < elements.bytes.size(); ++i)
    elements.bytes[i] = static_cast<std::byte>(i % 251);
  for (const DType dtype : {DType::kUInt8, DType::kInt64, DType::kComplex128}) {
    elements.dtype = dtype;
    elements.values.resize(elements.bytes.size() / item_size(dtype));
    EXPECT_EQ(digest_of(elements, kThreads).hash, hash_bytes(elements.bytes));
  }
}

// ---- leaves
// --------------------------------------------------------------------------------------

#if defined(__x86_64__)
TEST(LeafHash, IsTheSameByEveryInstructionSet) {
  std::vector<unsigned char> blocks(9 * 4096 + 3);
  std::mt19937 random(7);
  for (unsigned char& byte : blocks) byte = static_cast<unsigned char>(random());
  for (const std::size_t shift : {0u, 1u, 3u}) {
    std::array<std::uint64_t, 9> want{};
    leaf_hash_baseline(blocks.data() + shift, want.size(), want.data());
    const auto expect_wanted = [&](LeafHash hash) {
      for (std::size_t count = 0; count <= want.size(); ++count) {
        std::array<std::uint64_t, 9> got{};
        hash(blocks.data() + shift, count, got.data());
        EXPECT_TRUE(std::equal(got.begin(), got.begin() + static_cast<long>(count), want.begin()));
        EXPECT_EQ(std::count(got.begin() + static_cast<long>(count), got.end(), 0u),
                  static_cast<long>(want.size() - count));
      }
    };
    if (__builtin_cpu_supports("avx2") != 0) expect_wanted(leaf_hash_avx2);
    if (__builtin_cpu_supports("avx512f") != 0) expect_wanted(leaf_hash_avx512);
    expect_wanted(leaf_hash());
  }
}

TEST(Xxh3, IsTheSameByEveryInstructionSet) {
  std::vector<unsigned char> bytes(70'003);
  std::mt19937 random(8);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  for (const std::size_t size : {0u, 1u, 3u, 4u, 8u, 9u, 16u, 17u, 128u, 129u, 240u, 241u, 1024u,
                                 1025u, 4096u, 65'537u, 70'000u}) {
    for (const std::size_t shift : {0u, 1u, 3u}) {
      const unsigned char* const data = bytes.data() + shift;
      const std::uint64_t want = xxh3_baseline(data, size);
      if (__builtin_cpu_supports("avx2") != 0) {
        EXPECT_EQ(xxh3_avx2(data, size), want);
      }
      if (__builtin_cpu_supports("avx512f") != 0) {
        EXPECT_EQ(xxh3_avx512(data, size), want);
      }
      EXPECT_EQ(xxh3()(data, size), want);
    }
  }
}
#endif

}  // namespace
}  // namespace goldentrace
