#include "replayer/report/calls.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "replayer/report/format.h"

namespace goldentrace {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kHashDigits = 8;  // of a hash, in text
constexpr const char* kPlacementNames[] = {"replicated", "shard", "partial_sum"};

std::string dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The shortest digits that give the same double back; JSON has no NaN and no infinity.
std::string double_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return json(value).dump();
}

// One argument or result: text such as `%12:bfloat16 [1, 96, 128]`, and moves `node` past it.
std::string node_text(const Dictionary& dictionary, const std::vector<Node>& nodes,
                      std::size_t& node) {
  const Node& at = nodes[node++];
  const auto id = static_cast<std::uint32_t>(at.value);
  switch (at.kind) {
    case NodeKind::kNone:
      return "None";
    case NodeKind::kTensor:
      return "%" + std::to_string(id) + ":" + dictionary.describe_tensor(id);
    case NodeKind::kUndefinedTensor:
      return "undefined";
    case NodeKind::kInt:
    case NodeKind::kWrappedInt:
      return std::to_string(at.value);
    case NodeKind::kDouble:
    case NodeKind::kWrappedDouble:
      return double_text(std::bit_cast<double>(at.value));
    case NodeKind::kBool:
    case NodeKind::kWrappedBool:
      return at.value != 0 ? "True" : "False";
    case NodeKind::kString:
      return dump(dictionary.string(id));
    case NodeKind::kDevice:
      return dictionary.string(id);
    case NodeKind::kGenerator:
      return "generator(" + dictionary.string(id) + ")";
    case NodeKind::kStorage:
      return "storage " + std::to_string(id);
    case NodeKind::kUnstorable:
      return "<not stored: " + dictionary.string(id) + ">";
    case NodeKind::kComplex: {
      const std::string real = node_text(dictionary, nodes, node);
      return real + "+" + node_text(dictionary, nodes, node) + "j";
    }
    case NodeKind::kList:
    case NodeKind::kTuple: {
      std::string text = "[";
      for (std::int64_t i = 0; i < at.value; ++i) {
        if (i > 0) text += ", ";
        text += node_text(dictionary, nodes, node);
      }
      return text + "]";
    }
  }
  return "?";
}

std::vector<std::string> node_texts(const Dictionary& dictionary, const std::vector<Node>& nodes,
                                    std::size_t begin, std::size_t end) {
  std::vector<std::string> texts;
  for (std::size_t node = begin; node < end;) texts.push_back(node_text(dictionary, nodes, node));
  return texts;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

json stats_json(const Stats& stats) {
  return {{"count", stats.count},
          {"nan", stats.nan},
          {"positive_infinity", stats.positive_infinity},
          {"negative_infinity", stats.negative_infinity},
          {"sentinel", stats.sentinel},
          {"zero", stats.zero},
          {"min", stats.min},
          {"max", stats.max},
          {"sum", stats.sum},
          {"sum_squares", stats.sum_squares}};
}

std::string hash_text(const Write& write) {
  return (write.flags & kWriteHashed) != 0 ? "#" + to_hex(write.hash).substr(0, kHashDigits)
                                           : "undefined";
}

// What is kept of a written tensor; `stats` may be null.
void add_digest(const ProgramChunk& chunk, const Write& write, json& object) {
  object["undefined"] = (write.flags & kWriteUndefined) != 0;
  object["decision"] = (write.flags & kWriteDecision) != 0;
  object["value_kept"] = (write.flags & kWriteValue) != 0;
  object["hash"] = nullptr;
  object["stats"] = nullptr;
  if ((write.flags & kWriteHashed) != 0) object["hash"] = to_hex(write.hash);
  if ((write.flags & kWriteStats) != 0)
    object["stats"] = stats_json(chunk.stats[write.stats_index]);
  object["sketch"] = nullptr;
  if ((write.flags & kWriteSketch) != 0) object["sketch"] = chunk.sketches[write.sketch_index];
}

std::string shard_text(const Placement& placement) {
  if (placement.kind == PlacementKind::kPartialSum) {
    return "partial sum of " + std::to_string(placement.count);
  }
  return "shard " + std::to_string(placement.index) + " of " + std::to_string(placement.count) +
         " along " + std::to_string(placement.dim);
}

std::string rows_text(const Row& row) {
  return "rows " + std::to_string(row.first_row) + "+" + std::to_string(row.count) + " request " +
         std::to_string(row.request) + " at " + std::to_string(row.position);
}

}  // namespace

