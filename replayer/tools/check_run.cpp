#include "replayer/tools/check_run.h"

#include <algorithm>
#include <tuple>

namespace goldentrace {

void ParameterCheck::add(const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) check(parameter);
  count_ += parameters.size();
}

void ParameterCheck::check(const Parameter& parameter) {
  const auto where = [&] { return "'" + parameter.name + "'"; };
  names_.insert(parameter.name);
  if (parameter.call >= last_call_) {
    last_call_ = parameter.call;
    last_name_ = parameter.name;
  }
  const bool sourced = parameter.recipe != Recipe::kValue && parameter.recipe != Recipe::kComputed;
  if (!sourced && !parameter.sources.empty()) {
    findings_.notes.add("recipe without sources names some", where);
  }
  if (parameter.recipe == Recipe::kTied) tied_.emplace_back(parameter.name, parameter.sources[0]);
  if (program_.lost()) return;
  const Dictionary& dictionary = program_.dictionary();
  if (parameter.tensor >= dictionary.tensors()) {
    findings_.faults.add("parameter of a tensor that no earlier chunk defines", where);
    return;
  }
  if (parameter.recipe != Recipe::kValue) return;
  const auto elements = element_count(dictionary.geometry_of(parameter.tensor));
  program_.check_value(
      "value of a parameter", parameter.hash,
      static_cast<std::uint64_t>(elements) * item_size(dictionary.tensor(parameter.tensor).dtype),
      where);
}

void ParameterCheck::finish() {
  for (const auto& tie : tied_) {  // a name and its source
    if (names_.contains(tie.second)) continue;
    findings_.faults.add("parameter is tied to one that is not there",
                         [&] { return "'" + tie.first + "' to '" + tie.second + "'"; });
  }
  if (!program_.lost() && last_call_ > program_.calls()) {
    findings_.notes.add("parameter is put in place after the last call",
                        [&] { return "'" + last_name_ + "'"; });
  }
}

void TextCheck::refer(std::uint32_t request, const std::string& where) {
  referred_.try_emplace(request, where);
}

void TextCheck::add(const Text& text) {
  for (const Request& request : text.requests) requests_.insert(request.id);
  for (const Step& step : text.steps) check(step);
}

void TextCheck::check(const Step& step) {
  const auto where = [&] { return "step " + std::to_string(step.step); };
  for (const Row& row : step.rows) {
    refer(row.request, where());
    if (row.position < 0) findings_.notes.add("row of a step at a position below 0", where);
  }
  if (step.chosen < -1) findings_.notes.add("step chose a token id below 0", where);
  // An entry without rows names no request; there may be several of them.
  if (step.rows.empty()) {
    steps_.emplace(step.step, std::numeric_limits<std::uint32_t>::max());
  } else if (!steps_.emplace(step.step, step.rows.front().request).second) {
    findings_.notes.add("step has two entries of one request", where);
  }
}

void TextCheck::add_rows(const std::vector<TensorRow>& rows) {
  for (const TensorRow& entry : rows) {
    const std::string where = "tensor " + std::to_string(entry.tensor);
    refer(entry.row.request, where);
    if (entry.row.position < 0) {
      findings_.notes.add("row of a tensor at a position below 0", [&] { return where; });
    }
  }
}

void TextCheck::finish() {
  std::vector<std::pair<std::uint32_t, std::string>> missing;
  for (const auto& [request, where] : referred_) {
    if (!requests_.contains(request)) missing.emplace_back(request, where);
  }
  std::ranges::sort(missing);
  for (const auto& rows : missing) {  // a request and where its rows are
    findings_.notes.add("rows of a request that is not there",
                        [&] { return rows.second + ", request " + std::to_string(rows.first); });
  }
}

ValueCheck::ValueCheck(const TraceReader& trace, CheckFindings& findings)
    : trace_(trace), findings_(findings), entries_(trace.chunks().size(), 0) {
  for (const ValueEntry& entry : trace.values()) ++entries_[entry.chunk];
}

void ValueCheck::add(std::size_t at, const Values& values) {
  const std::string where = "at offset " + std::to_string(trace_.chunks()[at].offset);
  const auto here = [&] { return where; };
  const auto index = trace_.values();
  const auto key = [](const ValueEntry& entry) { return std::tie(entry.hash, entry.offset); };
  std::uint32_t listed = 0;
  std::size_t begin = 0;
  for (const ValuePart& part : values.parts) {
    const auto found = std::ranges::lower_bound(index, std::tie(part.hash, part.offset), {}, key);
    if (found != index.end() && key(*found) == std::tie(part.hash, part.offset) &&
        found->chunk == at && found->length == part.length) {
      ++listed;
    } else {
      findings_.faults.add("part of a value is not in the index", here);
    }
    check(part, values.data.subspan(begin, part.length), where);
    begin += part.length;
  }
  if (listed != entries_[at]) {
    findings_.faults.add("index places a value where it is not", here);
  }
}

void ValueCheck::check(const ValuePart& part, std::span<const std::byte> bytes,
                       const std::string& where) {
  bytes_ += bytes.size();
  count_ += part.offset == 0 ? 1 : 0;
  if (bytes.size() < part.total) {
    split_.insert(part.hash);
  } else if (hash_bytes(bytes) != part.hash) {
    findings_.faults.add("value does not hash to the name that it is kept under",
                         [&] { return where + ", value " + to_hex(part.hash); });
  }
}

void ValueCheck::finish() {
  // Other parts may lie between those of one value: it is read once more.
  for (const Hash128& hash : split_) {
    const Status whole =
        trace_.visit_value(hash, [](std::span<const std::byte>) { return Status(); });
    if (!whole.ok()) {
      findings_.faults.add("value does not hash to the name that it is kept under",
                           [&] { return "value " + to_hex(hash); });
    }
  }
}

}  // namespace goldentrace
