#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parameters = decode_parameters(fuzz::bytes_of(data, size));
  if (!parameters.ok()) return 0;
  const auto again = decode_parameters(encode_parameters(*parameters));
  fuzz::require(again.ok() && *again == *parameters, "parameters come back as they were written");
  return 0;
}
