// The tools that read a whole trace: check and trim.
#include "replayer/tools/check.h"
#include "replayer/tools/trim.h"
#include "tests/fuzz/memory_file.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = fuzz::bytes_of(data, size);
  if (const auto report = check(*open_memory("input", bytes)); report.ok()) {
    (void)text_report(*report);
    (void)json_report(*report);
  }
  const fuzz::MemoryFile file(bytes);
  TrimOptions options;
  options.trace = file.path();
  options.output = "/dev/null";
  options.drop_values = true;
  (void)trim(options);
  options.drop_timings = true;
  options.filter.first_step = options.filter.last_step = 1;
  (void)trim(options);
  return 0;
}
