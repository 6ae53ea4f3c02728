// A place in a trace: one tensor, named as people name it, and the calls that are its slice.
//
//   place := SCOPE                 the module's output: what its last call wrote, or one below it
//          | SCOPE/OP[#N]          what the scope's N-th call of this operator wrote, from 1
//
// SCOPE is a module path, its end ("layers.0.mlp") or a glob, if that is one module alone; "" is
// outside every module. OP is "aten::mul", "mul" or either with its overload.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

struct PlaceName {
  std::string scope;
  std::string op;  // "": the module's output
  std::uint32_t ordinal = 1;
};

Result<PlaceName> parse_place(std::string_view text);

struct Place {
  std::string scope;  // the whole path
  std::string op;     // with its overload; "" for a module
  std::uint32_t ordinal = 1;
  std::uint32_t step = 0;
  std::vector<std::uint64_t> calls;  // the slice, rising: this call, or all of the module

  // The tensor, and the call that wrote it.
  std::uint64_t call = 0;
  std::string call_scope;
  std::string call_op;
  std::uint32_t tensor = 0;  // id
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  // What the trace keeps of it. Views have no digest.
  std::optional<Hash128> hash;
  std::optional<Stats> stats;
  bool kept = false;       // its value, under `hash`
  bool undefined = false;  // memory that no computation filled
  bool moves = false;      // every call of the slice that writes moves numbers and computes none

  // "model.layers.0.mlp", "model.layers.0.mlp/aten::mul.Tensor#2".
  [[nodiscard]] std::string name() const;
};

// Reads the whole program once. kNotFound says in one line what there is instead.
Result<Place> find_place(const TraceReader& trace, const PlaceName& name, std::uint32_t step);

}  // namespace goldentrace