std::string call_json(const Dictionary& dictionary, const ProgramChunk& chunk, std::size_t i) {
  const Call& call = chunk.calls[i];
  json writes = json::array();
  for (std::size_t w = 0; w < call.writes; ++w) {
    const Write& write = chunk.writes[call.first_write + w];
    json object = {{"tensor", write.tensor},
                   {"storage", dictionary.tensor(write.tensor).storage},
                   {"version", write.version},
                   {"type", dictionary.describe_tensor(write.tensor)}};
    add_digest(chunk, write, object);
    writes.push_back(std::move(object));
  }
  return dump(
      {{"call", chunk.base.calls + i},
       {"step", call.step},
       {"scope", dictionary.scope(call.scope)},
       {"op", dictionary.describe_op(call.op)},
       {"arguments", node_texts(dictionary, chunk.nodes, call.first_node, call.first_result)},
       {"results", node_texts(dictionary, chunk.nodes, call.first_result, call.end_node)},
       {"writes", std::move(writes)},
       {"executable", (call.flags & kCallNotExecutable) == 0},
       {"failed", (call.flags & kCallFailed) != 0},
       {"random", (call.flags & kCallRandom) != 0},
       {"foreign", (call.flags & kCallForeign) != 0}});
}

std::string call_text(const Dictionary& dictionary, const ProgramChunk& chunk, std::size_t i) {
  const Call& call = chunk.calls[i];
  const std::string results =
      joined(node_texts(dictionary, chunk.nodes, call.first_result, call.end_node));
  std::string text =
      std::to_string(chunk.base.calls + i) + "  " + std::to_string(call.step) + "  " +
      printable(dictionary.scope(call.scope)) + "  " +
      printable(dictionary.describe_op(call.op) + "(" +
                joined(node_texts(dictionary, chunk.nodes, call.first_node, call.first_result)) +
                ") -> " + results);
  for (std::size_t w = 0; w < call.writes; ++w) {
    text += "  " + hash_text(chunk.writes[call.first_write + w]);
  }
  if ((call.flags & kCallForeign) != 0) text += "  another engine's";
  if ((call.flags & kCallNotExecutable) != 0) text += "  not re-executable";
  if ((call.flags & kCallFailed) != 0) text += "  threw";
  return text;
}

void TensorNotes::absorb(const ProgramChunk& chunk) {
  for (const TensorPlacement& entry : chunk.placements) {
    notes_[entry.tensor].placement = entry.placement;
  }
  for (const TensorLayout& entry : chunk.layouts)
    notes_[entry.tensor].layouts.push_back(entry.text);
  for (const TensorRow& entry : chunk.rows) notes_[entry.tensor].rows.push_back(entry.row);
}

std::string TensorNotes::write_text(const Dictionary& dictionary, const ProgramChunk& chunk,
                                    std::size_t i, std::size_t w) const {
  const Call& call = chunk.calls[i];
  const Write& write = chunk.writes[call.first_write + w];
  std::string text = std::to_string(chunk.base.calls + i) + "  " + std::to_string(call.step) +
                     "  " + printable(dictionary.scope(call.scope)) + "  " +
                     printable(dictionary.describe_op(call.op)) + "  " +
                     dictionary.describe_tensor(write.tensor) + "  " + hash_text(write) + "  " +
                     ((write.flags & kWriteValue) != 0 ? "value" : "no value");
  if ((write.flags & kWriteDecision) != 0) text += "  decision";
  if ((call.flags & kCallForeign) != 0) text += "  another engine's";
  const auto note = notes_.find(write.tensor);
  if (note == notes_.end()) return text;
  if (note->second.placement.kind != PlacementKind::kReplicated) {
    text += "  " + shard_text(note->second.placement);
  }
  for (const std::uint32_t layout : note->second.layouts) {
    text += "  layout " + printable(dump(dictionary.string(layout)));
  }
  for (const Row& row : note->second.rows) text += "  " + rows_text(row);
  return text;
}

std::string TensorNotes::write_json(const Dictionary& dictionary, const ProgramChunk& chunk,
                                    std::size_t i, std::size_t w) const {
  const Call& call = chunk.calls[i];
  const Write& write = chunk.writes[call.first_write + w];
  const Tensor& tensor = dictionary.tensor(write.tensor);
  json object = {{"call", chunk.base.calls + i},
                 {"step", call.step},
                 {"scope", dictionary.scope(call.scope)},
                 {"op", dictionary.describe_op(call.op)},
                 {"output", w},
                 {"tensor", write.tensor},
                 {"storage", tensor.storage},
                 {"version", write.version},
                 {"dtype", dtype_name(tensor.dtype)},
                 {"shape", dictionary.geometry_of(write.tensor).sizes}};
  add_digest(chunk, write, object);
  object["foreign"] = (call.flags & kCallForeign) != 0;
  const auto found = notes_.find(write.tensor);
  const Note note = found == notes_.end() ? Note() : found->second;
  object["placement"] = {{"kind", kPlacementNames[static_cast<std::size_t>(note.placement.kind)]},
                         {"dim", note.placement.dim},
                         {"index", note.placement.index},
                         {"count", note.placement.count}};
  object["layout"] = json::array();
  for (const std::uint32_t layout : note.layouts) {
    object["layout"].push_back(dictionary.string(layout));
  }
  object["rows"] = json::array();
  for (const Row& row : note.rows) {
    object["rows"].push_back({{"request", row.request},
                              {"first_row", row.first_row},
                              {"count", row.count},
                              {"position", row.position}});
  }
  return dump(object);
}

}  // namespace goldentrace
