#include "replayer/tools/slice_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "replayer/report/calls.h"
#include "replayer/tools/export.h"
#include "replayer/tools/unique_names.h"

namespace goldentrace {
namespace {

class Planner {
 public:
  Planner(const TraceReader& trace, const Place& place)
      : trace_(trace), place_(place), program_(trace) {}

  Result<SlicePlan> plan() {
    auto next_of_slice = place_.calls.begin();
    while (true) {
      const auto more = program_.next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      makers_.resize(dictionary().storages());
      const ProgramChunk& chunk = program_.chunk();
      for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
        const std::uint64_t number = chunk.base.calls + i;
        if (next_of_slice != place_.calls.end() && *next_of_slice == number) {
          ++next_of_slice;
          add_call(chunk, i, number);
        } else {
          pass_call(chunk, chunk.calls[i]);
        }
      }
    }
    GOLDENTRACE_RETURN_IF_ERROR(name_inputs());
    add_outputs();
    return std::move(plan_);
  }

 private:
  // Who wrote into a storage last.
  struct Maker {
    bool known = false;
    std::uint32_t scope = 0;
    std::uint32_t op = 0;
    std::uint32_t step = 0;
  };
  // A storage that the slice wrote into.
  struct Made {
    std::uint64_t call = 0;  // its last one there
    std::uint32_t tensor = 0;
    Maker maker;
    bool overwritten = false;          // by a later call
    std::vector<std::uint32_t> reads;  // tensors that later calls read
  };

  [[nodiscard]] const Dictionary& dictionary() const { return program_.dictionary(); }
  [[nodiscard]] std::uint32_t storage_of(std::uint32_t tensor) const {
    return dictionary().tensor(tensor).storage;
  }

  template <typename Visit>
  static void visit_tensors(const ProgramChunk& chunk, std::size_t begin, std::size_t end,
                            Visit visit) {
    for (std::size_t node = begin; node < end; ++node) {
      if (chunk.nodes[node].kind != NodeKind::kTensor) continue;
      visit(static_cast<std::uint32_t>(chunk.nodes[node].value));
    }
  }

  void add_call(const ProgramChunk& chunk, std::size_t i, std::uint64_t number) {
    const Call& call = chunk.calls[i];
    plan_.calls.push_back(call_json(dictionary(), chunk, i));
    visit_tensors(chunk, call.first_node, call.first_result, [&](std::uint32_t id) {
      if (made_.contains(storage_of(id)) || !inside_.insert(id).second) return;
      plan_.inputs.push_back(describe(id, number));
      input_makers_.push_back(makers_[storage_of(id)]);
    });
    visit_tensors(chunk, call.first_result, call.end_node,
                  [&](std::uint32_t id) { inside_.insert(id); });
    const Maker maker{true, call.scope, call.op, call.step};
    for (std::size_t w = 0; w < call.writes; ++w) {
      const std::uint32_t id = chunk.writes[call.first_write + w].tensor;
      inside_.insert(id);
      makers_[storage_of(id)] = maker;
      made_[storage_of(id)] = {number, id, maker, false, {}};
    }
  }

  void pass_call(const ProgramChunk& chunk, const Call& call) {
    visit_tensors(chunk, call.first_node, call.first_result, [&](std::uint32_t id) {
      const auto made = made_.find(storage_of(id));
      if (made == made_.end() || made->second.overwritten) return;
      // A view that was made after the slice is of what the slice gave.
      const std::uint32_t given = inside_.contains(id) ? id : made->second.tensor;
      std::vector<std::uint32_t>& reads = made->second.reads;
      if (std::ranges::find(reads, given) == reads.end()) reads.push_back(given);
    });
    for (std::size_t w = 0; w < call.writes; ++w) {
      const std::uint32_t storage = storage_of(chunk.writes[call.first_write + w].tensor);
      makers_[storage] = {true, call.scope, call.op, call.step};
      const auto made = made_.find(storage);
      if (made != made_.end()) made->second.overwritten = true;
    }
  }

  [[nodiscard]] SliceTensor describe(std::uint32_t id, std::uint64_t call) const {
    SliceTensor tensor;
    tensor.tensor = id;
    tensor.call = call;
    tensor.dtype = dictionary().tensor(id).dtype;
    tensor.sizes = dictionary().geometry_of(id).sizes;
    return tensor;
  }

  [[nodiscard]] std::string name_of(const Maker& maker) const {
    if (!maker.known) return "external";
    return export_name(dictionary().scope(maker.scope), dictionary().describe_op(maker.op),
                       maker.step);
  }

  // The parameter's name that the slice's module would say, where several share its memory.
  Status name_inputs() {
    const auto parameters = trace_.parameters();
    if (!parameters.ok()) return parameters.status();
    std::unordered_map<std::uint32_t, const Parameter*> by_storage;
    for (const Parameter& parameter : *parameters) {
      if (parameter.tensor >= dictionary().tensors()) continue;
      const Parameter*& known = by_storage[storage_of(parameter.tensor)];
      const bool inside = parameter.name.starts_with(place_.scope + ".");
      if (known == nullptr || (inside && !known->name.starts_with(place_.scope + "."))) {
        known = &parameter;
      }
    }
    UniqueNames names;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      SliceTensor& input = plan_.inputs[i];
      const auto found = by_storage.find(storage_of(input.tensor));
      if (found == by_storage.end()) {
        input.name = names.take(name_of(input_makers_[i]));
        continue;
      }
      const bool whole = found->second->tensor == input.tensor;
      input.name = names.take(found->second->name + (whole ? "" : "/view"));
    }
    return {};
  }

  void add_outputs() {
    std::vector<std::pair<SliceTensor, Maker>> outputs;
    const auto add = [&](std::uint32_t id, const Made& made) {
      outputs.emplace_back(describe(id, made.call), made.maker);
    };
    for (const auto& [storage, made] : made_) {
      for (const std::uint32_t id : made.reads) {
        if (id != place_.tensor) add(id, made);
      }
    }
    std::ranges::stable_sort(outputs, {}, [](const auto& output) { return output.first.call; });
    SliceTensor own = describe(place_.tensor, place_.call);
    UniqueNames names;
    own.name = names.take(export_name(place_.call_scope, place_.call_op, place_.step));
    plan_.outputs.push_back(std::move(own));
    for (auto& [output, maker] : outputs) {
      output.name = names.take(name_of(maker));
      plan_.outputs.push_back(std::move(output));
    }
  }

  const TraceReader& trace_;
  const Place& place_;
  ProgramReader program_;
  SlicePlan plan_;
  std::vector<Maker> makers_;                 // by storage
  std::vector<Maker> input_makers_;           // of plan_.inputs
  std::map<std::uint32_t, Made> made_;        // by storage
  std::unordered_set<std::uint32_t> inside_;  // tensors that the slice read or gave
};

}  // namespace

Result<SlicePlan> plan_slice(const TraceReader& trace, const Place& place) {
  return Planner(trace, place).plan();
}

}  // namespace goldentrace
