#include "src/format/recover.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "src/base/output_file.h"
#include "src/event/dictionary.h"
#include "src/format/compression.h"
#include "src/format/scan.h"
#include "src/format/trace_writer.h"

namespace goldentrace {
namespace {

constexpr const char* kLost = "goldentrace::lost";
// Any view that later chunks know of a lost storage lies inside.
constexpr std::uint64_t kUnknownSize = std::numeric_limits<std::int64_t>::max();
// Of each kind and of calls, for each chunk that is missing. More is a lie.
constexpr std::uint64_t kMaxLostInChunk = 1u << 20;
// And for each byte of the whole file, of which the lost chunks were a part like the others.
constexpr std::uint64_t kMaxLostInByte = 4;
// Of each kind in one chunk that stands for lost ones: it stays well below the format's limit.
constexpr std::uint64_t kMaxFilled = 1u << 16;

bool within(std::uint64_t from, std::uint64_t to, std::uint64_t limit) {
  return to >= from && to - from <= limit;
}

// A chunk that defines, and calls, what stands for everything between `from` and `to`.
ProgramChunk filler(const ProgramBase& from, const ProgramBase& to, const Dictionary& known) {
  ProgramChunk chunk;
  chunk.base = from;
  chunk.strings.assign(to.strings - from.strings, kLost);
  chunk.operators.assign(to.operators - from.operators, {kLost, ""});
  chunk.scopes.assign(to.scopes - from.scopes, kLost);
  chunk.geometries.assign(to.geometries - from.geometries, {{0}, {1}});
  chunk.storages.assign(to.storages - from.storages, {kUnknownSize, 0});
  chunk.ambients.assign(to.ambients - from.ambients, {});
  Tensor tensor{from.storages, from.geometries, DType::kUInt8, 0, 0};
  if (chunk.geometries.empty()) tensor.geometry = 0;
  if (chunk.storages.empty() && known.tensors() > 0) tensor = known.tensor(0);
  chunk.tensors.assign(to.tensors - from.tensors, tensor);
  Call call;
  call.flags = kCallNotExecutable | kCallLost;
  chunk.calls.assign(to.calls - from.calls, call);
  return chunk;
}

// `to`, or as far towards it as one chunk goes.
ProgramBase next_stop(const ProgramBase& from, const ProgramBase& to) {
  const auto stop = [](auto begin, auto end) {
    return static_cast<decltype(begin)>(std::min<std::uint64_t>(end, begin + kMaxFilled));
  };
  return {stop(from.calls, to.calls),           stop(from.strings, to.strings),
          stop(from.operators, to.operators),   stop(from.scopes, to.scopes),
          stop(from.geometries, to.geometries), stop(from.storages, to.storages),
          stop(from.tensors, to.tensors),       stop(from.ambients, to.ambients)};
}

class Recoverer {
 public:
  Recoverer(std::unique_ptr<ByteSource> source, std::unique_ptr<ByteSink> sink)
      : source_(std::move(source)), sink_(std::move(sink)) {}

  Result<Recovery> run() {
    GOLDENTRACE_RETURN_IF_ERROR(read_chunks());
    if (writer_ == nullptr) {
      return Status(Code::kCorrupt, source_->name() + ": no chunk of a trace is left in it");
    }
    const Status closed = close();
    if (!closed.ok()) return closed;
    return std::move(result_);
  }

 private:
  struct Waiting {
    FoundChunk chunk;
    ChunkEntry entry;
    std::size_t tensors = 0;  // that must be defined before it
  };

  void lose(std::uint64_t offset, const std::string& what) {
    if (result_.losses.size() < Recovery::kMaxLosses) {
      result_.losses.push_back("at offset " + std::to_string(offset) + ": " + what);
    }
  }
  void lose_chunk(const FoundChunk& chunk, const std::string& why) {
    ++result_.chunks_lost;
    result_.bytes_lost += chunk.end() - chunk.offset;
    lose(chunk.offset, why);
  }

  Status read_chunks() {
    std::uint64_t offset = kFileHeaderSize;
    FileHeaderBytes header{};
    const bool long_enough = source_->size() >= header.size();
    if (long_enough) GOLDENTRACE_RETURN_IF_ERROR(source_->read(0, header));
    if (Status status = check_file_header(header); !status.ok()) {
      if (status.code() == Code::kUnsupported) return status;
      offset = 0;
    }
    while (offset < source_->size()) {
      auto found = next_chunk(offset);
      if (!found.ok()) return found.status();
      if (!found->has_value()) return {};
      offset = (*found)->end();
      if ((*found)->header.kind == ChunkKind::kIndex) return {};  // nothing follows it
      GOLDENTRACE_RETURN_IF_ERROR(take(**found));
    }
    return {};
  }

