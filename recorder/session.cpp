#include "recorder/session.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "recorder/scopes.h"
#include "recorder/tensor_facts.h"

namespace goldentrace {
namespace {

std::atomic<std::uint64_t> next_session{1};

// Copies of device memory that wait in one chunk.
constexpr std::uint64_t kMaxPendingBytes = 32u << 20;

Timing in_microseconds(Timing timing) {
  constexpr std::uint64_t kMicrosecond = 1000;
  timing.start_ns -= timing.start_ns % kMicrosecond;
  timing.duration_ns -= timing.duration_ns % kMicrosecond;
  return timing;
}

std::uint64_t size_of(const WriterThread::Program& program) {
  const ProgramChunk& chunk = *program.chunk;
  std::uint64_t size = 0;
  for (const PendingDigest& pending : program.pending) size += pending.work->held_bytes();
  return size + chunk.nodes.size() * sizeof(Node) + chunk.writes.size() * sizeof(Write) +
         chunk.stats.size() * sizeof(Stats) + chunk.sketches.size() * sizeof(Sketch) +
         chunk.calls.size() * sizeof(Call);
}

}  // namespace

void Frame::clear() {
  function = nullptr;
  op = nullptr;
  inner_calls = 0;
  inner_calls_hidden = false;
  flags = 0;
  float_input = false;
  nodes.clear();
  inputs.clear();
  written.clear();
  unknown.clear();
  results.clear();
  news.clear();
  before.clear();
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

Result<std::unique_ptr<Session>> Session::create(RecorderOptions options) {
  std::unique_ptr<GoldenHashes> golden;
  if (!options.only_where_differs.empty()) {
    auto opened = GoldenHashes::open(options.only_where_differs);
    if (!opened.ok()) return opened.status();
    golden = std::move(*opened);
  }
  auto sink = create_file(options.path);
  if (!sink.ok()) return sink.status();
  Header header = options.header;
  // What is read off this process stands; a caller's entry under the same key gives way.
  std::map<std::string, std::string> environment;
  for (auto& entry : numerics_environment()) environment.insert(std::move(entry));
  environment.insert(header.environment.begin(), header.environment.end());
  header.environment.assign(environment.begin(), environment.end());
  header.started_unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  WriterOptions writing;
  writing.values = options.compress;
  auto writer = TraceWriter::create(std::move(*sink), std::move(header), writing);
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<Session>(
      new Session(std::move(options), std::move(*writer), std::move(golden)));
}

Session::Session(RecorderOptions options, std::unique_ptr<TraceWriter> writer,
                 std::unique_ptr<GoldenHashes> golden)
    : number_(next_session++),
      options_(std::move(options)),
      began_(std::chrono::steady_clock::now()),
      writer_(std::move(writer)),
      device_(options_.device != nullptr ? options_.device : make_device_digester()),
      golden_(std::move(golden)),
      differing_left_(golden_ != nullptr ? options_.differing_calls : 0) {
  constexpr std::pair<const char*, CounterSeverity> kNames[kCounters] = {
      {"calls_not_executable", CounterSeverity::kLoss},
      {"calls_skipped_no_storage", CounterSeverity::kInfo},
      {"calls_failed", CounterSeverity::kInfo},
      {"calls_random", CounterSeverity::kInfo},
      {"external_inputs", CounterSeverity::kInfo},
      {"external_bytes", CounterSeverity::kInfo},
      {"holes", CounterSeverity::kLoss},
      {"parameters_by_value", CounterSeverity::kInfo},
      {"run_cut_short", CounterSeverity::kError},
      {"calls_differing", CounterSeverity::kInfo},
      {"recorder_errors", CounterSeverity::kError},
  };
  for (std::size_t i = 0; i < kCounters; ++i) {
    counters_[i].name = kNames[i].first;
    counters_[i].severity = kNames[i].second;
  }
  begin_step(0);
}

std::uint64_t Session::now_ns() const {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now() - began_)
                                        .count());
}

