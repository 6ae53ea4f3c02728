// State of one recording, and what happens to one call between its start and end callback.
// Internal to the recorder; recorder.h is the public face.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "recorder/ambient.h"
#include "recorder/device.h"
#include "recorder/golden_hashes.h"
#include "recorder/op_info.h"
#include "recorder/recorder.h"
#include "recorder/tensor_table.h"
#include "recorder/writer_thread.h"
#include "src/base/flat_index.h"
#include "src/digest/digest.h"
#include "src/event/chunk_builder.h"

namespace goldentrace {

// The call that a thread is inside of. Reused, so that the steady state allocates nothing.
struct Frame {
  const at::RecordFunction* function = nullptr;  // null when the thread is in no recorded call
  const OpInfo* op = nullptr;  // null when the call is lost to a fault of the recorder
  int inner_calls = 0;
  bool inner_calls_hidden = false;  // RecordFunction is off on this thread until the call ends
  std::uint32_t scope = 0;
  std::uint32_t ambient = 0;
  std::uint32_t step = 0;
  std::uint8_t flags = 0;
  bool float_input = false;
  int exceptions = 0;  // in flight on this thread when the call began
  std::uint64_t start_ns = 0;
  std::vector<Node> nodes;

  struct Input {
    c10::StorageImpl* storage;
    StorageEntry* entry;
    ArgumentRole role;
    std::size_t node;     // the argument's place in `nodes`
    std::uint64_t bytes;  // of the storage, before the call
  };
  std::vector<Input> inputs;
  std::vector<at::Tensor> written;  // arguments that the schema marks written
  // Read for the first time by this call, if its results turn out not to be mere views of them.
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> unknown;

  // Of the end callback: every tensor among the results, in their order.
  struct Result {
    const at::Tensor* tensor;
    c10::StorageImpl* storage;  // null for a tensor without memory or of an unknown dtype
    bool has_memory;
  };
  std::vector<Result> results;

  // What is new, with its digest.
  struct NewBytes {
    const at::Tensor* tensor;  // a result, or one of `written`
    c10::StorageImpl* storage;
    bool fresh;  // storage of its own; else an argument written in place
    Write write;
    Digest digest;
    ValueBuffer value;                 // empty where it is kept already
    std::unique_ptr<DeviceWork> work;  // hands over digest and value later
  };
  std::vector<NewBytes> news;

  // Of a search for calls that differ: the bytes, before the call, of storages that it writes.
  std::vector<std::pair<c10::StorageImpl*, ValueBuffer>> before;
  DigestLevel level = DigestLevel::kHash;
  RunTasks run = nullptr;  // for digests of large tensors

  void clear();
};

// Per thread: numbers are given by first sight and never reused, unlike operating-system ids.
struct ThreadState {
  Frame frame;
  std::uint64_t session = 0;  // the session that the numbers below belong to
  std::uint32_t number = 0;
  AmbientBits ambient_bits;
  std::uint32_t ambient_id = 0;
  bool ambient_known = false;
  int paused = 0;

  // The last tensor that a call of this thread wrote, where it may be what a module hands back.
  struct Last {
    at::Tensor tensor;        // kept until the next call that writes, or the module is left
    std::uint64_t chunk = 0;  // the first call of the write's chunk
    std::uint32_t write = 0;  // there
    Hash128 hash;
  };
  Last last;
};
ThreadState& thread_state();

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(RecorderOptions options);

  // Start callback: true when the call is recorded and finish_call must be called for it.
  bool start_call(const at::RecordFunction& function, ThreadState& thread);
  void finish_call(const at::RecordFunction& function, ThreadState& thread);
  // For a call that is no step of the program itself: what it says it writes, with the write
  // counters of now. After it, what no inner call has written was written unseen: it is forgotten,
  // so that its next read makes it an input of the program.
  struct DeclaredWrite {
    c10::intrusive_ptr<c10::StorageImpl> storage;
    std::uint32_t version;
  };
  std::vector<DeclaredWrite> declared_writes(const at::RecordFunction& function, const OpInfo& op);
  void forget_unseen(const std::vector<DeclaredWrite>& writes);
  // The run did not come to its end.
  void cut_short(const std::string& why);
  [[nodiscard]] bool keeps_no_calls() const { return options_.keep.keep() == Keep::kTokens; }
  [[nodiscard]] bool keeps_cuts() const { return options_.keep.keep() == Keep::kCuts; }
  // The value of the last tensor that this thread wrote.
  void keep_cut(ThreadState& thread) noexcept;
  // A fault inside a callback: latched and counted; the call is lost.
  void fault(const char* what) noexcept;

  Status close();
  Result<Hash128> add_parameter(const std::string& name, ParameterKind kind,
                                const at::Tensor& tensor, Recipe recipe,
                                std::vector<std::string> sources, const Hash128* known_hash);
  void add_text(const Text& text) { writer_.push(text, 1u << 16); }
  void set_step(std::uint32_t step);
  std::uint32_t scope(std::string_view path);
  std::uint32_t scope_below(std::string_view name);
  Summary summary() const;

