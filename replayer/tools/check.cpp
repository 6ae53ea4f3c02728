#include "replayer/tools/check.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "replayer/tools/check_program.h"
#include "replayer/tools/check_run.h"
#include "replayer/tools/findings.h"
#include "src/format/scan.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

std::string at_offset(std::uint64_t offset) { return "at offset " + std::to_string(offset); }

std::string without_name(const std::string& name, const std::string& message) {
  return message.starts_with(name + ": ") ? message.substr(name.size() + 2) : message;
}

// For a reader that wants a source of its own.
class Borrowed final : public ByteSource {
 public:
  explicit Borrowed(const ByteSource& source) : source_(source) {}
  std::uint64_t size() const override { return source_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    return source_.read(offset, out);
  }
  const std::string& name() const override { return source_.name(); }

 private:
  const ByteSource& source_;
};

// Reads the file once, chunk by chunk.
class Checker {
 public:
  explicit Checker(const TraceReader& trace)
      : trace_(trace),
        program_(trace, findings_),
        parameters_(program_, findings_),
        text_(findings_),
        values_(trace, findings_) {}

  // Fails only where the file can't be read.
  Status run() {
    for (const Counter& counter : trace_.summary().counters) check(counter);
    for (std::size_t i = 0; i < trace_.chunks().size(); ++i) {
      GOLDENTRACE_RETURN_IF_ERROR(check_chunk(i));
    }
    parameters_.finish();
    text_.finish();
    values_.finish();
    check_counts();
    return {};
  }

  void fill(CheckReport& report) {
    report.bytes = trace_.file_size();
    report.chunks = trace_.chunks().size();
    report.calls = program_.calls();
    report.writes = program_.writes();
    report.externals = program_.externals();
    report.values = values_.count();
    report.value_bytes = values_.bytes();
    report.parameters = parameters_.count();
    report.requests = text_.requests();
    report.steps = text_.steps();
    report.faults = findings_.faults.take();
    report.unsupported = findings_.unsupported.take();
    report.notes = findings_.notes.take();
  }

 private:
  void check(const Counter& counter) {
    if (counter.value == 0) return;
    if (counter.name == "trace_cut" && trace_.cut_at()) {
      findings_.faults.add(
          "the file was cut: `replay recover` makes a whole trace of what is there",
          [&] { return counter.first; });
    } else if (counter.severity == CounterSeverity::kError) {
      findings_.notes.add("the trace is not the whole run: " + counter.name, [&] {
        return counter.first.empty() ? std::to_string(counter.value) : counter.first;
      });
    }
  }

  Status check_chunk(std::size_t i) {
    const ChunkEntry& entry = trace_.chunks()[i];
    Status status;
    if (const auto raw = trace_.read_chunk(i); !raw.ok()) {
      status = raw.status();
    } else if (Status decoded = check_raw(i, *raw); !decoded.ok()) {
      status = {decoded.code(), at_offset(entry.offset) + ": " + decoded.message()};
    }
    if (status.ok()) return {};
    if (status.code() != Code::kCorrupt && status.code() != Code::kUnsupported) return status;
    if (entry.kind == ChunkKind::kProgram) program_.lose();
    Findings& findings =
        status.code() == Code::kUnsupported ? findings_.unsupported : findings_.faults;
    findings.add("chunk can't be read",
                 [&] { return without_name(trace_.name(), status.message()); });
    return {};
  }

  Status check_raw(std::size_t i, const Bytes& raw) {
    switch (trace_.chunks()[i].kind) {
      case ChunkKind::kProgram: {
        const auto chunk = decode_program(raw);
        if (!chunk.ok()) return chunk.status();
        program_.add(i, *chunk);
        text_.add_rows(chunk->rows);
        return {};
      }
      case ChunkKind::kTiming:
        return check_timing(i, raw);
      case ChunkKind::kParameters: {
        const auto parameters = decode_parameters(raw);
        if (parameters.ok()) parameters_.add(*parameters);
        return parameters.status();
      }
      case ChunkKind::kText: {
        const auto text = decode_text(raw);
        if (text.ok()) text_.add(*text);
        return text.status();
      }
      case ChunkKind::kValues: {
        const auto values = decode_values(raw);
        if (values.ok()) values_.add(i, *values);
        return values.status();
      }
      case ChunkKind::kBands:
        return check_bands(i, raw);
      case ChunkKind::kHeader:
      case ChunkKind::kSummary:
        return {};  // decoded when the trace was opened
      default:
        findings_.notes.add("chunk of a kind that this build does not know",
                            [&] { return at_offset(trace_.chunks()[i].offset); });
        return {};
    }
  }

