#include "src/capi/reader.h"

#include <algorithm>
#include <utility>

#include "src/capi/arguments.h"
#include "src/format/codec.h"

namespace goldentrace::capi {
namespace {

template <typename Item>
const Item* at_or_null(const std::vector<Item>& items, std::size_t index) {
  return index < items.size() ? &items[index] : nullptr;
}

goldentrace_stats to_c(const Stats& stats) {
  return {stats.count,
          stats.nan,
          stats.positive_infinity,
          stats.negative_infinity,
          stats.sentinel,
          stats.zero,
          stats.min,
          stats.max,
          stats.sum,
          stats.sum_squares};
}

}  // namespace

void TensorNotes::absorb(const ProgramChunk& chunk) {
  for (const TensorLayout& layout : chunk.layouts) layouts[layout.tensor] = layout.text;
  for (const TensorPlacement& at : chunk.placements) placements[at.tensor] = at.placement;
  for (const TensorRow& row : chunk.rows) rows[row.tensor].push_back(capi::to_c(row.row));
}

Result<const goldentrace_record*> RecordView::set(const Source& source, std::size_t call,
                                                  std::uint32_t write) {
  const Write& written = source.chunk.writes[source.chunk.calls[call].first_write + write];
  const Tensor& tensor = source.dictionary.tensor(written.tensor);
  const Geometry& geometry = source.dictionary.geometry(tensor.geometry);
  record_ = {};
  set_call(source, call);
  record_.write = write;
  record_.id = std::uint64_t{written.tensor} + 1;
  record_.dtype = static_cast<std::uint32_t>(tensor.dtype);
  record_.rank = static_cast<std::uint32_t>(geometry.sizes.size());
  record_.sizes = geometry.sizes.data();
  set_notes(source, written.tensor);
  GOLDENTRACE_RETURN_IF_ERROR(set_digest(source, written));
  return &record_;
}

void RecordView::set_call(const Source& source, std::size_t at) {
  const Call& call = source.chunk.calls[at];
  op_ = source.dictionary.describe_op(call.op);
  inputs_.clear();
  for (std::size_t n = call.first_node; n < call.first_result; ++n) {
    const Node& node = source.chunk.nodes[n];
    if (node.kind == NodeKind::kTensor) {
      inputs_.push_back(static_cast<std::uint64_t>(node.value) + 1);
    }
  }
  record_.call = source.chunk.base.calls + at;
  record_.step = call.step;
  record_.name = source.dictionary.scope(call.scope).c_str();
  record_.op = op_.c_str();
  record_.foreign = (call.flags & kCallForeign) != 0 ? 1 : 0;
  record_.inputs = inputs_.data();
  record_.inputs_count = inputs_.size();
}

void RecordView::set_notes(const Source& source, std::uint32_t tensor) {
  const TensorNotes& notes = source.notes;
  record_.layout = "";
  if (const auto found = notes.layouts.find(tensor); found != notes.layouts.end()) {
    record_.layout = source.dictionary.string(found->second).c_str();
  }
  record_.placement = capi::to_c(Placement());
  if (const auto found = notes.placements.find(tensor); found != notes.placements.end()) {
    record_.placement = capi::to_c(found->second);
  }
  if (const auto found = notes.rows.find(tensor); found != notes.rows.end()) {
    record_.rows = found->second.data();
    record_.rows_count = found->second.size();
  }
}

Status RecordView::set_digest(const Source& source, const Write& write) {
  record_.decision = (write.flags & kWriteDecision) != 0 ? 1 : 0;
  record_.value_size = GOLDENTRACE_NO_VALUE;
  if ((write.flags & kWriteHashed) != 0) {
    const auto bytes = kept_bytes(source.trace, source.dictionary, write.tensor, write.hash);
    if (!bytes.ok()) return bytes.status();
    hash_ = capi::to_c(write.hash);
    record_.hash = &hash_;
    record_.value_size = *bytes;
  }
  if ((write.flags & kWriteStats) != 0) {
    stats_ = to_c(source.chunk.stats[write.stats_index]);
    record_.stats = &stats_;
  }
  if ((write.flags & kWriteSketch) != 0) {
    sketch_ = source.chunk.sketches[write.sketch_index];
    record_.sketch = sketch_.data();
  }
  return {};
}

Reader::Reader(std::unique_ptr<TraceReader> trace) : trace_(std::move(trace)) {
  const Header& header = trace_->header();
  for (const auto& [key, value] : header.environment) {
    environment_.push_back({key.c_str(), value.c_str()});
  }
  for (const std::string& word : header.command) command_.push_back(word.c_str());
  bool whole = true;
  for (const Counter& counter : trace_->summary().counters) {
    counters_.push_back({counter.name.c_str(), static_cast<std::uint32_t>(counter.severity), 0,
                         counter.value, counter.first.c_str()});
    whole = whole && (counter.severity != CounterSeverity::kError || counter.value == 0);
  }
  info_.engine = header.engine.c_str();
  info_.engine_version = header.engine_version.c_str();
  info_.device = header.device.c_str();
  info_.dtype = header.dtype.c_str();
  info_.model_config = header.model_config.c_str();
  info_.environment = environment_.data();
  info_.environment_count = environment_.size();
  info_.command = command_.data();
  info_.command_count = command_.size();
  info_.mesh = header.mesh.c_str();
  info_.rank = header.rank;
  info_.world = header.world;
  info_.started_unix_ns = header.started_unix_ns;
  info_.calls = trace_->summary().calls;
  info_.duration_ns = trace_->summary().duration_ns;
  info_.file_size = trace_->file_size();
  info_.format_major = header.major;
  info_.format_minor = header.minor;
  info_.whole = whole ? 1 : 0;
}

Result<std::unique_ptr<Reader>> Reader::open(const char* path) {
  const auto name = read_name(path, "path");
  if (!name.ok()) return name.status();
  auto trace = TraceReader::open(*name);
  if (!trace.ok()) return trace.status();
  return std::unique_ptr<Reader>(new Reader(std::move(*trace)));
}

const goldentrace_counter* Reader::counter(std::size_t index) const {
  return at_or_null(counters_, index);
}

Status Reader::load_text() {
  if (text_ != nullptr) return {};
  auto text = trace_->text();
  if (!text.ok()) return text.status();
  text_ = std::make_unique<TextView>(std::move(*text));
  return {};
}

Result<const goldentrace_request*> Reader::request(std::size_t index) {
  GOLDENTRACE_RETURN_IF_ERROR(load_text());
  return at_or_null(text_->requests(), index);
}

Result<const goldentrace_result*> Reader::result(std::size_t index) {
  GOLDENTRACE_RETURN_IF_ERROR(load_text());
  return at_or_null(text_->results(), index);
}

Result<const goldentrace_parameter_record*> Reader::parameter(std::size_t index) {
  if (parameters_ == nullptr) {
    auto parameters = ParameterView::load(*trace_);
    if (!parameters.ok()) return parameters.status();
    parameters_ = std::move(*parameters);
  }
  return at_or_null(parameters_->entries(), index);
}

void Reader::rewind() {
  program_.reset();
  notes_ = {};
}

Result<const goldentrace_record*> Reader::next() {
  if (!program_) {
    program_.emplace(*trace_);
    call_ = 0;
    write_ = 0;
  }
  while (true) {
    const ProgramChunk& chunk = program_->chunk();
    for (; call_ < chunk.calls.size(); ++call_, write_ = 0) {
      if (write_ == chunk.calls[call_].writes) continue;
      return next_view_.set({*trace_, program_->dictionary(), notes_, chunk}, call_, write_++);
    }
    const auto more = program_->next();
    if (!more.ok()) return more.status();
    if (!*more) return nullptr;
    notes_.absorb(program_->chunk());
    call_ = 0;
    write_ = 0;
  }
}

Status Reader::load_index() {
  if (index_) return {};
  Index index;
  ProgramReader program(*trace_);
  std::uint32_t chunk_number = 0;
  const auto chunks = trace_->chunks();
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) break;
    while (chunks[chunk_number].kind != ChunkKind::kProgram) ++chunk_number;
    const ProgramChunk& chunk = program.chunk();
    index.notes.absorb(chunk);
    for (std::uint32_t i = 0; i < chunk.calls.size(); ++i) {
      const Call& call = chunk.calls[i];
      if (call.writes == 0) continue;
      auto& places = index.places[program.dictionary().scope(call.scope)];
      for (std::uint32_t write = 0; write < call.writes; ++write) {
        places.push_back({chunk_number, i, call.step, call.op, write});
      }
    }
    ++chunk_number;
  }
  index.dictionary = program.dictionary();
  index_ = std::move(index);
  return {};
}

