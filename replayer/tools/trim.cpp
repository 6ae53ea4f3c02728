#include "replayer/tools/trim.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "replayer/report/format.h"
#include "replayer/tools/trim_plan.h"
#include "replayer/tools/trim_program.h"
#include "src/base/output_file.h"
#include "src/format/compression.h"
#include "src/format/trace_reader.h"
#include "src/format/trace_writer.h"

namespace goldentrace {
namespace {

constexpr const char* kCallsTrimmed = "calls_trimmed";

// Timings of calls that are asked for in rising order.
class Timings {
 public:
  explicit Timings(const TraceReader& trace) : trace_(trace) {}

  [[nodiscard]] bool any() const {
    return std::ranges::count(trace_.chunks(), ChunkKind::kTiming, &ChunkEntry::kind) > 0;
  }
  // All zero for a call whose timing is lost.
  Result<Timing> of(std::uint64_t call) {
    const auto chunks = trace_.chunks();
    while (call >= first_ + loaded_.size()) {
      while (next_ < chunks.size() && chunks[next_].kind != ChunkKind::kTiming) ++next_;
      if (next_ == chunks.size()) return Timing();
      const auto raw = trace_.read_chunk(next_++);
      if (!raw.ok()) return raw.status();
      auto timings = decode_timing(*raw, first_);
      if (!timings.ok()) return timings.status();
      loaded_ = std::move(*timings);
    }
    return call < first_ ? Timing() : loaded_[call - first_];
  }

 private:
  const TraceReader& trace_;
  std::size_t next_ = 0;
  std::uint64_t first_ = 0;
  std::vector<Timing> loaded_;
};

// The second reading: chunk by chunk, in the order of the file.
class Trimming {
 public:
  Trimming(const TraceReader& trace, const TrimOptions& options, const TrimPlan& plan,
           std::vector<Parameter> parameters, TraceWriter& writer)
      : trace_(trace),
        options_(options),
        plan_(plan),
        writer_(writer),
        selects_(selects_calls(options.filter)),
        matcher_(options.filter, dictionary_),
        trimmer_(dictionary_),
        timings_(trace),
        timed_(!options.drop_timings && timings_.any()),
        parameters_(std::move(parameters)),
        places_(parameters_.size()),
        entries_(trace.values().size()) {
    std::iota(places_.begin(), places_.end(), std::size_t{0});
    std::ranges::stable_sort(places_, {}, [&](std::size_t i) { return parameters_[i].call; });
    std::iota(entries_.begin(), entries_.end(), std::uint32_t{0});
    std::ranges::stable_sort(entries_, {},
                             [&](std::uint32_t i) { return trace.values()[i].chunk; });
  }

  Status run() {
    for (std::size_t i = 0; i < trace_.chunks().size(); ++i) {
      GOLDENTRACE_RETURN_IF_ERROR(trim_chunk(i));
    }
    return selects_ ? finish_program() : Status();
  }
  [[nodiscard]] std::uint64_t values_dropped() const { return values_dropped_; }

 private:
  Status trim_chunk(std::size_t i) {
    switch (trace_.chunks()[i].kind) {
      case ChunkKind::kHeader:
      case ChunkKind::kSummary:
        return {};  // others are written in their place
      case ChunkKind::kProgram:
        return trim_program(i);
      case ChunkKind::kTiming:
        return selects_ || options_.drop_timings ? Status() : copy(i, {});
      case ChunkKind::kParameters:
        return selects_ ? Status() : copy(i, {});
      case ChunkKind::kText:
        return selects_ ? trim_text(i) : copy(i, {});
      case ChunkKind::kValues:
        return trim_values(i);
      default:
        // What this build does not know may name calls.
        return selects_ ? Status() : copy(i, {});
    }
  }

  Status copy(std::size_t i, std::span<const ValuePart> parts) {
    const auto found = trace_.read_stored(i);
    if (!found.ok()) return found.status();
    return writer_.copy_chunk(trace_.chunks()[i], found->header.item_size, found->stored, parts);
  }

  Status trim_program(std::size_t i) {
    const auto raw = trace_.read_chunk(i);
    if (!raw.ok()) return raw.status();
    auto chunk = decode_program(*raw);
    if (!chunk.ok()) return chunk.status();
    GOLDENTRACE_RETURN_IF_ERROR(dictionary_.absorb(*chunk));
    const bool changed = drop_flags(*chunk);
    if (selects_) return trim_calls(*chunk);
    return changed ? writer_.write_program(*chunk) : copy(i, {});
  }

