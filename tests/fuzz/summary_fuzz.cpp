#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto summary = decode_summary(fuzz::bytes_of(data, size));
  if (!summary.ok()) return 0;
  const auto again = decode_summary(encode_summary(*summary));
  fuzz::require(again.ok() && *again == *summary, "a summary comes back as it was written");
  return 0;
}
