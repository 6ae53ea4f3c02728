// Recovering what any bytes still hold: the answer is a trace, and recovering it again changes
// nothing.
#include "src/format/recover.h"
#include "src/format/trace_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

namespace {

bool recovers(const Bytes& file, Bytes& out) {
  return recover(open_memory("input", file), write_memory(&out)).ok();
}

void read_program(const TraceReader& reader) {
  ProgramReader program(reader);
  while (true) {
    const auto more = program.next();
    fuzz::require(more.ok() || more.status().code() == Code::kUnsupported,
                  "a program that was recovered can be read");
    if (!more.ok() || !*more) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes out;
  if (!recovers(fuzz::bytes_of(data, size), out)) return 0;
  const auto reader = TraceReader::open(open_memory("recovered", out));
  if (!reader.ok()) {
    fuzz::require(reader.status().code() == Code::kUnsupported, "what was recovered is a trace");
    return 0;
  }
  fuzz::require((*reader)->check_bytes().ok(), "what was recovered has no damage");
  read_program(**reader);
  Bytes again;
  fuzz::require(recovers(out, again), "what was recovered can be recovered");
  return 0;
}
