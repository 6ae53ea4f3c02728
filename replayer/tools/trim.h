// `replay trim`: a smaller trace with a part of the evidence. What calls outside the filter did is
// left out, so the answer is no program that could be executed; it says so by the warning "trimmed"
// in its header and the counter calls_trimmed. Without a filter the program stays whole. Reads the
// trace twice; memory grows with one chunk and the definitions.
#pragma once

#include <cstdint>
#include <string>

#include "replayer/report/call_filter.h"
#include "src/base/status.h"

namespace goldentrace {

struct TrimOptions {
  std::string trace = {};
  std::string output = {};
  // Calls that are kept, by scope and step. They are numbered anew, and so is every definition that
  // they use; versions stay. Kept with them: what was put into their memory from outside, all
  // parameters, all requests, and the text of the steps that are asked for.
  CallFilter filter = {};
  // Drops values, but for those that executing the program again needs: of decisions, of random
  // calls, of external inputs and of parameters by value.
  bool drop_values = false;
  bool drop_timings = false;
};

struct TrimReport {
  std::uint64_t calls = 0;  // in the trace that was read
  std::uint64_t kept_calls = 0;
  std::uint64_t values_dropped = 0;
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
};

// kNotFound when no call is kept, kInvalidArgument for a trace that was cut or when nothing is to
// be dropped; then, and after every other failure, `output` is as it was before.
Result<TrimReport> trim(const TrimOptions& options);

}  // namespace goldentrace
