// The text chunks and the parameters of a trace as the C structs that readers hand out. Each view
// owns what its structs point into.
#pragma once

#include <deque>
#include <vector>

#include "src/capi/goldentrace.h"
#include "src/event/dictionary.h"
#include "src/event/run.h"
#include "src/format/codec.h"
#include "src/format/trace_reader.h"

namespace goldentrace::capi {

class TextView {
 public:
  explicit TextView(Text text);
  TextView(const TextView&) = delete;
  TextView& operator=(const TextView&) = delete;

  [[nodiscard]] const std::vector<goldentrace_request>& requests() const { return requests_; }
  [[nodiscard]] const std::vector<goldentrace_result>& results() const { return results_; }

 private:
  void add(const Request& request);
  void add(const Step& step);
  const goldentrace_bytes* pieces(const std::vector<std::string>& texts);

  const Text text_;
  // Deques: what was added stays in place.
  std::deque<std::vector<goldentrace_bytes>> pieces_;
  std::deque<std::vector<goldentrace_setting>> settings_;
  std::deque<std::vector<goldentrace_row>> rows_;
  std::vector<goldentrace_request> requests_;
  std::vector<goldentrace_result> results_;
};

// Of the value that is kept under a tensor's hash, GOLDENTRACE_NO_VALUE when there is none;
// kCorrupt when it has not as many bytes as the tensor.
Result<std::uint64_t> kept_bytes(const TraceReader& trace, const Dictionary& dictionary,
                                 std::uint32_t tensor, const Hash128& hash);

class ParameterView {
 public:
  // Reads the trace's parameters, and its program as far as it defines their tensors.
  static Result<std::unique_ptr<ParameterView>> load(const TraceReader& trace);
  ParameterView(const ParameterView&) = delete;
  ParameterView& operator=(const ParameterView&) = delete;

  [[nodiscard]] const std::vector<goldentrace_parameter_record>& entries() const {
    return entries_;
  }

 private:
  ParameterView() = default;
  Status add(const TraceReader& trace, const Dictionary& dictionary, const Parameter& parameter);

  std::vector<Parameter> parameters_;
  std::deque<std::vector<std::int64_t>> sizes_;
  std::deque<std::vector<const char*>> sources_;
  std::vector<goldentrace_parameter_record> entries_;
};

// The same things between our structs and the C ones.
inline goldentrace_hash128 to_c(const Hash128& hash) { return {hash.low, hash.high}; }
inline goldentrace_placement to_c(const Placement& at) {
  return {static_cast<std::uint32_t>(at.kind), at.dim, at.index, at.count};
}
inline goldentrace_row to_c(const Row& row) {
  return {row.request, row.first_row, row.count, 0, row.position};
}

}  // namespace goldentrace::capi
