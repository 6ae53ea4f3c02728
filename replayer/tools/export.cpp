#include "replayer/tools/export.h"

#include <algorithm>
#include <span>
#include <utility>

#include "replayer/report/calls.h"
#include "replayer/report/format.h"
#include "replayer/tools/npy.h"
#include "replayer/tools/safetensors_header.h"
#include "replayer/tools/select.h"
#include "replayer/verdict/doubts.h"
#include "src/base/output_file.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxNamed = 5;      // tensors that a message lists
constexpr std::size_t kBlock = 1u << 16;  // elements that are widened at once

Status write_text(ByteSink& sink, const std::string& text) {
  return sink.write(std::as_bytes(std::span(text)));
}

Status nothing_selected(const TraceReader& trace, const Selection& selection) {
  if (selection.not_kept == 0) {
    return {Code::kNotFound, trace.name() +
                                 ": no tensor is selected: `replay show --tensors` "
                                 "lists them"};
  }
  std::string message = trace.name() + ": " + grouped(selection.not_kept) +
                        (selection.not_kept == 1 ? " tensor is" : " tensors are") +
                        " selected, and no value was kept (first '" +
                        selection.not_kept_first.front() +
                        "'): record with --rule 'scope=...:values'";
  return {Code::kNotFound, std::move(message)};
}

void add_notes(const Selection& selection, ExportReport& report) {
  report.not_kept = selection.not_kept;
  if (selection.not_kept > 0) {
    report.notes.push_back(
        grouped(selection.not_kept) + " selected without a value are left out, first '" +
        selection.not_kept_first.front() + "': record with --rule 'scope=...:values'");
  }
  const auto lazy = std::ranges::count_if(selection.tensors, [](const SelectedTensor& tensor) {
    return (tensor.flags & (kTensorConjugate | kTensorNegative)) != 0;
  });
  if (lazy > 0) {
    report.notes.push_back(
        counted(static_cast<std::uint64_t>(lazy), "tensor is", "tensors are") +
        " lazily conjugated or negated: the bytes are the memory's, before that");
  }
}

// ---- .npy ---------------------------------------------------------------------------------------

// Writes elements as float32. A part may end inside an element.
class Widener {
 public:
  Widener(DType dtype, ByteSink& sink) : dtype_(dtype), size_(item_size(dtype)), sink_(sink) {}

  Status add(std::span<const std::byte> bytes) {
    if (!rest_.empty()) {
      const std::size_t taken = std::min(bytes.size(), size_ - rest_.size());
      rest_.insert(rest_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
      bytes = bytes.subspan(taken);
      if (rest_.size() < size_) return {};
      GOLDENTRACE_RETURN_IF_ERROR(widen(rest_));
      rest_.clear();
    }
    const std::size_t whole = bytes.size() / size_ * size_;
    GOLDENTRACE_RETURN_IF_ERROR(widen(bytes.first(whole)));
    rest_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end());
    return {};
  }

 private:
  Status widen(std::span<const std::byte> elements) {
    for (std::size_t at = 0; at < elements.size(); at += kBlock * size_) {
      const std::size_t count = std::min(kBlock, (elements.size() - at) / size_);
      block_.resize(count);
      for (std::size_t i = 0; i < count; ++i) {
        block_[i] = to_float32(dtype_, &elements[at + i * size_]);
      }
      GOLDENTRACE_RETURN_IF_ERROR(sink_.write(std::as_bytes(std::span(block_))));
    }
    return {};
  }

  DType dtype_;
  std::size_t size_;
  ByteSink& sink_;
  std::vector<std::byte> rest_;
  std::vector<float> block_;
};

Status not_one(const TraceReader& trace, const Selection& selection) {
  const std::uint64_t all = selection.tensors.size() + selection.not_kept;
  std::string message =
      trace.name() + ": " + grouped(all) + " tensors are selected, a .npy file holds one: ";
  for (std::size_t i = 0; i < selection.tensors.size() && i < kMaxNamed; ++i) {
    message += (i > 0 ? ", '" : "'") + selection.tensors[i].name + "' (call " +
               std::to_string(selection.tensors[i].call) + ")";
  }
  if (all > kMaxNamed) message += ", ...";
  return {Code::kInvalidArgument, message + "; give --call, --hash, or a .safetensors file"};
}

