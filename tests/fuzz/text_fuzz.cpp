#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = decode_text(fuzz::bytes_of(data, size));
  if (!text.ok()) return 0;
  const Bytes encoded = encode_text(*text);
  const auto again = decode_text(encoded);
  // NaN is not equal to itself: steps are compared by their bytes.
  fuzz::require(again.ok() && again->requests == text->requests && encode_text(*again) == encoded,
                "text comes back as it was written");
  return 0;
}
