// The hot path allocates nothing in steady state. Allocations of this thread are counted between
// two callbacks of the test's own that stand around the recorder's. None of the operators below has
// so many inner calls that they are hidden: PyTorch allocates when that is turned on and off.
#include <ATen/ops/add.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/tanh.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/recorder/recording.h"

namespace {

thread_local bool counting = false;
thread_local std::size_t allocations = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  if (counting) ++allocations;
  void* memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace goldentrace {
namespace {

using testing::RecordingTest;

at::CallbackHandle count_from(bool on) {
  return at::addGlobalCallback(
      at::RecordFunctionCallback(
          on ? [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
            counting = true;
            return nullptr;
          }
             : [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
            counting = false;
            return nullptr;
          },
          on ? [](const at::RecordFunction&, at::ObserverContext*) { counting = true; }
             : [](const at::RecordFunction&, at::ObserverContext*) { counting = false; })
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

class AllocationTest : public RecordingTest {
 protected:
  // What a decode step is made of: views, in-place writes, a state that is kept.
  void step(Recorder& recorder, std::uint32_t number) {
    recorder.set_step(number);
    const ModuleScope scope("model");
    const at::Tensor h = at::mul(x_, weight_.t());
    const at::Tensor both = at::add(h, weight_);
    state_.mul_(half_);
    if (grows_) at::linspace(0, 1, number + 1);
    state_.copy_(at::tanh(at::add(both, state_)));
  }

  // Of the recorder on this thread, in so many steps after a warm-up.
  std::size_t allocations_of(KeepRules keep) {
    constexpr std::uint32_t kWarmUp = 3000;
    constexpr std::uint32_t kCounted = 200;
    std::size_t found = 0;
    const at::CallbackHandle before = count_from(true);
    record(
        [&](Recorder& recorder) {
          const at::CallbackHandle after = count_from(false);
          for (std::uint32_t i = 0; i < kWarmUp; ++i) step(recorder, i);
          allocations = 0;
          for (std::uint32_t i = 0; i < kCounted; ++i) step(recorder, kWarmUp + i);
          found = allocations;
          at::removeCallback(after);
        },
        {.keep = std::move(keep)});
    at::removeCallback(before);
    counting = false;
    return found;
  }

  bool grows_ = false;
  const at::Tensor x_ = at::linspace(0, 1, 64).view({1, 64});
  const at::Tensor weight_ = at::linspace(0, 1, 64 * 64).view({64, 64});
  const at::Tensor state_ = at::linspace(0, 1, 64 * 64).view({64, 64});
  const at::Tensor half_ = at::linspace(0.5, 0.5, 1);
};

TEST_F(AllocationTest, TheHotPathAllocatesNothingInSteadyState) {
  EXPECT_EQ(allocations_of(KeepRules(Keep::kGolden, {*parse_keep_rule(":sketch")})), 0u);
}

TEST_F(AllocationTest, NorDoesItWhereDigestsAreDroppedLater) {
  EXPECT_EQ(allocations_of(KeepRules(Keep::kGolden)), 0u);
}

TEST_F(AllocationTest, NorDoesKeepingValuesThatAreThereAlready) {
  EXPECT_EQ(allocations_of(KeepRules(Keep::kAll)), 0u);
}

// So that the counting is known to count.
TEST_F(AllocationTest, ShapesThatWereNeverSeenDoAllocate) {
  grows_ = true;
  EXPECT_GT(allocations_of(KeepRules(Keep::kGolden)), 0u);
}

}  // namespace
}  // namespace goldentrace
