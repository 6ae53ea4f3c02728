#include "replayer/tools/select.h"

#include <unordered_set>
#include <utility>

#include "replayer/report/format.h"
#include "replayer/tools/export.h"
#include "replayer/tools/unique_names.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxNamed = 5;

Status add(const TraceReader& trace, const Dictionary& dictionary, const Write& write,
           std::string name, std::uint64_t call, Selection& selection) {
  if ((write.flags & kWriteValue) == 0) {
    ++selection.not_kept;
    if (selection.not_kept_first.size() < kMaxNamed) selection.not_kept_first.push_back(name);
    return {};
  }
  const Tensor& tensor = dictionary.tensor(write.tensor);
  const Geometry& geometry = dictionary.geometry_of(write.tensor);
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(element_count(geometry)) * item_size(tensor.dtype);
  if (trace.value_size(write.hash) != bytes) {
    return {Code::kCorrupt, trace.name() + ": value " + to_hex(write.hash) + " of '" + name +
                                "' is missing or of another size: `replay check` tells more"};
  }
  selection.tensors.push_back(
      {std::move(name), call, tensor.dtype, tensor.flags, geometry.sizes, write.hash, bytes});
  return {};
}

}  // namespace

std::string export_name(const std::string& scope, const std::string& op, std::uint32_t step) {
  std::string name = printable(scope.empty() ? op : scope + "/" + op);
  if (step > 0) name += "/step " + std::to_string(step);
  return name;
}

namespace {

std::string name_of(const Dictionary& dictionary, const Call& call) {
  return export_name(dictionary.scope(call.scope), dictionary.describe_op(call.op), call.step);
}

// Calls `visit(dictionary, number, call, write, selected)` for every write of the calls that the
// filter lets pass, whatever call or hash it asks for; `selected` says that it does.
template <typename Visit>
Status each_write(const TraceReader& trace, const CallFilter& filter, Visit visit) {
  ProgramReader program(trace);
  CallFilter by_name = filter;
  by_name.call.reset();
  CallMatcher named(by_name, program.dictionary());
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) return {};
    const ProgramChunk& chunk = program.chunk();
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const Call& call = chunk.calls[i];
      const std::uint64_t number = chunk.base.calls + i;
      if (!named.matches(call, number)) continue;
      for (std::size_t w = 0; w < call.writes; ++w) {
        const Write& write = chunk.writes[call.first_write + w];
        const bool selected = filter.call.value_or(number) == number && named.matches(write);
        GOLDENTRACE_RETURN_IF_ERROR(visit(program.dictionary(), number, call, write, selected));
      }
    }
  }
}

}  // namespace

Result<Selection> select_tensors(const TraceReader& trace, const CallFilter& filter) {
  // Numbers are those of the whole program; names that are not selected are not kept in memory.
  const bool all = !filter.call && filter.hash.empty();
  std::unordered_set<std::string> selected_names;
  const auto note_name = [&](const Dictionary& dictionary, std::uint64_t, const Call& call,
                             const Write&, bool selected) {
    if (selected) selected_names.insert(name_of(dictionary, call));
    return Status();
  };
  if (!all) GOLDENTRACE_RETURN_IF_ERROR(each_write(trace, filter, note_name));
  Selection selection;
  UniqueNames names;
  GOLDENTRACE_RETURN_IF_ERROR(
      each_write(trace, filter,
                 [&](const Dictionary& dictionary, std::uint64_t number, const Call& call,
                     const Write& write, bool selected) -> Status {
                   std::string name = name_of(dictionary, call);
                   if (!all && !selected_names.contains(name)) return {};
                   name = names.take(std::move(name));
                   if (!selected) return {};
                   return add(trace, dictionary, write, std::move(name), number, selection);
                 }));
  return selection;
}

}  // namespace goldentrace
