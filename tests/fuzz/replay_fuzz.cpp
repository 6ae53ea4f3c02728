// Two traces, one after the other (or one, against itself): the verdict, its reports, and `show`.
#include <algorithm>
#include <sstream>
#include <string_view>

#include "replayer/replay.h"
#include "replayer/report/json.h"
#include "replayer/report/show.h"
#include "replayer/report/text.h"
#include "tests/fuzz/memory_file.h"

using namespace goldentrace;

namespace {

constexpr std::string_view kEnd = "GTRCEND\n";

void show_all(const std::string& path) {
  const auto trace = TraceReader::open(path);
  if (!trace.ok()) return;
  for (const ShowWhat what :
       {ShowWhat::kSummary, ShowWhat::kCalls, ShowWhat::kTensors, ShowWhat::kParameters,
        ShowWhat::kTokens, ShowWhat::kLosses, ShowWhat::kChunks}) {
    for (const bool json : {false, true}) {
      std::ostringstream out;
      ShowOptions options;
      options.what = what;
      options.json = json;
      (void)show(**trace, options, out);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find(kEnd);
  const std::size_t first = end == input.npos ? size : end + kEnd.size();
  const fuzz::MemoryFile oracle(fuzz::bytes_of(data, first));
  const fuzz::MemoryFile other(fuzz::bytes_of(data + first, size - first));
  const std::string candidate = first == size ? oracle.path() : other.path();
  ReplayOptions options;
  options.oracle = oracle.path();
  options.candidate = candidate;
  if (const auto report = run_replay(options); report.ok()) {
    (void)text_report(*report);
    (void)json_report(*report);
  }
  show_all(candidate);
  return 0;
}
