// Tensors on a device: the thread that gives them never waits, and what is recorded is what the
// tensor held when it was given.
#include <gmock/gmock.h>

#include <numeric>

#include "tests/src/capi/capi.h"
#include "tests/src/capi/simulated_device.h"

namespace goldentrace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT: the helpers of capi.h

class CapiDevice : public ::testing::Test {
 protected:
  goldentrace_tensor on_device(const char* name) {
    goldentrace_tensor tensor = tensor_of(name, GOLDENTRACE_FLOAT32, sizes_, memory_.data());
    tensor.device = device_.calls();
    return tensor;
  }
  goldentrace_status give(const WriterHandle& writer, const char* name) {
    const goldentrace_tensor tensor = on_device(name);
    return goldentrace_writer_tensor(writer.get(), &tensor, nullptr);
  }
  void overwrite() {
    device_.enqueue([this] {
      for (float& number : memory_) number += 100;
    });
  }

  const TempFolder folder_;
  const std::string path_ = folder_.file("t.fb");
  std::vector<float> memory_ = {1, 2, 3, 4};  // the device's, while it runs
  const std::vector<std::int64_t> sizes_ = {4};
  SimulatedDevice device_;  // after the memory that it uses
};

TEST_F(CapiDevice, TensorsAreAsTheyWereWhenTheyWereGiven) {
  const WriterHandle writer = open_writer(path_);
  for (const char* name : {"first", "second", "third"}) {
    ASSERT_DONE(give(writer, name));
    overwrite();
  }
  // Three tensors were given and not one copy has run: nobody waited for one.
  EXPECT_EQ(device_.waiting(), 6u);
  device_.start();
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  EXPECT_THAT(device_.askers(), Not(Contains(std::this_thread::get_id())));
  const ReaderHandle reader = open_reader(path_);
  EXPECT_EQ(read_values<float>(reader, *find_record(reader, "first")),
            (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(read_values<float>(reader, *find_record(reader, "second")),
            (std::vector<float>{101, 102, 103, 104}));
  EXPECT_EQ(read_values<float>(reader, *find_record(reader, "third")),
            (std::vector<float>{201, 202, 203, 204}));
}

TEST_F(CapiDevice, GapsAreTakenOutAfterTheCopy) {
  const WriterHandle writer = open_writer(path_);
  const std::vector<std::int64_t> two = {2};
  const std::int64_t backwards[] = {-2};
  goldentrace_tensor tensor =
      tensor_of("x", GOLDENTRACE_FLOAT32, two, memory_.data() + 3);  // 4, then 2
  tensor.strides = backwards;
  tensor.device = device_.calls();
  device_.use_own_memory();
  ASSERT_DONE(goldentrace_writer_tensor(writer.get(), &tensor, nullptr));
  device_.start();
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  EXPECT_EQ(device_.allocated, 0);
  const ReaderHandle reader = open_reader(path_);
  EXPECT_EQ(read_values<float>(reader, *next_record(reader)), (std::vector<float>{4, 2}));
}

TEST_F(CapiDevice, LogitsAndParametersComeFromThereToo) {
  const WriterHandle writer = open_writer(path_);
  goldentrace_logits logits;
  goldentrace_logits_init(&logits);
  logits.data = memory_.data();
  logits.count = 4;
  logits.dtype = GOLDENTRACE_FLOAT32;
  logits.device = device_.calls();
  ASSERT_DONE(goldentrace_writer_logits(writer.get(), &logits));
  goldentrace_parameter parameter;
  goldentrace_parameter_init(&parameter);
  parameter.name = "w";
  parameter.dtype = GOLDENTRACE_FLOAT32;
  parameter.rank = 1;
  parameter.sizes = sizes_.data();
  parameter.data = memory_.data();
  parameter.device = device_.calls();
  ASSERT_DONE(goldentrace_writer_parameter(writer.get(), &parameter, nullptr));
  overwrite();
  device_.start();
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  const ReaderHandle reader = open_reader(path_);
  const goldentrace_result* result = nullptr;
  ASSERT_DONE(goldentrace_reader_result(reader.get(), 0, &result));
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(result->chosen, 3);
  EXPECT_EQ(result->top_logits[0], 4);
  const goldentrace_parameter_record* read = nullptr;
  ASSERT_DONE(goldentrace_reader_parameter(reader.get(), 0, &read));
  ASSERT_NE(read, nullptr);
  const float want[] = {1, 2, 3, 4};
  goldentrace_hash128 hash;
  ASSERT_DONE(goldentrace_hash_bytes(want, sizeof want, &hash));
  EXPECT_EQ(read->hash.low, hash.low);
}

TEST_F(CapiDevice, ACopyThatIsRefusedLatches) {
  const WriterHandle writer = open_writer(path_);
  device_.use_own_memory();
  device_.copies_before_refusal = 1;
  device_.start();
  ASSERT_DONE(give(writer, "good"));
  EXPECT_EQ(give(writer, "bad"), GOLDENTRACE_INTERNAL);
  EXPECT_THAT(goldentrace_message(), HasSubstr("refused a copy, with the number 77"));
  EXPECT_EQ(goldentrace_writer_step(writer.get(), 1), GOLDENTRACE_INTERNAL);
  EXPECT_EQ(goldentrace_writer_close(writer.get()), GOLDENTRACE_INTERNAL);
  EXPECT_EQ(device_.allocated, 0);
}

TEST_F(CapiDevice, ACopyThatFailsLatchesAndLaterOnesKeepTheirMemoryUntilTheyAreDone) {
  WriterHandle writer = open_writer(path_);
  device_.use_own_memory();
  device_.copies_before_failure = 1;
  for (const char* name : {"good", "bad", "late"}) ASSERT_DONE(give(writer, name));
  EXPECT_EQ(device_.allocated, 3);
  device_.start();
  EXPECT_EQ(goldentrace_writer_close(writer.get()), GOLDENTRACE_INTERNAL);
  EXPECT_THAT(goldentrace_message(), HasSubstr("tensor bad: a device copy failed"));
  writer.reset();
  EXPECT_EQ(device_.allocated, 0);
  EXPECT_EQ(device_.waiting(), 0u);
  const ReaderHandle reader = open_reader(path_);
  EXPECT_EQ(goldentrace_reader_whole(reader.get()), 0);
}

TEST_F(CapiDevice, AWriterThatIsDestroyedEarlyWaitsForItsCopies) {
  WriterHandle writer = open_writer(path_);
  device_.use_own_memory();
  ASSERT_DONE(give(writer, "x"));
  device_.start();
  writer.reset();
  EXPECT_EQ(device_.allocated, 0);
}

TEST_F(CapiDevice, NoHostMemoryForACopyIsAFailure) {
  const WriterHandle writer = open_writer(path_);
  device_.use_own_memory();
  device_.out_of_memory = true;
  EXPECT_EQ(give(writer, "x"), GOLDENTRACE_INTERNAL);
  EXPECT_THAT(goldentrace_message(), HasSubstr("no host memory for a copy of 16 bytes"));
  EXPECT_EQ(goldentrace_writer_close(writer.get()), GOLDENTRACE_INTERNAL);
}

TEST_F(CapiDevice, ADeviceThatLacksAFunctionIsRefused) {
  const WriterHandle writer = open_writer(path_);
  goldentrace_device half;
  goldentrace_device_init(&half);
  goldentrace_tensor tensor = on_device("x");
  tensor.device = &half;
  EXPECT_EQ(goldentrace_writer_tensor(writer.get(), &tensor, nullptr),
            GOLDENTRACE_INVALID_ARGUMENT);
  half = *device_.calls();
  half.allocate = [](void*, std::uint64_t) -> void* { return nullptr; };
  EXPECT_EQ(goldentrace_writer_tensor(writer.get(), &tensor, nullptr),
            GOLDENTRACE_INVALID_ARGUMENT);
  EXPECT_DONE(goldentrace_writer_close(writer.get()));
}

TEST_F(CapiDevice, ManyTensorsGoThroughASmallQueue) {
  goldentrace_writer_options options = sample_options();
  options.max_queued_bytes = 4096;
  const WriterHandle writer = open_writer(path_, options);
  device_.use_own_memory();
  device_.start();
  constexpr int kTensors = 300;
  for (int i = 0; i < kTensors; ++i) {
    ASSERT_DONE(give(writer, std::to_string(i).c_str()));
    overwrite();
  }
  ASSERT_DONE(goldentrace_writer_close(writer.get()));
  const ReaderHandle reader = open_reader(path_);
  for (int i = 0; i < kTensors; ++i) {
    const goldentrace_record* record = next_record(reader);
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(record->name, std::to_string(i));
    EXPECT_EQ(read_values<float>(reader, *record)[0], static_cast<float>(1 + 100 * i));
  }
}

}  // namespace
}  // namespace goldentrace
