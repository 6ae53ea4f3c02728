// What a trace says against its own run as an oracle: modules whose code is not their authors', and
// warnings of the recorder. A verdict stays what it is; every report says these beside it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/event/run.h"

namespace goldentrace {

struct Doubts {
  std::string incomplete = {};  // why the trace is only a part of its run; "" when it is whole
  std::string trimmed = {};     // what is left of it: "5 of 9 calls are left, ..."; "" when all is
  std::vector<std::string> impure = {};    // "model.layers.0.mlp: runs kernels.SiluAndMul"
  std::vector<std::string> warnings = {};  // "kind: path: text", kinds of FORMAT.md
  // No doubt, hence in no report: tensors of the checkpoint that the model has no use for.
  std::vector<std::string> information = {};
};

// Why a trace is only a part of its run, "trace_cut 1, at offset 77: ..."; "" when it is whole.
std::string incompleteness(const Summary& summary);

Doubts doubts_of(const Header& header, const Summary& summary);

// Rows for a report, two columns short of its width. The same thing said of modules whose paths
// differ in numbers is one row; the last one of a kind tells how many places are not named.
std::vector<std::string> doubt_rows(const Doubts& doubts, std::size_t max_impure = 2,
                                    std::size_t max_warnings = 1);
std::vector<std::string> information_rows(const Doubts& doubts, std::size_t max);

}  // namespace goldentrace
