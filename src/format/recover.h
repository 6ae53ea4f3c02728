// Makes a readable trace of what a cut or damaged file still holds: whole chunks are copied as they
// are, index and footer are made anew, and what is missing is counted in the summary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/io.h"
#include "src/base/status.h"

namespace goldentrace {

struct Recovery {
  std::uint64_t chunks_kept = 0;
  std::uint64_t chunks_lost = 0;  // by their numbers
  std::uint64_t calls_kept = 0;
  // That later chunks prove; what the recorder never wrote is unknown.
  std::uint64_t calls_lost = 0;
  std::uint64_t bytes_lost = 0;     // of the file, in no chunk that was kept
  bool closed = false;              // the recorder's own summary is there: nothing followed
  std::vector<std::string> losses;  // "at offset 70: ...", the first kMaxLosses

  static constexpr std::size_t kMaxLosses = 10;
  // Nothing of the recording is missing; index and footer may have been.
  [[nodiscard]] bool whole() const { return closed && chunks_lost == 0 && bytes_lost == 0; }
};

// kCorrupt when there is nothing to recover. Where calls were lost between others, definitions and
// calls that stand for them are put in (FORMAT.md, section 4), so that what comes after keeps its
// numbers.
Result<Recovery> recover(std::unique_ptr<ByteSource> in, std::unique_ptr<ByteSink> out);
// `out` appears when it is complete. kInvalidArgument when both paths are one file.
Result<Recovery> recover(const std::string& in, const std::string& out);

}  // namespace goldentrace
