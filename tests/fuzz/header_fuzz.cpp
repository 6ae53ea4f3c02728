#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = decode_header(fuzz::bytes_of(data, size));
  if (!header.ok()) return 0;
  const auto again = decode_header(encode_header(*header));
  fuzz::require(again.ok() && *again == *header, "a header comes back as it was written");
  return 0;
}
