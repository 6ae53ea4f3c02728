// A whole file: everything that a reader can be asked for, then the same file cut off, then a
// search for its chunks.
#include "src/format/difference.h"
#include "src/format/recover.h"
#include "src/format/scan.h"
#include "src/format/trace_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

namespace {

void decode_chunk(ChunkKind kind, const Bytes& raw) {
  std::uint64_t first_call = 0;
  switch (kind) {
    case ChunkKind::kHeader:
      (void)decode_header(raw);
      break;
    case ChunkKind::kTiming:
      (void)decode_timing(raw, first_call);
      break;
    case ChunkKind::kValues:
      (void)decode_values(raw);
      break;
    default:
      break;  // read below
  }
}

void read_value(const TraceReader& reader, const Hash128& hash) {
  const auto size = reader.value_size(hash);
  const auto value = reader.value(hash);
  fuzz::require(!value.ok() || value->size() == size, "a value has the size that the index tells");
}

void read_everything(const Bytes& file) {
  const auto opened = TraceReader::open(open_memory("input", file));
  if (!opened.ok()) return;
  const TraceReader& reader = **opened;
  for (std::size_t i = 0; i < reader.chunks().size(); ++i) {
    const auto raw = reader.read_chunk(i);
    if (raw.ok()) decode_chunk(reader.chunks()[i].kind, *raw);
  }
  ProgramReader program(reader);
  for (auto more = program.next(); more.ok() && *more; more = program.next()) {
    for (const Write& write : program.chunk().writes) read_value(reader, write.hash);
    for (const External& external : program.chunk().externals) read_value(reader, external.hash);
  }
  (void)reader.text();
  (void)reader.timings();
  (void)reader.check_bytes();
  const auto parameters = reader.parameters();
  if (!parameters.ok()) return;
  for (const Parameter& parameter : *parameters) read_value(reader, parameter.hash);
}

void search(const Bytes& file) {
  const auto source = open_memory("input", file);
  std::uint64_t from = 0;
  while (true) {
    const auto found = find_chunk(*source, from, 0);
    fuzz::require(found.ok(), "memory can be read");
    if (!*found) return;
    fuzz::require((*found)->offset >= from && (*found)->end() <= file.size(),
                  "a chunk that is found lies in the file, where it was looked for");
    from = (*found)->end();
  }
}

// What is recovered of a file is a trace, and nothing more is found in it than was there.
void recovery(const Bytes& file) {
  Bytes out;
  const auto recovered = recover(open_memory("input", file), write_memory(&out));
  if (!recovered.ok()) return;
  const auto reader = TraceReader::open(open_memory("recovered", out));
  if (reader.ok()) {
    fuzz::require(!(*reader)->cut_at(), "a recovered file has a footer");
    const auto difference = first_difference(**reader, **reader);
    fuzz::require(!difference.ok() || !*difference, "a program is its own equal");
  }
  read_everything(out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes file = fuzz::bytes_of(data, size);
  read_everything(file);
  search(file);
  recovery(file);
  if (file.size() > kFooterSize) {
    file.resize(file.size() - kFooterSize);
    read_everything(file);
  }
  return 0;
}
