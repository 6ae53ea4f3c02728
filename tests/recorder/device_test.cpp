// Digests of tensors in a device's memory, by a device that is not there: its work is what the
// memory holds where it was launched, and it is done when the test says so.
#include "recorder/device.h"

#include <ATen/ops/add.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "recorder/tensor_facts.h"
#include "recorder/writer_thread.h"
#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

using testing::Recorded;
using testing::RecordedCall;
using testing::RecordingTest;

// All of one simulated device.
struct Stream {
  std::atomic<bool> stalled{false};
  std::atomic<int> launched{0};
  std::atomic<int> finished{0};
  std::atomic<std::uint64_t> held{0};
  std::thread::id model = std::this_thread::get_id();
  std::atomic<bool> asked_by_model{false};  // whether it is done
};

class Work : public DeviceWork {
 public:
  Work(Stream& stream, const at::Tensor& tensor, const DigestOptions& options)
      : stream_(stream),
        dtype_(static_cast<DType>(tensor.scalar_type())),
        bytes_(dense_bytes(view_of(tensor))),
        options_(options),
        // Later ones are done earlier as often as not.
        ready_(std::chrono::steady_clock::now() +
               std::chrono::microseconds(stream.launched++ % 7 * 150)) {
    stream_.held += bytes_.size();
  }
  ~Work() override { stream_.held -= bytes_.size(); }

  bool done() override {
    if (std::this_thread::get_id() == stream_.model) stream_.asked_by_model = true;
    return !stream_.stalled && std::chrono::steady_clock::now() >= ready_;
  }
  Digest digest() override {
    EXPECT_TRUE(done());
    ++stream_.finished;
    const auto count = static_cast<std::int64_t>(bytes_.size() / item_size(dtype_));
    const std::int64_t one = 1;
    return digest_tensor({bytes_.data(), dtype_, {&count, 1}, {&one, 1}}, options_);
  }
  std::vector<std::byte> bytes() override { return bytes_; }
  std::uint64_t held_bytes() const override { return bytes_.size(); }

 private:
  Stream& stream_;
  const DType dtype_;
  const std::vector<std::byte> bytes_;
  const DigestOptions options_;
  const std::chrono::steady_clock::time_point ready_;
};

class SimulatedDevice : public DeviceDigester {
 public:
  explicit SimulatedDevice(Stream& stream) : stream_(stream) {}
  bool handles(const at::Tensor& tensor) const override { return tensor.numel() > 0; }
  std::unique_ptr<DeviceWork> launch(const at::Tensor& tensor, const DigestOptions& options,
                                     bool /*with_bytes*/) override {
    return std::make_unique<Work>(stream_, tensor, options);
  }

 private:
  Stream& stream_;
};

class DeviceTest : public RecordingTest {
 protected:
  // In-place writes right after each call, tensors that die at once, an input from outside,
  // control.
  static void run(const at::Tensor& outside) {
    at::Tensor x = at::linspace(0, 1, 5000);
    for (int i = 0; i < 200; ++i) {
      const at::Tensor y = at::add(x, outside.slice(0, 0, 5000));
      y.mul_(0.5);
      y.add_(i);
      x = at::mul(y, 1.0 / (i + 1));
    }
    at::argmax(x);
  }
  Recorded record_on_device(RecorderOptions options = {}) {
    options.device = std::make_shared<SimulatedDevice>(stream_);
    return record([&] { run(outside_); }, std::move(options));
  }

  Stream stream_;
  const at::Tensor outside_ = at::linspace(-1, 1, 5001);
};

TEST_F(DeviceTest, WhatIsRecordedIsWhatTheCallLeftWhateverComesLater) {
  const Recorded host = record([&] { run(outside_); }, {.path = folder().file("host.fb")});
  const Recorded device = record_on_device();
  ASSERT_EQ(device.calls.size(), host.calls.size());
  for (std::size_t i = 0; i < host.calls.size(); ++i) {
    SCOPED_TRACE(host.calls[i].op + " call " + std::to_string(i));
    ASSERT_EQ(device.calls[i].writes.size(), host.calls[i].writes.size());
    for (std::size_t w = 0; w < host.calls[i].writes.size(); ++w) {
      EXPECT_EQ(device.calls[i].writes[w].write, host.calls[i].writes[w].write);
      EXPECT_EQ(device.calls[i].writes[w].stats, host.calls[i].writes[w].stats);
    }
  }
  ASSERT_EQ(device.externals.size(), 1u);
  EXPECT_EQ(device.externals[0], host.externals[0]);
  EXPECT_TRUE(device.trace->has_value(device.externals[0].hash));
  EXPECT_TRUE(device.trace->has_value(device.only("aten::argmax").writes.at(0).write.hash));
  EXPECT_GT(stream_.launched, 800);
  expect_reproduced();
}

TEST_F(DeviceTest, TheModelWaitsForNothing) {
  std::thread releases;
  stream_.stalled = true;
  const Recorded recorded = record(
      [&] {
        run(outside_);
        EXPECT_EQ(stream_.finished, 0) << "the device has not done anything yet";
        releases = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          stream_.stalled = false;
        });
      },
      {.device = std::make_shared<SimulatedDevice>(stream_)});
  releases.join();
  EXPECT_FALSE(stream_.asked_by_model);
  EXPECT_EQ(stream_.finished, stream_.launched);
  EXPECT_EQ(stream_.held, 0u);
  expect_reproduced();
}

TEST_F(DeviceTest, CopiesOfValuesAreBounded) {
  constexpr std::uint64_t kTensor = 4 << 20;
  std::atomic<std::uint64_t> most{0};
  record(
      [&] {
        const at::Tensor x = at::linspace(0, 1, kTensor / 4);
        for (int i = 0; i < 100; ++i) {
          at::add(x, i);
          most = std::max<std::uint64_t>(most, stream_.held);
        }
      },
      {.keep = KeepRules(Keep::kAll), .device = std::make_shared<SimulatedDevice>(stream_)});
  // One chunk being filled, those in the queue, and the one being written.
  EXPECT_LE(most, kMaxQueuedBytes + 3 * (32u << 20) + kTensor);
  EXPECT_GE(most, kTensor);
}

TEST_F(DeviceTest, DigestsThatAreDroppedLaterAreDroppedOnADeviceToo) {
  const Recorded recorded = record(
      [&](Recorder& recorder) {
        at::Tensor x = at::linspace(0, 1, 5000);
        for (std::uint32_t step = 0; step < 9; ++step) {
          recorder.set_step(step);
          x = at::add(x, 1);
        }
      },
      {.device = std::make_shared<SimulatedDevice>(stream_)});
  for (const RecordedCall& call : recorded.calls) {
    if (call.op != "aten::add.Tensor") continue;
    const bool kept = call.call.step <= 4 || call.call.step == 8;
    EXPECT_EQ((call.writes.at(0).write.flags & kWriteHashed) != 0, kept) << call.call.step;
  }
  EXPECT_EQ(expect_reproduced().hashes, 7u);
}

}  // namespace
}  // namespace goldentrace
