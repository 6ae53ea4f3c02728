#include "recorder/recorder.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "recorder/scopes.h"
#include "recorder/session.h"

namespace goldentrace {
namespace {

std::atomic<Session*> active{nullptr};

// PyTorch's handle of the callback, while there is one, and how many times all threads are paused.
std::mutex callback_mutex;
at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
int paused_everywhere = 0;

// ---- the callbacks ------------------------------------------------------------------------------
// Nothing may escape them: PyTorch swallows what a start callback throws, and a call would be lost.

// A frame without an operator that is a scope of the program: what torch.compile made. Its inner
// calls, if its backend makes any, are ordinary ones.
constexpr std::string_view kCompiledRegion = "Torch-Compiled Region";
constexpr std::string_view kCompiledScope = "<compiled>";

// Something to do when a frame that is no recorded call ends.
struct Inside : at::ObserverContext {
  virtual void leave() = 0;
};

struct CompiledRegion : Inside {
  std::uint32_t scope = 0;
  void leave() override { leave_scope(scope); }
};

// A call that is descended into, and may write what it said it writes without any inner call.
struct Descent : Inside {
  std::vector<Session::DeclaredWrite> writes;
  void leave() override {
    if (Session* session = active.load(std::memory_order_acquire)) session->forget_unseen(writes);
  }
};
thread_local std::uint32_t compiled_scope = 0;  // the innermost; 0, the root, when there is none

std::unique_ptr<at::ObserverContext> enter_region(const at::RecordFunction& function,
                                                  Session& session) {
  if (!std::string_view(function.name()).starts_with(kCompiledRegion)) return nullptr;
  // One that is called by another, after a break of the graph, is the same one.
  if (compiled_scope != 0 && scopes::current() == compiled_scope) return nullptr;
  auto region = std::make_unique<CompiledRegion>();
  region->scope = session.scope_below(kCompiledScope);
  scopes::enter(compiled_scope = region->scope);
  return region;
}

std::unique_ptr<at::ObserverContext> descend(const at::RecordFunction& function, const OpInfo& op,
                                             Session& session) {
  auto writes = session.declared_writes(function, op);
  if (writes.empty()) return nullptr;
  auto descent = std::make_unique<Descent>();
  descent->writes = std::move(writes);
  return descent;
}

// What happens inside a top-level call is its own business; not looking at it is also what makes
// recording cheap. on_end turns it on again, after exceptions too. Turning it off and on costs 350
// ns and five allocations of PyTorch's, an inner call that is looked at and passed on 150 ns.
constexpr int kManyInnerCalls = 3;

void hide_inner_calls(Frame& frame) {
  if (frame.inner_calls_hidden) return;
  frame.inner_calls_hidden = true;
  at::enableRecordFunction(false);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) noexcept {
  ThreadState& thread = thread_state();
  if (thread.paused > 0) return nullptr;
  if (thread.frame.function != nullptr) {
    // The next time this operator hides its inner calls from the start.
    if (++thread.frame.inner_calls < kManyInnerCalls) return nullptr;
    if (thread.frame.op != nullptr) thread.frame.op->hides_inner_calls.store(true);
    hide_inner_calls(thread.frame);
    return nullptr;
  }
  // A kernel's own loop, on the threads that help it.
  if (at::in_parallel_region()) return nullptr;
  Session* session = active.load(std::memory_order_acquire);
  if (session == nullptr) return nullptr;
  ++thread.paused;  // as in on_end
  bool recorded = false;
  bool lost = false;
  std::unique_ptr<at::ObserverContext> region;
  try {
    recorded = session->start_call(function, thread);
    if (!recorded && thread.frame.op == nullptr) region = enter_region(function, *session);
    if (!recorded && thread.frame.op != nullptr && !thread.frame.op->builtin) {
      region = descend(function, *thread.frame.op, *session);
    }
  } catch (const std::exception& error) {
    session->fault(error.what());
    lost = true;
  } catch (...) {
    session->fault("unknown exception");
    lost = true;
  }
  --thread.paused;
  if (!recorded) thread.frame.clear();
  if (lost) thread.frame.function = &function;  // its inner calls are no substitute for it
  if (lost || (recorded && thread.frame.op->hides_inner_calls.load(std::memory_order_relaxed))) {
    hide_inner_calls(thread.frame);
  }
  return region;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) noexcept {
  ThreadState& thread = thread_state();
  if (context != nullptr) {
    ++thread.paused;
    try {
      static_cast<Inside*>(context)->leave();
    } catch (...) {  // out of memory: what was written shows in verification
    }
    --thread.paused;
    return;
  }
  if (thread.frame.function != &function) return;
  Session* session = active.load(std::memory_order_acquire);
  if (session != nullptr && thread.frame.op != nullptr) {
    ++thread.paused;  // looking at tensors calls the dispatcher itself
    try {
      session->finish_call(function, thread);
    } catch (const std::exception& error) {
      session->fault(error.what());
    } catch (...) {
      session->fault("unknown exception");
    }
    --thread.paused;
  }
  if (thread.frame.inner_calls_hidden) at::enableRecordFunction(true);
  thread.frame.clear();
}

// A forked child inherits the callback but not the writer thread: it records nothing.
void stop_in_child() { active.store(nullptr, std::memory_order_release); }

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::start(RecorderOptions options) {
  static const int registered = pthread_atfork(nullptr, nullptr, stop_in_child);
  (void)registered;
  if (active.load() != nullptr) {
    return Status(Code::kInvalidArgument, "a recording is running already in this process");
  }
  auto session = Session::create(std::move(options));
  if (!session.ok()) return session.status();
  scopes::forget_all();
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(*session)));
  active.store(recorder->session_.get(), std::memory_order_release);
  if (recorder->session_->keeps_no_calls()) return recorder;
  const std::lock_guard lock(callback_mutex);
  callback = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                       .needsInputs(true)
                                       .needsOutputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
  if (paused_everywhere > 0) at::disableCallback(callback);
  return recorder;
}

