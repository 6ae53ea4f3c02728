#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = decode_index(fuzz::bytes_of(data, size));
  if (!index.ok()) return 0;
  const auto again = decode_index(encode_index(*index));
  fuzz::require(again.ok() && *again == *index, "an index comes back as it was written");
  return 0;
}
