// One safetensors file; and the same bytes as the index of a folder.
#include <algorithm>

#include "src/format/safetensors.h"
#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto checkpoint = Checkpoint::open(open_memory("input", fuzz::bytes_of(data, size)));
  if (checkpoint.ok()) {
    for (const auto& [name, entry] : checkpoint->entries()) {
      Bytes tensor(entry.bytes);
      fuzz::require(checkpoint->read(entry, tensor).ok(), "every tensor lies in its file");
    }
  }
  const auto names = shard_names("input", {reinterpret_cast<const char*>(data), size});
  if (names.ok()) {
    fuzz::require(std::ranges::none_of(*names,
                                       [](const std::string& name) {
                                         return name.empty() || name.find('/') != name.npos;
                                       }),
                  "shards lie beside their index");
  }
  return 0;
}
