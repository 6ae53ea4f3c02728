// Records every top-level dispatcher call of this process into a trace, until stop().
//
//   auto recorder = Recorder::start({.path = "out.fb"});
//   { ModuleScope scope("model.layers.0"); y = at::relu(x); }
//   Status status = (*recorder)->stop();
//
// One recorder at a time and process. It never disturbs what it watches: results and exceptions
// pass untouched, and a fault of the recorder itself is latched, counted, and told by stop().
// Threads: calls of all threads are recorded; start() and stop() must not race with dispatcher
// calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/keep_rules.h"
#include "src/base/status.h"
#include "src/event/run.h"
#include "src/format/codec.h"
#include "src/format/compression.h"

// The library hides everything else.
#define GOLDENTRACE_API __attribute__((visibility("default")))

namespace goldentrace {

class DeviceDigester;
class Session;

struct RecorderOptions {
  std::string path = {};
  Header header = {};   // the numerics switches of this process are added to its environment
  KeepRules keep = {};  // default: hash and stats of everything written
  // Keep the values, of arguments too, of the first calls whose results have other hashes than in
  // this golden trace; empty: none. Such calls of a device's tensors wait for it.
  std::string only_where_differs = {};
  std::uint32_t differing_calls = 8;  // so many
  ValueCompression compress = ValueCompression::kFast;
  // Look for hidden writes at every read of every storage, not of those up to 4 KiB only: slow.
  bool check_reads = false;
  // How tensors in other memory than the host's are digested; null: as this build can.
  std::shared_ptr<DeviceDigester> device = nullptr;
  // For tests of the promise above: throw inside the callback of this call. 0 is never.
  std::uint64_t fail_at_call = 0;
};

class GOLDENTRACE_API Recorder {
 public:
  // kInvalidArgument when another recorder runs; else what creating the file can give.
  static Result<std::unique_ptr<Recorder>> start(RecorderOptions options);
  ~Recorder();  // stops, and drops stop()'s answer
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Closes the trace. Not ok when the file is not whole: a write failed, or a call was lost.
  Status stop();

  // Enters `tensor` into the parameter dictionary; returns the hash of its dense bytes. With
  // Recipe::kValue the bytes are stored. A tensor whose storage is known already gets kTied.
  // `known_hash` is the hash when the caller has it already, as for a model recorded many times.
  Result<Hash128> add_parameter(const std::string& name, ParameterKind kind,
                                const at::Tensor& tensor, Recipe recipe,
                                std::vector<std::string> sources,
                                const Hash128* known_hash = nullptr);
  // The run ended early: replay refuses to judge the trace.
  void cut_short(const std::string& why);
  void add_text(const Text& text);
  // Calls from now on belong to forward pass `step`; 0 is the prefill.
  void set_step(std::uint32_t step);
  // The id of a module path, for scopes::enter.
  std::uint32_t scope(std::string_view path);
  // The id of `name` below the scope that this thread is in.
  std::uint32_t scope_below(std::string_view name);
  // Counters so far; after stop() those of the whole recording.
  [[nodiscard]] Summary summary() const;

 private:
  explicit Recorder(std::unique_ptr<Session> session);
  std::unique_ptr<Session> session_;
  std::int64_t process_ = 0;  // a forked child must not close its parent's trace
  bool stopped_ = false;
};

// This thread leaves the module of scope id `scope`, which scopes::enter entered.
GOLDENTRACE_API void leave_scope(std::uint32_t scope);

// Calls of this thread are not recorded between the two; pairs nest.
GOLDENTRACE_API void pause_recording();
GOLDENTRACE_API void resume_recording();

// The same for all threads: for what is no part of the program, as the loading of a checkpoint.
// Meanwhile PyTorch does not even call the recorder.
GOLDENTRACE_API void pause_all_recording();
GOLDENTRACE_API void resume_all_recording();

// The same for a block: for looking at tensors without adding to the program.
class PauseRecording {
 public:
  PauseRecording() { pause_recording(); }
  ~PauseRecording() { resume_recording(); }
  PauseRecording(const PauseRecording&) = delete;
  PauseRecording& operator=(const PauseRecording&) = delete;
};

// Names the module that the calls of this thread belong to, for as long as it lives.
class GOLDENTRACE_API ModuleScope {
 public:
  explicit ModuleScope(std::string_view path);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  std::uint32_t scope_;
};

}  // namespace goldentrace
