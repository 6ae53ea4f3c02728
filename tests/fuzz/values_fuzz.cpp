#include <algorithm>

#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes raw = fuzz::bytes_of(data, size);
  const auto values = decode_values(raw);
  if (!values.ok()) return 0;
  const Bytes encoded = encode_values(values->parts, values->data);
  const auto again = decode_values(encoded);
  fuzz::require(
      again.ok() && again->parts == values->parts && std::ranges::equal(again->data, values->data),
      "values come back as they were written");
  return 0;
}
