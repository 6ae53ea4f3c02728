#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ProgramChunk chunk;
  const auto timings = decode_timing(fuzz::bytes_of(data, size), chunk.base.calls);
  if (!timings.ok()) return 0;
  chunk.timings = *timings;
  std::uint64_t first_call = 0;
  const auto again = decode_timing(encode_timing(chunk), first_call);
  fuzz::require(again.ok() && *again == *timings && first_call == chunk.base.calls,
                "timings come back as they were written");
  return 0;
}
