#include "replayer/tools/select.h"

#include <unordered_map>
#include <utility>

#include "replayer/report/format.h"
#include "replayer/tools/export.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxNamed = 5;

// Numbers what has the same name, in the order of the program.
class UniqueNames {
 public:
  std::string take(std::string name) {
    std::uint32_t& count = counts_[name];
    if (++count == 1) return name;
    std::string numbered = name + "#" + std::to_string(count);
    while (!counts_.try_emplace(numbered, 1).second)
      numbered = name + "#" + std::to_string(++count);
    return numbered;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> counts_;
};

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

Result<Selection> select_tensors(const TraceReader& trace, const CallFilter& filter) {
  Selection selection;
  ProgramReader program(trace);
  const Dictionary& dictionary = program.dictionary();
  // Numbers are those of the whole program, whatever call or hash is asked for.
  CallFilter by_name = filter;
  by_name.call.reset();
  CallMatcher named(by_name, dictionary);
  UniqueNames names;
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) return selection;
    const ProgramChunk& chunk = program.chunk();
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const Call& call = chunk.calls[i];
      const std::uint64_t number = chunk.base.calls + i;
      if (!named.matches(call, number)) continue;
      for (std::size_t w = 0; w < call.writes; ++w) {
        const Write& write = chunk.writes[call.first_write + w];
        std::string name = names.take(
            export_name(dictionary.scope(call.scope), dictionary.describe_op(call.op), call.step));
        if ((filter.call && *filter.call != number) || !named.matches(write)) continue;
        GOLDENTRACE_RETURN_IF_ERROR(
            add(trace, dictionary, write, std::move(name), number, selection));
      }
    }
  }
}

}  // namespace goldentrace
