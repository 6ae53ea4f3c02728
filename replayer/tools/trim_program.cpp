#include "replayer/tools/trim_program.h"

#include <utility>

namespace goldentrace {
namespace {

// Calls, nodes and writes of a chunk of about 1 MiB.
constexpr std::size_t kFullChunk = 40'000;

}  // namespace

template <typename Item>
std::uint32_t ProgramTrimmer::define(Ids& ids, std::uint32_t id, std::uint32_t base,
                                     std::vector<Item>& items, Item item) {
  const auto to = base + static_cast<std::uint32_t>(items.size());
  ids.set(id, to);
  items.push_back(std::move(item));
  return to;
}

std::uint32_t ProgramTrimmer::string(std::uint32_t id) {
  if (const auto known = strings_.find(id); known != Ids::kNew) return known;
  return define(strings_, id, out_.base.strings, out_.strings, from_.string(id));
}

std::uint32_t ProgramTrimmer::geometry(std::uint32_t id) {
  if (const auto known = geometries_.find(id); known != Ids::kNew) return known;
  return define(geometries_, id, out_.base.geometries, out_.geometries, from_.geometry(id));
}

std::uint32_t ProgramTrimmer::storage(std::uint32_t id) {
  if (const auto known = storages_.find(id); known != Ids::kNew) return known;
  Storage storage = from_.storage(id);
  storage.device = string(storage.device);
  return define(storages_, id, out_.base.storages, out_.storages, storage);
}

std::uint32_t ProgramTrimmer::tensor(std::uint32_t id) {
  if (const auto known = tensors_.find(id); known != Ids::kNew) return known;
  Tensor tensor = from_.tensor(id);
  tensor.storage = storage(tensor.storage);
  tensor.geometry = geometry(tensor.geometry);
  const std::uint32_t to = define(tensors_, id, out_.base.tensors, out_.tensors, tensor);
  if (const auto notes = waiting_.extract(id); !notes.empty()) add_notes(notes.mapped(), to);
  return to;
}

void ProgramTrimmer::add_notes(const Notes& notes, std::uint32_t tensor) {
  for (TensorPlacement entry : notes.placements) {
    entry.tensor = tensor;
    out_.placements.push_back(entry);
  }
  for (TensorLayout entry : notes.layouts) {
    entry.tensor = tensor;
    entry.text = string(entry.text);
    out_.layouts.push_back(entry);
  }
  for (TensorRow entry : notes.rows) {
    entry.tensor = tensor;
    out_.rows.push_back(entry);
  }
}

void ProgramTrimmer::learn_notes(const ProgramChunk& chunk) {
  std::unordered_map<std::uint32_t, Notes> learnt;
  for (const TensorPlacement& entry : chunk.placements) {
    learnt[entry.tensor].placements.push_back(entry);
  }
  for (const TensorLayout& entry : chunk.layouts) learnt[entry.tensor].layouts.push_back(entry);
  for (const TensorRow& entry : chunk.rows) learnt[entry.tensor].rows.push_back(entry);
  for (auto& [id, notes] : learnt) {
    if (const auto known = tensors_.find(id); known != Ids::kNew) {
      add_notes(notes, known);
      continue;
    }
    Notes& waiting = waiting_[id];
    waiting.placements.insert(waiting.placements.end(), notes.placements.begin(),
                              notes.placements.end());
    waiting.layouts.insert(waiting.layouts.end(), notes.layouts.begin(), notes.layouts.end());
    waiting.rows.insert(waiting.rows.end(), notes.rows.begin(), notes.rows.end());
  }
}

Node ProgramTrimmer::node(Node node) {
  const auto id = static_cast<std::uint32_t>(node.value);
  switch (node.kind) {
    case NodeKind::kTensor:
      node.value = tensor(id);
      break;
    case NodeKind::kString:
    case NodeKind::kDevice:
    case NodeKind::kGenerator:
    case NodeKind::kUnstorable:
      node.value = string(id);
      break;
    case NodeKind::kStorage:
      node.value = storage(id);
      break;
    default:
      break;
  }
  return node;
}

std::uint64_t ProgramTrimmer::add(const ProgramChunk& chunk, std::size_t i,
                                  std::vector<External> externals) {
  const std::uint64_t number = out_.base.calls + out_.calls.size();
  for (External& external : externals) {
    external.call = number;
    external.storage = storage(external.storage);
    out_.externals.push_back(external);
  }
  Call call = chunk.calls[i];
  const Call& old = chunk.calls[i];
  const auto op = operators_.find(old.op);
  call.op = op != Ids::kNew
                ? op
                : define(operators_, old.op, out_.base.operators, out_.operators, from_.op(old.op));
  const auto scope = scopes_.find(old.scope);
  call.scope = scope != Ids::kNew ? scope
                                  : define(scopes_, old.scope, out_.base.scopes, out_.scopes,
                                           from_.scope(old.scope));
  const auto ambient = ambients_.find(old.ambient);
  call.ambient = ambient != Ids::kNew ? ambient
                                      : define(ambients_, old.ambient, out_.base.ambients,
                                               out_.ambients, from_.ambient(old.ambient));
  call.first_node = static_cast<std::uint32_t>(out_.nodes.size());
  call.first_result = call.first_node + (old.first_result - old.first_node);
  call.end_node = call.first_node + (old.end_node - old.first_node);
  call.first_write = static_cast<std::uint32_t>(out_.writes.size());
  for (std::size_t n = old.first_node; n < old.end_node; ++n) {
    out_.nodes.push_back(node(chunk.nodes[n]));
  }
  for (std::size_t w = 0; w < old.writes; ++w) {
    Write write = chunk.writes[old.first_write + w];
    write.tensor = tensor(write.tensor);
    if ((write.flags & kWriteStats) != 0) {
      out_.stats.push_back(chunk.stats[write.stats_index]);
      write.stats_index = static_cast<std::uint32_t>(out_.stats.size() - 1);
    }
    if ((write.flags & kWriteSketch) != 0) {
      out_.sketches.push_back(chunk.sketches[write.sketch_index]);
      write.sketch_index = static_cast<std::uint32_t>(out_.sketches.size() - 1);
    }
    out_.writes.push_back(write);
  }
  out_.calls.push_back(call);
  return number;
}

bool ProgramTrimmer::empty() const {
  return out_.next_base() == out_.base && out_.placements.empty() && out_.layouts.empty() &&
         out_.rows.empty();
}

bool ProgramTrimmer::full() const {
  return out_.calls.size() + out_.nodes.size() + out_.writes.size() > kFullChunk;
}

ProgramChunk ProgramTrimmer::take() {
  ProgramChunk chunk = std::move(out_);
  out_ = {};
  out_.base = chunk.next_base();
  return chunk;
}

}  // namespace goldentrace