Result<const goldentrace_record*> Reader::find(const goldentrace_query* asked) {
  const auto query = read_struct(asked, "query");
  if (!query.ok()) return query.status();
  if (query->name == nullptr) return invalid("query.name is NULL");
  GOLDENTRACE_RETURN_IF_ERROR(load_index());
  Index& index = *index_;
  std::uint64_t left = query->occurrence;
  const auto found = index.places.find(query->name);
  for (std::size_t i = 0; found != index.places.end() && i < found->second.size(); ++i) {
    const Place& place = found->second[i];
    if (query->step >= 0 && query->step != place.step) continue;
    if (query->op != nullptr && index.dictionary.describe_op(place.op) != query->op) continue;
    if (left-- > 0) continue;
    if (index.loaded != place.chunk) {
      const auto raw = trace_->read_chunk(place.chunk);
      if (!raw.ok()) return raw.status();
      auto chunk = decode_program(*raw);
      if (!chunk.ok()) return chunk.status();
      index.chunk = std::move(*chunk);
      index.loaded = place.chunk;
    }
    return found_view_.set({*trace_, index.dictionary, index.notes, index.chunk}, place.call,
                           place.write);
  }
  return Status(Code::kNotFound,
                trace_->name() + ": no tensor '" + query->name + "'" +
                    (query->op == nullptr ? "" : std::string(" of op ") + query->op) +
                    (query->step < 0 ? "" : " in step " + std::to_string(query->step)) +
                    (query->occurrence == 0 ? "" : ", not so often"));
}

Status Reader::value(const goldentrace_hash128& hash, void* memory, std::uint64_t size) const {
  const Hash128 key{hash.low, hash.high};
  const auto kept = trace_->value_size(key);
  if (kept && *kept != size) {
    return invalid("the value has " + std::to_string(*kept) + " bytes, not " +
                   std::to_string(size));
  }
  return trace_->read_value(key, {static_cast<std::byte*>(memory), size});
}

}  // namespace goldentrace::capi