Result<ExportReport> export_npy(const TraceReader& trace, const ExportOptions& options) {
  const auto selection = select_tensors(trace, options.filter);
  if (!selection.ok()) return selection.status();
  const auto& tensors = selection->tensors;
  if (tensors.empty()) return nothing_selected(trace, *selection);
  const bool one = std::ranges::all_of(
      tensors, [&](const SelectedTensor& tensor) { return tensor.same_as(tensors.front()); });
  if (!one || selection->not_kept > 0) return not_one(trace, *selection);
  const SelectedTensor& tensor = tensors.front();
  const auto type = npy_type(tensor.dtype, options.bits);
  if (!type.ok()) {
    return Status(type.status().code(), tensor.name + ": " + type.status().message());
  }

  auto file = OutputFile::create(options.output, options.trace);
  if (!file.ok()) return file.status();
  GOLDENTRACE_RETURN_IF_ERROR(write_text(file->sink(), npy_header(type->descr, tensor.shape)));
  Widener widener(tensor.dtype, file->sink());
  GOLDENTRACE_RETURN_IF_ERROR(trace.visit_value(tensor.hash, [&](std::span<const std::byte> bytes) {
    return type->widened ? widener.add(bytes) : file->sink().write(bytes);
  }));
  GOLDENTRACE_RETURN_IF_ERROR(file->commit());

  ExportReport report{tensors.size(), 1, tensor.bytes, 0, {}};
  add_notes(*selection, report);
  const std::string dtype(dtype_name(tensor.dtype));
  if (type->widened) {
    report.notes.push_back("NumPy has no " + dtype +
                           ": written as float32, exactly (--bits writes the bits)");
  }
  if (type->bits) report.notes.push_back("NumPy has no " + dtype + ": written as its bits");
  return report;
}

// ---- .safetensors -------------------------------------------------------------------------------

Result<ExportReport> export_safetensors(const TraceReader& trace, const ExportOptions& options) {
  const auto selection = select_tensors(trace, options.filter);
  if (!selection.ok()) return selection.status();
  if (selection->tensors.empty()) return nothing_selected(trace, *selection);
  // Large items first, so that every tensor lies at a multiple of its item size.
  std::vector<const SelectedTensor*> tensors;
  for (const SelectedTensor& tensor : selection->tensors) tensors.push_back(&tensor);
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [](const SelectedTensor* tensor) { return item_size(tensor->dtype); });
  std::vector<SafetensorsEntry> entries;
  for (const SelectedTensor* tensor : tensors) {
    entries.push_back({tensor->name, tensor->dtype, tensor->shape, tensor->bytes});
  }
  const auto header = safetensors_header(entries);
  if (!header.ok()) return header.status();

  auto file = OutputFile::create(options.output, options.trace);
  if (!file.ok()) return file.status();
  GOLDENTRACE_RETURN_IF_ERROR(write_text(file->sink(), *header));
  ExportReport report;
  report.selected = tensors.size() + selection->not_kept;
  report.written = tensors.size();
  for (const SelectedTensor* tensor : tensors) {
    GOLDENTRACE_RETURN_IF_ERROR(trace.visit_value(
        tensor->hash, [&](std::span<const std::byte> bytes) { return file->sink().write(bytes); }));
    report.bytes += tensor->bytes;
  }
  GOLDENTRACE_RETURN_IF_ERROR(file->commit());
  add_notes(*selection, report);
  return report;
}

// ---- .jsonl -------------------------------------------------------------------------------------

Result<ExportReport> export_calls(const TraceReader& trace, const ExportOptions& options) {
  auto file = OutputFile::create(options.output, options.trace);
  if (!file.ok()) return file.status();
  ExportReport report;
  ProgramReader program(trace);
  CallMatcher matcher(options.filter, program.dictionary());
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) break;
    const ProgramChunk& chunk = program.chunk();
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      if (!matcher.matches_with_hash(chunk, i)) continue;
      const std::string line = call_json(program.dictionary(), chunk, i) + "\n";
      GOLDENTRACE_RETURN_IF_ERROR(write_text(file->sink(), line));
      ++report.written;
    }
  }
  if (report.written == 0) {
    return Status(Code::kNotFound, trace.name() + ": no call is selected");
  }
  report.selected = report.written;
  GOLDENTRACE_RETURN_IF_ERROR(file->commit());
  return report;
}

Result<ExportReport> export_by_ending(const TraceReader& trace, const ExportOptions& options) {
  if (options.output.ends_with(".npy")) return export_npy(trace, options);
  if (options.output.ends_with(".safetensors")) return export_safetensors(trace, options);
  if (options.output.ends_with(".jsonl")) return export_calls(trace, options);
  return Status(Code::kInvalidArgument,
                options.output + ": name a file that ends in .npy, .safetensors or .jsonl");
}

}  // namespace

Result<ExportReport> export_trace(const ExportOptions& options) {
  const auto trace = TraceReader::open(options.trace);
  if (!trace.ok()) return trace.status();
  auto report = export_by_ending(**trace, options);
  const std::string missing = incompleteness((*trace)->summary());
  if (report.ok() && !missing.empty()) report->notes.push_back("not whole: " + missing);
  return report;
}

}  // namespace goldentrace
