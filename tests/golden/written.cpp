#include "tests/golden/written.h"

#include <cstdlib>
#include <limits>

#include "tests/support/traces.h"

namespace goldentrace::testing {

Bytes written(const std::function<void(TraceWriter&)>& fill, std::uint64_t calls,
              WriterOptions options) {
  Bytes file;
  auto writer = TraceWriter::create(write_memory(&file), sample_header(), options);
  fill(**writer);
  if (!(*writer)->close(sample_summary(calls)).ok()) std::abort();
  return file;
}

Bytes bands() {
  const float none = std::numeric_limits<float>::quiet_NaN();
  return written(
      [&](TraceWriter& writer) {
        (void)writer.write_program(rich_chunk());
        (void)writer.write_bands({1, {0.25F, none, 0}, {0.5F, none, 0}});
      },
      3);
}

}  // namespace goldentrace::testing