 private:
  Session(RecorderOptions options, std::unique_ptr<TraceWriter> writer,
          std::unique_ptr<GoldenHashes> golden);

  // Argument encoding; false when an argument is a tensor without memory, so that the call can be
  // no program step.
  bool encode_arguments(const at::RecordFunction& function, Frame& frame);
  bool encode_argument(const c10::IValue& value, ArgumentRole role, Frame& frame);
  bool encode_tensor_argument(const at::Tensor& tensor, ArgumentRole role, Frame& frame);
  void encode_storage_argument(const c10::Storage& storage, Frame& frame);
  bool encode_wrapped_number(const at::Tensor& tensor, Frame& frame);
  // True when the value was no tensor and no list, and is encoded.
  bool encode_plain(const c10::IValue& value, Frame& frame);
  void unstorable(const std::string& reason, Frame& frame);
  void encode_result(const c10::IValue& value, std::size_t& next, Frame& frame);

  [[nodiscard]] bool watched(const StorageEntry& entry, const c10::StorageImpl* impl) const;
  void check_watched(StorageEntry& entry, const c10::StorageImpl* impl);
  void capture_external(StorageEntry& entry, c10::StorageImpl* impl, ExternalKind kind);
  void capture_argument(c10::StorageImpl* impl, Frame& frame);
  void capture_overwritten(Frame& frame);
  [[nodiscard]] bool searches() const { return differing_left_ > 0; }
  void copy_before(Frame& frame);
  void keep_if_it_differs(Frame& frame);
  void repeat_arguments(Frame& frame);
  static void renumber_arguments(const c10::StorageImpl* impl, std::uint32_t version, Frame& frame);
  void note_last(const Frame& frame, ThreadState& thread, std::uint32_t first_write);
  void capture_read(const std::vector<c10::IValue>& outputs, Frame& frame);
  void forget_written(const Frame& frame);
  void refresh_watched(StorageEntry& entry, const c10::StorageImpl* impl);
  void find_results(const std::vector<c10::IValue>& outputs, Frame& frame);
  void find_new_bytes(const Frame::Result& result, Frame& frame);
  void add_new_bytes(const at::Tensor& tensor, c10::StorageImpl* storage, bool fresh, Frame& frame);
  void digest_new_bytes(Frame& frame);
  void digest(Frame::NewBytes& news, DigestLevel level, const Frame& frame);
  KeepRules::Answer level_of(std::uint32_t scope, const OpInfo& op);
  const KeepRules::Answer* known_level(std::uint32_t scope, std::uint32_t op) const;
  void register_writes(Frame& frame);
  void append_call(Frame& frame, const ThreadState& thread);
  ValueBuffer copy_of(const at::Tensor& tensor);
  void keep_value(const Hash128& hash, ValueBuffer bytes, std::size_t item_size);
  void add_pending(std::unique_ptr<DeviceWork> work, bool external, std::size_t item_size);
  void flush_parameters();
  void flush_chunk();
  [[nodiscard]] bool is_time_to_flush() const;
  void drop_digests();
  void begin_step(std::uint32_t step);
  std::uint32_t ambient_id(const OpInfo& op, ThreadState& thread);
  std::uint64_t now_ns() const;

  enum CounterId : std::uint8_t {
    kNotExecutable,
    kSkippedNoStorage,
    kFailed,
    kRandom,
    kExternalInputs,
    kExternalBytes,
    kHoles,
    kParametersByValue,
    kCutShort,
    kDiffering,
    kRecorderErrors,
    kCounters,
  };
  void count(CounterId id, std::uint64_t amount = 1, const std::string& first = {});

  struct LevelOfCall {
    std::uint32_t scope;
    std::uint32_t op;
    KeepRules::Answer level;
  };

  struct HashOfHash {
    std::size_t operator()(const Hash128& hash) const { return hash.low; }
  };

  const std::uint64_t number_;  // of the session, for thread-local state
  const RecorderOptions options_;
  const std::chrono::steady_clock::time_point began_;
  mutable std::mutex mutex_;  // guards everything below
  ChunkBuilder builder_;
  TensorTable tensors_{builder_};
  OpTable ops_{builder_};
  WriterThread writer_;
  const std::shared_ptr<DeviceDigester> device_;
  std::vector<PendingDigest> pending_;  // of the chunk that is being filled
  std::uint64_t pending_bytes_ = 0;
  const std::unique_ptr<GoldenHashes> golden_;  // null unless calls that differ are searched for
  std::uint32_t differing_left_ = 0;
  std::uint32_t step_ = 0;
  std::uint32_t threads_ = 0;
  std::uint64_t calls_ = 0;
  std::vector<Parameter> parameters_;  // not written yet
  std::unordered_map<std::uint32_t, std::string> parameter_of_tensor_;
  std::unordered_set<Hash128, HashOfHash> kept_values_;
  std::array<Counter, kCounters> counters_;
  FlatIndex level_index_;  // by scope and op, of this step
  std::vector<LevelOfCall> levels_;
  KeepRules::Answer uniform_level_{};  // of this step, where it is the same for all calls
};

}  // namespace goldentrace
