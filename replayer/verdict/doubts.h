// What a trace says against its own run as an oracle: modules whose code is not their authors', and
// warnings of the recorder. A verdict stays what it is; every report says these beside it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/event/run.h"

namespace goldentrace {

struct Doubts {
  std::vector<std::string> impure;    // "model.layers.0.mlp: runs kernels.SiluAndMul"
  std::vector<std::string> warnings;  // "kind: path: text", kinds of FORMAT.md
};

// Information such as unused weights of the checkpoint is no doubt, and left out.
Doubts doubts_of(const Header& header, const Summary& summary);

// Rows for a report, at most `max_impure` and as many for warnings; the same thing said of several
// modules is one row. The last row of a kind tells how many places it does not name.
std::vector<std::string> doubt_rows(const Doubts& doubts, std::size_t max_impure = 2,
                                    std::size_t max_warnings = 1);

}  // namespace goldentrace
