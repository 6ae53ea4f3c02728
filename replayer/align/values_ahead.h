// Reads values of a trace on a thread of its own, in the order that they will be asked for: reading
// and proving them takes as long as a third of judging them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/format/trace_reader.h"

namespace goldentrace {

class ValuesAhead {
 public:
  static Result<std::unique_ptr<ValuesAhead>> open(const std::string& path);
  ~ValuesAhead();
  ValuesAhead(const ValuesAhead&) = delete;
  ValuesAhead& operator=(const ValuesAhead&) = delete;

  // Asks for a value; the answer is the number to get it by.
  std::uint64_t ask(const Hash128& hash);
  // Waits for it. Numbers must rise; what lies between is not wanted any more. The bytes stay until
  // the next one is got.
  Result<std::span<const std::byte>> get(std::uint64_t number);

 private:
  struct Value {
    std::uint64_t number = 0;
    Status status;
    Bytes bytes;
  };

  explicit ValuesAhead(std::unique_ptr<TraceReader> trace);
  Value take_first();
  void spare(Bytes&& bytes);
  void read_all();
  void read(const Hash128& hash, Value& value) const;

  const std::unique_ptr<TraceReader> trace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Hash128> asked_;
  std::uint64_t next_ = 0;    // to be asked
  std::uint64_t wanted_ = 0;  // none below
  std::deque<Value> ready_;
  std::uint64_t ready_bytes_ = 0;
  std::vector<Bytes> spare_;  // memory of values that were got
  Value current_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace goldentrace
