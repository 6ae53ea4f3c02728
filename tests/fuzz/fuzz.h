// What the fuzz targets share. A target is one LLVMFuzzerTestOneInput: linked with libFuzzer it
// searches, linked with replay_main.cpp it runs the files of its corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "src/format/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace goldentrace::fuzz {

// A copy in memory of its own: it lies as a chunk does, and reads past its end are noticed.
inline Bytes bytes_of(const std::uint8_t* data, std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  return {begin, begin + size};
}

// What must hold whatever the input is; a finding where it doesn't.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace goldentrace::fuzz