void Session::count(CounterId id, std::uint64_t amount, const std::string& first) {
  if (counters_[id].value == 0) counters_[id].first = first;
  counters_[id].value += amount;
}

void Session::cut_short(const std::string& why) {
  const std::lock_guard lock(mutex_);
  count(kCutShort, 1, why);
}

void Session::fault(const char* what) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    count(kRecorderErrors, 1, "call " + std::to_string(builder_.next_call()) + ": " + what);
  } catch (...) {
    // Not even the message fits in memory; the missing call shows in verification.
  }
}

// ---- parameters, steps, closing -----------------------------------------------------------------

Result<Hash128> Session::add_parameter(const std::string& name, ParameterKind kind,
                                       const at::Tensor& tensor, Recipe recipe,
                                       std::vector<std::string> sources,
                                       const Hash128* known_hash) {
  if (!tensor.defined() || !has_memory(tensor)) {
    return Status(Code::kInvalidArgument, "parameter '" + name + "' has no memory");
  }
  const bool read = known_hash == nullptr || recipe == Recipe::kValue;
  const at::Tensor host = read ? host_tensor(tensor) : tensor;
  const TensorView view = view_of(host);
  Parameter parameter;
  parameter.name = name;
  parameter.kind = kind;
  parameter.hash = known_hash != nullptr ? *known_hash : digest_tensor(view, {}).hash;

  const std::lock_guard lock(mutex_);
  parameter.call = builder_.next_call();
  StorageEntry& entry = tensors_.storage(storage_of(tensor));
  parameter.tensor = tensors_.tensor(entry, tensor);
  const auto [owner, first] = parameter_of_tensor_.try_emplace(parameter.tensor, name);
  if (!first) {
    parameter.recipe = Recipe::kTied;
    parameter.sources = {owner->second};
  } else if (entry.content == Content::kKnown) {
    parameter.recipe = Recipe::kComputed;
  } else {
    parameter.recipe = recipe;
    parameter.sources = std::move(sources);
    if (recipe == Recipe::kValue) {
      if (kind == ParameterKind::kParameter) count(kParametersByValue, 1, name);
      keep_value(parameter.hash, copy_of(host), tensor.element_size());
    }
  }
  // Of memory that reaches further, the rest is in no dictionary: its first read stores it whole.
  if (covers_storage(tensor)) {
    entry.content = Content::kKnown;
    entry.parameter = true;
    refresh_watched(entry, storage_of(tensor));
  }
  const Hash128 hash = parameter.hash;
  parameters_.push_back(std::move(parameter));
  return hash;
}

// The dictionary refers to tensors, so their definitions are written first.
void Session::flush_parameters() {
  flush_chunk();
  const std::uint64_t size = parameters_.size() * 256;
  writer_.push(std::exchange(parameters_, {}), size);
}

void Session::flush_chunk() {
  WriterThread::Program program{writer_.spare(), std::exchange(pending_, {})};
  pending_bytes_ = 0;
  builder_.take_into(*program.chunk);
  const std::uint64_t size = size_of(program);
  writer_.push(std::move(program), size);
}

// A chunk whose digests are going to be dropped is kept until then, within reason.
bool Session::is_time_to_flush() const {
  const bool kept = options_.keep.dropped_later(step_);
  return (kept ? builder_.much_too_full() : builder_.full()) || pending_bytes_ >= kMaxPendingBytes;
}

