// From judged cuts to what a person is told: one finding a kind of module, worst first.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "replayer/execute/local.h"

namespace goldentrace {

struct LocalFinding {
  Zone zone = Zone::kFault;         // kFault or kRoundingPolicy
  std::string module;               // "model.layers.*.mlp.up_proj"; the path itself where it is one
  std::vector<std::string> scopes;  // the modules that it was seen in, in the program's order
  std::vector<std::size_t> cuts;    // into LocalReport::cuts, the worst first
  std::string module_class;         // of the worst's module, where the oracle's trace says
  // Cuts after its first one that are no cuts of its own, and those of them in band: downstream.
  std::uint64_t later = 0;
  std::uint64_t later_in_band = 0;
};

// Sets the zone of every cut. Those of few elements are judged with the same call of other layers.
void judge_cuts(std::span<LocalCut* const> cuts, const LocalReport& report);

// A path with its numbers as "*": modules of the same kind have the same one.
std::string module_kind(const std::string& scope);

// Faults before rounding policies; the worst first.
std::vector<LocalFinding> findings_of(const LocalReport& local);

}  // namespace goldentrace
