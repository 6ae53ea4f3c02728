// `replay check`: reads every byte of a trace and holds it against the rules of FORMAT.md:
// checksums, content hashes, ids, versions, references, and the hash of every value. Needs no
// weights and executes nothing. Memory grows with one chunk and the definitions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"

namespace goldentrace {

struct CheckOptions {
  std::string trace;
};

// Findings of one kind, in the order in which the first of each was met.
struct CheckFinding {
  std::string what;
  std::uint64_t count = 0;
  std::string first;  // where: "at offset 1234", "call 17 (aten::mul.Tensor)"
};

struct CheckReport {
  std::string trace;
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;
  std::uint64_t calls = 0;
  std::uint64_t writes = 0;
  std::uint64_t externals = 0;
  std::uint64_t values = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t parameters = 0;
  std::uint64_t requests = 0;
  std::uint64_t steps = 0;
  std::vector<CheckFinding> faults;       // what a reader must refuse
  std::vector<CheckFinding> unsupported;  // of a later version: this build can't tell
  std::vector<CheckFinding> notes;        // allowed, but good to know
};

// 0 sound, 1 damaged or against the rules, 2 sound as far as this build can read.
int check_exit_status(const CheckReport& report);

// Not ok when there is nothing to check: no such file, no goldentrace file, a newer major version.
// What is wrong with a trace is in the report.
Result<CheckReport> check(const CheckOptions& options);
// The same of bytes that need be no file.
Result<CheckReport> check(const ByteSource& source);

std::string text_report(const CheckReport& report);
std::string json_report(const CheckReport& report);

}  // namespace goldentrace
