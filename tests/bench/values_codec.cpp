// Writing values by the default codec against zstd level 1 alone on the same bytes, in one run:
//   values_codec TRACE...      traces recorded with --rule 'scope=**:values'
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "src/format/compression.h"
#include "src/format/trace_reader.h"

using namespace goldentrace;

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Total {
  double seconds = 0;
  std::uint64_t bytes = 0;
};

// The best of three, as the machine is shared.
template <typename Compress>
void add(Total& total, Compress compress) {
  double best = 1e9;
  std::size_t size = 0;
  for (int i = 0; i < 3; ++i) {
    const double began = seconds();
    size = compress();
    best = std::min(best, seconds() - began);
  }
  total.seconds += best;
  total.bytes += size;
}

}  // namespace

int main(int argc, char** argv) {
  Compressor compressor;
  for (int i = 1; i < argc; ++i) {
    const auto trace = TraceReader::open(argv[i]);
    if (!trace.ok()) return 2;
    Total zstd;
    Total fast;
    std::uint64_t raw_bytes = 0;
    for (std::size_t c = 0; c < (*trace)->chunks().size(); ++c) {
      if ((*trace)->chunks()[c].kind != ChunkKind::kValues) continue;
      const auto raw = (*trace)->read_chunk(c);
      const auto stored = (*trace)->read_stored(c);
      if (!raw.ok() || !stored.ok()) return 2;
      // What was stored by matches no longer says its item size; bfloat16 is what most of it is.
      const std::size_t item = std::max<std::size_t>(2, stored->header.item_size);
      raw_bytes += raw->size();
      add(zstd, [&] { return compressor.zstd(*raw, 1)->bytes.size(); });
      add(fast,
          [&] { return compressor.values(*raw, item, ValueCompression::kFast)->bytes.size(); });
    }
    std::printf(
        "%s: %llu bytes; zstd -1 %.3f at %.2f GB/s; default %.3f at %.2f GB/s; %.2f x speed\n",
        argv[i], static_cast<unsigned long long>(raw_bytes),
        static_cast<double>(zstd.bytes) / static_cast<double>(raw_bytes),
        static_cast<double>(raw_bytes) / zstd.seconds * 1e-9,
        static_cast<double>(fast.bytes) / static_cast<double>(raw_bytes),
        static_cast<double>(raw_bytes) / fast.seconds * 1e-9, zstd.seconds / fast.seconds);
  }
  return 0;
}