  // No write may say that its value is kept when it is not.
  bool drop_flags(ProgramChunk& chunk) {
    bool changed = false;
    for (const Call& call : chunk.calls) {
      for (std::size_t w = 0; w < call.writes; ++w) {
        Write& write = chunk.writes[call.first_write + w];
        if ((write.flags & kWriteValue) == 0 || !drops_value(options_, call, write)) continue;
        write.flags = static_cast<std::uint8_t>(write.flags & ~unsigned{kWriteValue});
        changed = true;
      }
    }
    return changed;
  }

  Status trim_calls(const ProgramChunk& chunk) {
    trimmer_.learn_notes(chunk);
    std::size_t next_external = 0;
    const auto take_externals = [&](std::uint64_t call) {
      for (; next_external < chunk.externals.size() && chunk.externals[next_external].call <= call;
           ++next_external) {
        const External& external = chunk.externals[next_external];
        if (plan_.needs(external)) externals_.push_back(external);
      }
    };
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const std::uint64_t old = chunk.base.calls + i;
      take_externals(old);
      if (!matcher_.matches(chunk.calls[i], old)) continue;
      const std::uint64_t number = trimmer_.add(chunk, i, std::exchange(externals_, {}));
      place_parameters(old, number);
      if (timed_) {
        const auto timing = timings_.of(old);
        if (!timing.ok()) return timing.status();
        trimmer_.add(*timing);
      }
      if (trimmer_.full()) GOLDENTRACE_RETURN_IF_ERROR(writer_.write_program(trimmer_.take()));
    }
    take_externals(chunk.base.calls + chunk.calls.size());
    return {};
  }

  // Parameters that are in place before call `old` are so before it as call `number`.
  void place_parameters(std::uint64_t old, std::uint64_t number) {
    for (; next_place_ < places_.size() && parameters_[places_[next_place_]].call <= old;
         ++next_place_) {
      parameters_[places_[next_place_]].call = number;
    }
  }

  // All parameters stay, so that the weights of two runs can be compared.
  Status finish_program() {
    place_parameters(std::numeric_limits<std::uint64_t>::max(), plan_.kept_calls);
    for (Parameter& parameter : parameters_) {
      if (parameter.tensor >= dictionary_.tensors()) {
        return {Code::kCorrupt, trace_.name() + ": parameter of an undefined tensor"};
      }
      parameter.tensor = trimmer_.tensor(parameter.tensor);
    }
    if (!trimmer_.empty()) GOLDENTRACE_RETURN_IF_ERROR(writer_.write_program(trimmer_.take()));
    return parameters_.empty() ? Status() : writer_.write_parameters(parameters_);
  }

  Status trim_text(std::size_t i) {
    const auto raw = trace_.read_chunk(i);
    if (!raw.ok()) return raw.status();
    auto text = decode_text(*raw);
    if (!text.ok()) return text.status();
    std::erase_if(text->steps, [&](const Step& step) {
      return step.step < options_.filter.first_step || step.step > options_.filter.last_step;
    });
    return writer_.write_text(*text);
  }

  Status trim_values(std::size_t i) {
    const auto entry_of = [&](std::uint32_t place) { return trace_.values()[place]; };
    std::vector<ValuePart> kept;
    bool all = true;
    for (; next_entry_ < entries_.size() && entry_of(entries_[next_entry_]).chunk == i;
         ++next_entry_) {
      const ValueEntry entry = entry_of(entries_[next_entry_]);
      if (plan_.values.contains(entry.hash)) {
        kept.push_back({entry.hash, *trace_.value_size(entry.hash), entry.offset, entry.length});
      } else {
        all = false;
        if (entry.offset == 0) ++values_dropped_;
      }
    }
    if (kept.empty()) return {};
    return all ? copy(i, kept) : rewrite_values(i);
  }