  // The next whole chunk from `offset` on; counts what is passed over.
  Result<std::optional<FoundChunk>> next_chunk(std::uint64_t offset) {
    auto here = read_chunk_at(*source_, offset);
    if (!here.ok() && here.status().code() != Code::kCorrupt) return here.status();
    if (here.ok() && here->header.sequence >= sequence_) return pass(offset, std::move(*here));
    const std::string why =
        here.ok() ? "a chunk that does not follow the one before" : here.status().message();
    auto later = find_chunk(*source_, offset, sequence_);
    if (!later.ok()) return later.status();
    if (later->has_value()) {
      lose(offset, why);
      return pass(offset, std::move(**later));
    }
    result_.bytes_lost += source_->size() - offset;
    lose(offset, why + "; nothing more is found");
    return std::optional<FoundChunk>();
  }

  std::optional<FoundChunk> pass(std::uint64_t offset, FoundChunk found) {
    result_.bytes_lost += found.offset - offset;
    result_.chunks_lost += found.header.sequence - sequence_;
    sequence_ = found.header.sequence + 1;
    return found;
  }

  Status take(const FoundChunk& found) {
    const bool first = writer_ == nullptr;
    if (!first && found.header.kind == ChunkKind::kHeader) {
      lose_chunk(found, "a second header");
      return {};
    }
    if (first) {
      const auto kept = begin(found);
      if (!kept.ok()) return kept.status();
      if (found.header.kind == ChunkKind::kHeader && !*kept) {
        lose_chunk(found, "a header that can't be read");
        return {};
      }
    }
    if (!kept_size_.add(found.header.kind, found.header.raw_size, found.end())) {
      lose_chunk(found, kTooMuchKept);
      return {};
    }
    const Status status = indexer_.add(found);
    if (status.code() == Code::kUnsupported && is_known(found.header.kind)) {
      return {status.code(), at_offset(source_->name(), found.offset, status.message())};
    }
    if (status.code() == Code::kCorrupt) {
      lose_chunk(found, status.message());
      return {};
    }
    switch (found.header.kind) {
      case ChunkKind::kProgram:
        return take_program(found);
      case ChunkKind::kTiming:
        return take_timing(found);
      case ChunkKind::kParameters:
        GOLDENTRACE_RETURN_IF_ERROR(take_parameters(found));
        return flush_parameters();
      case ChunkKind::kSummary:
        return take_summary(found);
      default:
        return copy(found, indexer_.last());
    }
  }

  // The output begins with the header chunk, or with one that says that it is lost; false then.
  Result<bool> begin(const FoundChunk& first) {
    Header header;
    header.major = kFormatMajor;
    header.minor = kFormatMinor;
    header.engine = "unknown";
    header.warnings = {"lost: the header of the recording"};
    bool kept = false;
    Bytes raw;
    if (first.header.kind == ChunkKind::kHeader &&
        decompress(first.header, first.stored, raw).ok()) {
      const auto decoded = decode_header(raw);
      kept = decoded.ok() && decoded->major == kFormatMajor;
      if (kept) header.minor = decoded->minor;
    }
    auto writer = TraceWriter::create_copy(std::move(sink_), header.minor);
    if (!writer.ok()) return writer.status();
    writer_ = std::move(*writer);
    if (!kept) GOLDENTRACE_RETURN_IF_ERROR(writer_->write_header(header));
    return kept;
  }

  Status copy(const FoundChunk& found, const ChunkEntry& entry) {
    ++result_.chunks_kept;
    return writer_->copy_chunk(entry, found.header.item_size, found.stored, indexer_.parts());
  }

  Status take_program(const FoundChunk& found) {
    Bytes raw;
    GOLDENTRACE_RETURN_IF_ERROR(decompress(found.header, found.stored, raw));
    const auto chunk = decode_program(raw);
    if (!chunk.ok()) return chunk.status();
    const ProgramBase& base = chunk->base;
    if (!(base == next_)) {
      if (!fillable(base)) {
        lose_chunk(found, "program chunk that does not go with what was found before it");
        return {};
      }
      GOLDENTRACE_RETURN_IF_ERROR(fill(base));
      if (broken_) {
        lose_chunk(found, "program chunk of definitions that are lost");
        return {};
      }
    }
    if (Status status = dictionary_.absorb(*chunk); !status.ok()) {
      lose_chunk(found, status.message());
      return {};
    }
    next_ = chunk->next_base();
    result_.calls_kept += chunk->calls.size();
    GOLDENTRACE_RETURN_IF_ERROR(copy(found, indexer_.last()));
    return flush_parameters();
  }

  // Puts in what stands for everything before `base`.
  Status fill(const ProgramBase& base) {
    while (!(next_ == base)) {
      const ProgramChunk lost = filler(next_, next_stop(next_, base), dictionary_);
      broken_ = !dictionary_.absorb(lost).ok();
      if (broken_) return {};
      result_.calls_lost += lost.calls.size();
      next_ = lost.next_base();
      GOLDENTRACE_RETURN_IF_ERROR(writer_->write_program(lost));
    }
    return {};
  }

  [[nodiscard]] bool fillable(const ProgramBase& to) const {
    const std::uint64_t limit =
        std::min(kMaxLostInChunk * std::min<std::uint64_t>(result_.chunks_lost, 64),
                 kMaxFilled + kMaxLostInByte * source_->size());
    return !broken_ && within(next_.calls, to.calls, limit) &&
           within(next_.strings, to.strings, limit) &&
           within(next_.operators, to.operators, limit) && within(next_.scopes, to.scopes, limit) &&
           within(next_.geometries, to.geometries, limit) &&
           within(next_.storages, to.storages, limit) && within(next_.tensors, to.tensors, limit) &&
           within(next_.ambients, to.ambients, limit);
  }

