// goldentrace_writer: the callers' side. Checks and copies what is given, numbers it, and hands it
// to the writer's thread. Every function may be called from several threads at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "src/base/status.h"
#include "src/base/work_queue.h"
#include "src/capi/assembler.h"
#include "src/capi/goldentrace.h"

namespace goldentrace::capi {

class Writer {
 public:
  static Result<std::unique_ptr<Writer>> open(const char* path,
                                              const goldentrace_writer_options* options);

  Status set_step(std::uint32_t step);
  // `id`, which may be null, receives the tensor's number plus 1.
  Status tensor(const goldentrace_tensor* tensor, std::uint64_t* id);
  Status parameter(const goldentrace_parameter* parameter, std::uint64_t* id);
  Status request(const goldentrace_request* request);
  Status result(const goldentrace_result* result);
  Status logits(const goldentrace_logits* logits);
  Status cut_short(const char* why);
  Status flush();
  Status close();

 private:
  class Room;
  Writer(std::unique_ptr<TraceWriter> writer, const Header& header, std::uint64_t max_bytes);

  [[nodiscard]] Status usable() const;
  Result<std::uint32_t> step_of(std::int64_t step) const;
  template <typename NumberedJob>
  Status push_numbered(Room& room, NumberedJob& job, std::uint32_t& number, std::uint64_t* id);
  Result<std::vector<std::uint32_t>> read_inputs(const goldentrace_tensor& from) const;
  Result<HostCopy> copy(const void* data, const Shape& shape, const goldentrace_device* device,
                        void* stream);
  std::uint32_t thread_number();
  [[nodiscard]] std::uint64_t elapsed_ns() const;

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  Assembler assembler_;  // of the queue's thread

  mutable std::mutex mutex_;  // guards what follows; held while jobs get their numbers
  bool closed_ = false;
  Status failed_;  // a device that refused a copy
  std::uint32_t step_ = 0;
  std::uint32_t tensors_ = 0;
  std::unordered_map<std::thread::id, std::uint32_t> threads_;
  Summary summary_;

  WorkQueue<Job> queue_;  // last: its thread uses the assembler
};

}  // namespace goldentrace::capi