  // A chunk that holds values that are kept beside some that are not.
  Status rewrite_values(std::size_t i) {
    const auto found = trace_.read_stored(i);
    if (!found.ok()) return found.status();
    const auto raw = trace_.read_chunk(i);
    if (!raw.ok()) return raw.status();
    const auto values = decode_values(*raw);
    if (!values.ok()) return values.status();
    std::vector<ValuePart> kept;
    Bytes data;
    std::size_t at = 0;
    for (const ValuePart& part : values->parts) {
      const auto bytes = values->data.subspan(at, part.length);
      at += part.length;
      if (!plan_.values.contains(part.hash)) continue;
      kept.push_back(part);
      data.insert(data.end(), bytes.begin(), bytes.end());
    }
    const Bytes smaller = encode_values(kept, data);
    const std::size_t item_size = std::max<std::size_t>(found->header.item_size, 1);
    const auto stored = compressor_.values(smaller, item_size, ValueCompression::kFast);
    if (!stored.ok()) return stored.status();
    ChunkEntry entry;
    entry.kind = ChunkKind::kValues;
    entry.codec = stored->codec;
    entry.raw_size = smaller.size();
    entry.content = content_hash(smaller);
    return writer_.copy_chunk(entry, stored->item_size, stored->bytes, kept);
  }

  const TraceReader& trace_;
  const TrimOptions& options_;
  const TrimPlan& plan_;
  TraceWriter& writer_;
  bool selects_;
  Dictionary dictionary_;
  CallMatcher matcher_;
  ProgramTrimmer trimmer_;
  Timings timings_;
  bool timed_;                       // timings are kept
  std::vector<External> externals_;  // that wait for the next kept call
  std::vector<Parameter> parameters_;
  std::vector<std::size_t> places_;  // of parameters, in order of their call
  std::size_t next_place_ = 0;
  std::vector<std::uint32_t> entries_;  // of the index of values, in order of their chunk
  std::size_t next_entry_ = 0;
  Compressor compressor_;
  std::uint64_t values_dropped_ = 0;
};

Header trimmed_header(const TraceReader& trace, const TrimOptions& options, const TrimPlan& plan) {
  Header header = trace.header();
  if (!selects_calls(options.filter)) return header;
  header.warnings.push_back("trimmed: " + grouped(plan.kept_calls) + " of " + grouped(plan.calls) +
                            " calls are left, those of" + describe(options.filter));
  return header;
}

Summary trimmed_summary(const TraceReader& trace, const TrimPlan& plan) {
  Summary summary = trace.summary();
  summary.calls = plan.kept_calls;
  const std::uint64_t dropped = plan.calls - plan.kept_calls;
  if (dropped == 0) return summary;
  const auto known = std::ranges::find(summary.counters, kCallsTrimmed, &Counter::name);
  if (known != summary.counters.end()) {
    known->value += dropped;
  } else {
    summary.counters.push_back(
        {kCallsTrimmed, CounterSeverity::kInfo, CounterOrigin::kReading, dropped, ""});
  }
  return summary;
}

}  // namespace

Result<TrimReport> trim(const TrimOptions& options) {
  const auto trace = TraceReader::open(options.trace);
  if (!trace.ok()) return trace.status();
  if (!selects_calls(options.filter) && !options.drop_values && !options.drop_timings) {
    return Status(Code::kInvalidArgument,
                  "say what to leave out: --scope, --steps, --drop-values or --drop-timings");
  }
  if ((*trace)->cut_at()) {
    return Status(Code::kInvalidArgument,
                  options.trace + ": was cut: make it whole by `replay recover` first");
  }
  auto parameters = (*trace)->parameters();
  if (!parameters.ok()) return parameters.status();
  const auto plan = make_plan(**trace, options, *parameters);
  if (!plan.ok()) return plan.status();
  if (plan->kept_calls == 0 && selects_calls(options.filter)) {
    return Status(Code::kNotFound, options.trace + ": no call is in" + describe(options.filter));
  }

  auto file = OutputFile::create(options.output, options.trace);
  if (!file.ok()) return file.status();
  auto writer = TraceWriter::create(file->take_sink(), trimmed_header(**trace, options, *plan));
  if (!writer.ok()) return writer.status();
  Trimming trimming(**trace, options, *plan, std::move(*parameters), **writer);
  if (const Status status = trimming.run(); !status.ok()) {
    const bool named = status.message().starts_with(options.trace);
    return Status(status.code(),
                  named ? status.message() : options.trace + ": " + status.message());
  }
  GOLDENTRACE_RETURN_IF_ERROR((*writer)->close(trimmed_summary(**trace, *plan)));
  GOLDENTRACE_RETURN_IF_ERROR(file->commit());
  return TrimReport{plan->calls, plan->kept_calls, trimming.values_dropped(), (*trace)->file_size(),
                    (*writer)->bytes_written()};
}

}  // namespace goldentrace
