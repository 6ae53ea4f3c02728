// Two model configurations (config.json), with a zero byte between them.
#include <string>

#include "replayer/verdict/ladder.h"
#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const std::string oracle = input.substr(0, end);
  const std::string candidate = end < size ? input.substr(end + 1) : oracle;
  (void)model_type(oracle);
  (void)compare_config(oracle, candidate);
  fuzz::require(compare_config(oracle, oracle).status != RungStatus::kDiff,
                "a configuration equals itself");
  return 0;
}