Recorder::Recorder(std::unique_ptr<Session> session)
    : session_(std::move(session)), process_(::getpid()) {}

Recorder::~Recorder() {
  (void)stop();
  // The thread that it would wait for does not exist in a forked child.
  if (process_ != ::getpid()) (void)session_.release();
}

Status Recorder::stop() {
  if (std::exchange(stopped_, true)) return {};
  if (process_ != ::getpid()) return {};  // a forked child: the trace is its parent's to close
  {
    const std::lock_guard lock(callback_mutex);
    const auto handle = std::exchange(callback, at::INVALID_CALLBACK_HANDLE);
    if (handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
  }
  active.store(nullptr, std::memory_order_release);
  thread_state().last = {};
  return session_->close();
}

Result<Hash128> Recorder::add_parameter(const std::string& name, ParameterKind kind,
                                        const at::Tensor& tensor, Recipe recipe,
                                        std::vector<std::string> sources,
                                        const Hash128* known_hash) {
  const PauseRecording pause;
  return session_->add_parameter(name, kind, tensor, recipe, std::move(sources), known_hash);
}

void Recorder::cut_short(const std::string& why) { session_->cut_short(why); }
void Recorder::add_text(const Text& text) { session_->add_text(text); }
void Recorder::set_step(std::uint32_t step) { session_->set_step(step); }
std::uint32_t Recorder::scope(std::string_view path) { return session_->scope(path); }
std::uint32_t Recorder::scope_below(std::string_view name) { return session_->scope_below(name); }
Summary Recorder::summary() const { return session_->summary(); }

void pause_recording() { ++thread_state().paused; }
void resume_recording() { --thread_state().paused; }
void pause_all_recording() {
  const std::lock_guard lock(callback_mutex);
  if (paused_everywhere++ == 0 && callback != at::INVALID_CALLBACK_HANDLE) {
    at::disableCallback(callback);
  }
}

void resume_all_recording() {
  const std::lock_guard lock(callback_mutex);
  if (--paused_everywhere == 0 && callback != at::INVALID_CALLBACK_HANDLE) {
    at::reenableCallback(callback);
  }
}

void leave_scope(std::uint32_t scope) {
  Session* session = active.load(std::memory_order_acquire);
  if (session != nullptr && session->keeps_cuts()) {
    const PauseRecording pause;
    session->keep_cut(thread_state());
  }
  scopes::exit(scope);
}

ModuleScope::ModuleScope(std::string_view path) : scope_(0) {
  if (Session* session = active.load(); session != nullptr) scope_ = session->scope(path);
  scopes::enter(scope_);
}

ModuleScope::~ModuleScope() { leave_scope(scope_); }

}  // namespace goldentrace
