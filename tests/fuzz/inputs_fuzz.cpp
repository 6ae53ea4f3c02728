// What `record hf` reads beside a model: token ids, a file of prompts, a file to follow.
#include "recorder/inputs.h"
#include "tests/fuzz/memory_file.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::bytes_of(data, size));
  (void)parse_token_ids({reinterpret_cast<const char*>(data), size}, "input");
  (void)read_prompts(file.path());
  (void)read_follow(file.path());
  return 0;
}