// Of this step's calls, but for what a rule asks for and what is kept by value: control, and
// results of random calls. Their times lose what nobody asks for either.
void Session::drop_digests() {
  ProgramChunk& chunk = builder_.chunk();
  constexpr unsigned kDropped = kWriteHashed | kWriteStats | kWriteSketch;
  std::size_t stats = 0;
  std::size_t sketches = 0;
  for (std::size_t c = 0; c < chunk.calls.size(); ++c) {
    const Call& call = chunk.calls[c];
    if (call.step == step_) chunk.timings[c] = in_microseconds(chunk.timings[c]);
    const KeepRules::Answer* level = known_level(call.scope, call.op);
    const bool drop = call.step == step_ && (level == nullptr || !level->by_rule);
    for (std::size_t i = call.first_write; i < call.first_write + call.writes; ++i) {
      Write& write = chunk.writes[i];
      if (drop && (write.flags & kWriteValue) == 0) {
        write.flags = static_cast<std::uint8_t>(write.flags & ~kDropped);
        write.hash = {};
      }
      if ((write.flags & kWriteStats) != 0) {
        chunk.stats[stats] = chunk.stats[write.stats_index];
        write.stats_index = static_cast<std::uint32_t>(stats++);
      }
      if ((write.flags & kWriteSketch) != 0) {
        chunk.sketches[sketches] = chunk.sketches[write.sketch_index];
        write.sketch_index = static_cast<std::uint32_t>(sketches++);
      }
    }
  }
  chunk.stats.resize(stats);
  chunk.sketches.resize(sketches);
}

void Session::set_step(std::uint32_t step) {
  const std::lock_guard lock(mutex_);
  if (step > step_ && options_.keep.dropped_later(step_)) {
    drop_digests();
    if (builder_.full()) flush_chunk();
  }
  begin_step(step);
}

void Session::begin_step(std::uint32_t step) {
  step_ = step;
  level_index_.clear();
  levels_.clear();
  if (golden_ != nullptr) {
    const Status status = golden_->begin_step(step);
    if (!status.ok()) {
      count(kRecorderErrors, 1, status.message());
      differing_left_ = 0;
    }
  }
  if (options_.keep.uniform()) uniform_level_ = options_.keep.level("", "", "", step);
}

const KeepRules::Answer* Session::known_level(std::uint32_t scope, std::uint32_t op) const {
  if (options_.keep.uniform()) return &uniform_level_;
  const std::uint32_t known = level_index_.find(mix_hash(scope, op), [&](std::uint32_t i) {
    return levels_[i].scope == scope && levels_[i].op == op;
  });
  return known != FlatIndex::kNone ? &levels_[known].level : nullptr;
}

KeepRules::Answer Session::level_of(std::uint32_t scope, const OpInfo& op) {
  if (const auto* known = known_level(scope, op.id)) return *known;
  const auto level = options_.keep.level(builder_.scope_path(scope), op.name, op.qualified, step_);
  level_index_.insert(mix_hash(scope, op.id), static_cast<std::uint32_t>(levels_.size()));
  levels_.push_back({scope, op.id, level});
  return level;
}

std::uint32_t Session::scope(std::string_view path) {
  const std::lock_guard lock(mutex_);
  return builder_.scope(path);
}

std::uint32_t Session::scope_below(std::string_view name) {
  const std::lock_guard lock(mutex_);
  std::string path = builder_.scope_path(scopes::current());
  if (!path.empty()) path += '.';
  return builder_.scope(path.append(name));
}

Summary Session::summary() const {
  const std::lock_guard lock(mutex_);
  Summary summary;
  summary.counters.assign(counters_.begin(), counters_.end());
  summary.calls = calls_;
  summary.duration_ns = now_ns();
  return summary;
}

Status Session::close() {
  {
    const std::lock_guard lock(mutex_);
    if (!parameters_.empty()) flush_parameters();
    flush_chunk();
  }
  const Summary closing = summary();
  GOLDENTRACE_RETURN_IF_ERROR(writer_.close(closing));
  const Counter& errors = counters_[kRecorderErrors];
  if (errors.value > 0) {
    return {Code::kInternal, options_.path +
                                 ": the program is not whole: " + std::to_string(errors.value) +
                                 " fault(s) of the recorder, the first at " + errors.first};
  }
  return {};
}

}  // namespace goldentrace