  // Timings follow one another without gaps and never go beyond the calls.
  Status take_timing(const FoundChunk& found) {
    const ChunkEntry& entry = indexer_.last();
    if (entry.first_call < timings_ || entry.first_call > next_.calls ||
        entry.calls > next_.calls - entry.first_call) {
      lose_chunk(found, "timings of calls that are lost");
      return {};
    }
    GOLDENTRACE_RETURN_IF_ERROR(fill_timings(entry.first_call));
    timings_ = entry.first_call + entry.calls;
    return copy(found, entry);
  }

  Status fill_timings(std::uint64_t until) {
    if (timings_ >= until) return {};
    ProgramChunk empty;
    empty.base.calls = timings_;
    empty.timings.resize(until - timings_);
    timings_ = until;
    return writer_->write_timing(empty);
  }

  Status take_parameters(const FoundChunk& found) {
    Bytes raw;
    GOLDENTRACE_RETURN_IF_ERROR(decompress(found.header, found.stored, raw));
    const auto parameters = decode_parameters(raw);
    if (!parameters.ok()) return parameters.status();
    Waiting waiting{found, indexer_.last(), 0};
    for (const Parameter& parameter : *parameters) {
      waiting.tensors = std::max(waiting.tensors, std::size_t{parameter.tensor} + 1);
    }
    waiting_.push_back(std::move(waiting));
    return {};
  }

  // Parameters chunks are kept once the chunk that defines their tensors is.
  Status flush_parameters() {
    std::vector<Waiting> still;
    for (Waiting& waiting : waiting_) {
      if (waiting.tensors > dictionary_.tensors()) {
        still.push_back(std::move(waiting));
        continue;
      }
      ++result_.chunks_kept;
      GOLDENTRACE_RETURN_IF_ERROR(writer_->copy_chunk(waiting.entry, waiting.chunk.header.item_size,
                                                      waiting.chunk.stored, {}));
    }
    waiting_ = std::move(still);
    return {};
  }

  Status take_summary(const FoundChunk& found) {
    if (result_.closed) {
      lose_chunk(found, "a second summary");
      return {};
    }
    result_.closed = true;
    Bytes raw;
    GOLDENTRACE_RETURN_IF_ERROR(decompress(found.header, found.stored, raw));
    auto summary = decode_summary(raw);
    if (!summary.ok()) return summary.status();
    summary_ = std::move(*summary);
    summary_chunk_ = found;
    summary_entry_ = indexer_.last();
    ++result_.chunks_kept;
    return {};
  }

  Status close() {
    for (const Waiting& waiting : waiting_) {
      lose_chunk(waiting.chunk, "parameters of tensors that are lost");
    }
    if (result_.whole()) {
      GOLDENTRACE_RETURN_IF_ERROR(writer_->copy_chunk(
          summary_entry_, summary_chunk_.header.item_size, summary_chunk_.stored, {}));
      return writer_->close_copied();
    }
    if (!result_.closed) summary_.calls = result_.calls_kept + result_.calls_lost;
    const std::string first = result_.losses.empty() ? "the end of the file" : result_.losses[0];
    const auto count = [&](const char* name, std::uint64_t value) {
      if (value == 0) return;
      summary_.counters.push_back(
          {name, CounterSeverity::kError, CounterOrigin::kReading, value, first});
    };
    count("trace_cut", result_.closed ? 0 : 1);
    count("chunks_lost", result_.chunks_lost);
    count("calls_lost", result_.calls_lost);
    count("bytes_lost", result_.bytes_lost);
    return writer_->close(summary_);
  }

  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<ByteSink> sink_;
  Recovery result_;
  std::unique_ptr<TraceWriter> writer_;
  Indexer indexer_;
  KeptSize kept_size_;
  std::uint32_t sequence_ = 0;  // of the next chunk
  Dictionary dictionary_;
  ProgramBase next_;     // of the next program chunk
  bool broken_ = false;  // what is lost can't be stood in for
  std::uint64_t timings_ = 0;
  std::vector<Waiting> waiting_;
  Summary summary_;
  FoundChunk summary_chunk_;
  ChunkEntry summary_entry_;
};

}  // namespace

Result<Recovery> recover(std::unique_ptr<ByteSource> in, std::unique_ptr<ByteSink> out) {
  return Recoverer(std::move(in), std::move(out)).run();
}

Result<Recovery> recover(const std::string& in, const std::string& out) {
  auto source = open_file(in);
  if (!source.ok()) return source.status();
  auto file = OutputFile::create(out, in);
  if (!file.ok()) return file.status();
  auto recovery = recover(std::move(*source), file->take_sink());
  if (recovery.ok()) GOLDENTRACE_RETURN_IF_ERROR(file->commit());
  return recovery;
}

}  // namespace goldentrace
