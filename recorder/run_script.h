// `record -- COMMAND`: runs a command whose Python processes record themselves, and checks what
// they left. Unix only; knows no Torch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recorder/keep_options.h"

namespace goldentrace {

struct ScriptOptions {
  std::string output;                // trace of the first process that imports torch
  KeepOptions keep;                  // already found valid
  std::vector<std::string> command;  // not empty
  std::filesystem::path packages;    // folder of the Python package; site/ is in it
};

// Returns the exit status: the command's own (128 + n when signal n ended it), or 2 when that is 0
// and the trace is missing or not whole, or when the command can't be run. Says on the log what
// each trace holds and what went wrong. SIGTERM and SIGHUP are passed on to the command; SIGINT and
// SIGQUIT, which a terminal sends to both, are left to it.
int run_script(const ScriptOptions& options);

}  // namespace goldentrace
