// Arguments of the C interface as plain structs of ours, checked. Whatever a caller got wrong
// becomes kInvalidArgument with the field's name; memory that a pointer claims is trusted.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/status.h"
#include "src/capi/answer.h"
#include "src/capi/goldentrace.h"
#include "src/event/run.h"

namespace goldentrace::capi {

inline constexpr std::uint32_t kMaxRank = 64;
// No engine has a tensor of this many bytes; a size that was not set has.
inline constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 40;

// More than this in what describes one tensor, parameter or request is a mistake, and no chunk
// could hold it.
inline constexpr std::uint64_t kMaxNoteBytes = 8u << 20;
inline constexpr std::uint64_t kMaxTextBytes = 64u << 20;

// The caller's struct, maybe of a later version: fields that this library lacks must be zero.
template <typename Struct>
Result<Struct> read_struct(const Struct* from, const char* what) {
  constexpr std::size_t kSane = 4096;
  if (from == nullptr) return invalid(std::string(what) + " is NULL");
  if (from->size < sizeof(Struct) || from->size > kSane) {
    return invalid(std::string(what) + ".size is not set: call its init function first");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  if (std::any_of(bytes + sizeof(Struct), bytes + from->size, [](auto b) { return b != 0; })) {
    return Status(Code::kUnsupported,
                  std::string(what) + " sets a field that this library does not know");
  }
  Struct copy;
  std::memcpy(&copy, bytes, sizeof copy);
  if constexpr (requires { copy.reserved; }) {
    if (copy.reserved != 0) return invalid(std::string(what) + ".reserved is not 0");
  }
  return copy;
}

// Sizes and strides in elements, with the memory that they reach.
struct Shape {
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // may be negative
  std::int64_t bytes = 0;             // of the elements, without gaps
  std::int64_t lowest = 0;      // element that lies first in memory, from the one at 0, 0, ...
  std::int64_t span_bytes = 0;  // from there to the end of the last one
};
Result<Shape> read_shape(std::uint32_t dtype, std::uint32_t rank, const std::int64_t* sizes,
                         const std::int64_t* strides);

// "" for NULL.
std::string text_or_empty(const char* text);
// kInvalidArgument for NULL and "".
Result<std::string> read_name(const char* text, const char* what);
Result<Placement> read_placement(const goldentrace_placement& placement);
Result<std::vector<Row>> read_rows(const goldentrace_row* rows, std::size_t count);
Result<std::vector<std::string>> read_texts(const char* const* texts, std::size_t count,
                                            const char* what);

Result<Header> read_header(const goldentrace_writer_options& options);
// Bytes that it takes in a file, roughly.
std::uint64_t size_of(const Request& request);
std::uint64_t size_of(const Step& step);
std::uint64_t size_of(const Parameter& parameter);

// kInvalidArgument when it is larger than kMaxTextBytes, like read_result.
Result<Request> read_request(const goldentrace_request& from);
// Its `step` is left to the caller, which knows the current one.
Result<Step> read_result(const goldentrace_result& from);

}  // namespace goldentrace::capi