  Status check_timing(std::size_t i, const Bytes& raw) {
    const ChunkEntry& entry = trace_.chunks()[i];
    std::uint64_t first = 0;
    const auto timings = decode_timing(raw, first);
    if (!timings.ok()) return timings.status();
    const auto where = [&] { return at_offset(entry.offset); };
    if (first != entry.first_call || timings->size() != entry.calls) {
      findings_.faults.add("timing chunk does not hold the calls that the index says", where);
    }
    if (first != timed_ && !lossy()) {
      findings_.faults.add("timings do not continue those before", where);
    }
    timed_ = first + timings->size();
    return {};
  }

  Status check_bands(std::size_t i, const Bytes& raw) {
    const auto bands = decode_bands(raw);
    if (!bands.ok()) return bands.status();
    if (!banded_ || bands->base_calls > *banded_) {
      banded_ = bands->base_calls;
    } else {
      findings_.faults.add("bands chunks are not in the order of their calls",
                           [&] { return at_offset(trace_.chunks()[i].offset); });
    }
    return {};
  }

  [[nodiscard]] bool lossy() const { return trace_.summary().counter("chunks_lost") > 0; }

  void check_counts() {
    // Of a recording that was cut, the last timings may not have been written.
    if (trace_.summary().counter("trace_cut") > 0 || program_.lost()) return;
    const auto numbers = [&](std::uint64_t other) {
      return std::to_string(other) + " for " + std::to_string(program_.calls()) + " calls";
    };
    if (trace_.summary().calls != program_.calls()) {
      findings_.faults.add("summary counts other calls than there are",
                           [&] { return numbers(trace_.summary().calls); });
    }
    // A trace without any timing was trimmed.
    if (timed_ != 0 && timed_ != program_.calls() && !lossy()) {
      findings_.faults.add("there is not one timing for each call",
                           [&] { return numbers(timed_); });
    }
  }

  const TraceReader& trace_;
  CheckFindings findings_;
  ProgramCheck program_;
  ParameterCheck parameters_;
  TextCheck text_;
  ValueCheck values_;
  std::optional<std::uint64_t> banded_;  // first call of the last bands chunk
  std::uint64_t timed_ = 0;              // the call after the last one with a timing
};

// A file that begins with other bytes is no trace at all, rather than a damaged one.
Status check_magic(const ByteSource& source) {
  const FileHeaderBytes expected = encode_file_header();
  FileHeaderBytes bytes{};
  const std::size_t size = std::min<std::uint64_t>(source.size(), 8);
  GOLDENTRACE_RETURN_IF_ERROR(source.read(0, std::span(bytes).first(size)));
  if (size == 0)
    return {Code::kInvalidArgument, source.name() + ": at offset 0: the file is empty"};
  if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size),
                  expected.begin())) {
    return {Code::kInvalidArgument, source.name() + ": at offset 0: not a goldentrace file"};
  }
  return {};
}

// What is there of a trace whose index or header is of no use.
CheckFinding survey(const ByteSource& source) {
  std::uint64_t offset = kFileHeaderSize;
  std::uint64_t chunks = 0;
  while (offset < source.size()) {
    const auto found = read_chunk_at(source, offset);
    if (!found.ok()) break;
    offset = found->end();
    ++chunks;
  }
  return {"whole chunks from the beginning on; `replay recover` makes a trace of them", chunks,
          "up to offset " + std::to_string(std::min<std::uint64_t>(offset, source.size())) +
              " of " + std::to_string(source.size())};
}

}  // namespace

int check_exit_status(const CheckReport& report) {
  if (!report.faults.empty()) return 1;
  return report.unsupported.empty() ? 0 : 2;
}

Result<CheckReport> check(const CheckOptions& options) {
  const auto source = open_file(options.trace);
  if (!source.ok()) return source.status();
  return check(**source);
}

Result<CheckReport> check(const ByteSource& source) {
  GOLDENTRACE_RETURN_IF_ERROR(check_magic(source));
  CheckReport report;
  report.trace = source.name();
  const auto trace = TraceReader::open(std::make_unique<Borrowed>(source));
  if (!trace.ok() && trace.status().code() != Code::kCorrupt) return trace.status();
  if (!trace.ok()) {
    report.bytes = source.size();
    report.faults = {
        {"the trace can't be opened", 1, without_name(source.name(), trace.status().message())}};
    report.notes = {survey(source)};
    report.chunks = report.notes[0].count;
    return report;
  }
  Checker checker(**trace);
  GOLDENTRACE_RETURN_IF_ERROR(checker.run());
  checker.fill(report);
  return report;
}

}  // namespace goldentrace
