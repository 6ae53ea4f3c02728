// Writes the inputs of the corpora that have a name: what every target's search begins with, and
// what showed a fault once. `write_seeds FOLDER` makes FOLDER/TARGET/NAME.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "src/digest/digest.h"
#include "src/format/trace_writer.h"
#include "tests/fuzz/trace_parts.h"
#include "tests/support/run_trace.h"
#include "tests/support/traces.h"

using namespace goldentrace;

namespace {

std::filesystem::path folder;

void write(const std::string& target, const std::string& name, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(folder / target);
  std::ofstream file(folder / target / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write(const std::string& target, const std::string& name, std::string_view text) {
  write(target, name, std::as_bytes(std::span(text)));
}

// Every chunk stored as it is, so that mutations reach what is in it.
Bytes unpacked(const Bytes& file) {
  std::vector<fuzz::Part> parts = fuzz::take_apart(file);
  for (fuzz::Part& part : parts) part = fuzz::plain_part(part.header.kind, fuzz::raw_of(part));
  return fuzz::put_together(parts);
}

Bytes joined(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Bytes bytes_of_floats(std::size_t count) {
  return testing::dense_of(DType::kFloat32, testing::numbers(1, count));
}

// Values in parts, alone and together, of items of several sizes.
Bytes trace_of_values() {
  Bytes file;
  WriterOptions options;
  options.alone = 300;
  options.max_part = 500;
  auto writer = TraceWriter::create(write_memory(&file), testing::sample_header(), options);
  for (const std::size_t count : {0u, 3u, 20u, 100u, 400u}) {
    const Bytes value = bytes_of_floats(count);
    (void)(*writer)->write_value(hash_bytes(value), value, count == 20 ? 1 : 4);
  }
  (void)(*writer)->close({});
  return file;
}

void write_tables() {
  ProgramChunk next = testing::next_chunk(testing::rich_chunk().next_base());
  write("header", "sample", encode_header(testing::sample_header()));
  write("header", "empty", encode_header({}));
  write("program", "rich", encode_program(testing::rich_chunk()));
  write("program", "empty", encode_program({}));
  write("program", "next", encode_program(next));
  write("timing", "three", encode_timing(testing::rich_chunk()));
  write("timing", "next", encode_timing(next));
  write("parameters", "sample", encode_parameters(testing::sample_parameters()));
  write("text", "sample", encode_text(testing::sample_text()));
  write("text", "empty", encode_text({}));
  write("summary", "sample", encode_summary(testing::sample_summary(3)));
  const std::vector<ValuePart> parts = {{{1, 1}, 3, 0, 3}, {{2, 1}, 9, 4, 5}, {{3, 1}, 0, 0, 0}};
  write("values", "three", encode_values(parts, Bytes(8)));
  const auto of_values = fuzz::take_apart(trace_of_values());
  write("index", "values", encode_index(fuzz::index_of(of_values)));
  write("index", "rich", encode_index(fuzz::index_of(fuzz::take_apart(testing::make_trace(1)))));
}

void write_chunks() {
  int number = 0;
  for (const Bytes& file : {testing::make_trace(0), trace_of_values()}) {
    for (const fuzz::Part& part : fuzz::take_apart(file)) {
      Bytes chunk = joined({}, Bytes(kChunkHeaderSize));
      const ChunkHeaderBytes header = encode_chunk_header(part.header);
      std::copy(header.begin(), header.end(), chunk.begin());
      write("chunk_header", "chunk-" + std::to_string(number++), joined(chunk, part.stored));
    }
  }
  write("chunk_header", "file", testing::make_trace(0));
}

void write_files() {
  const Bytes rich = testing::make_trace(1);
  for (const char* target : {"file", "recover", "tools", "c_reader"}) {
    write(target, "rich", rich);
    write(target, "rich-unpacked", unpacked(rich));
    write(target, "values-unpacked", unpacked(trace_of_values()));
    write(target, "cut", std::span(rich).first(rich.size() / 2));
  }
  write("file", "values", trace_of_values());
  write("file", "nothing", fuzz::put_together({}));
}

Bytes run_file(const testing::TempFolder& temporary, const testing::MadeRun& run) {
  const auto source = open_file(testing::write_run(temporary, "run", run));
  Bytes file((*source)->size());
  (void)(*source)->read(0, file);
  return unpacked(file);
}

void write_runs() {
  const testing::TempFolder temporary;
  for (const auto& [name, keep] : {std::pair{"hash", testing::Keep::kHash},
                                   {"stats", testing::Keep::kStats},
                                   {"values", testing::Keep::kValues}}) {
    testing::MadeRun run = testing::sample_run(2, 3, keep);
    const Bytes oracle = run_file(temporary, run);
    write("replay", std::string("same-") + name, oracle);
    testing::disturb(testing::values_of(run, 1, 1), 0.5);
    run.text.steps[1].chosen = 7;
    run.header.model_config = R"({"model_type": "tiny", "hidden_size": 33})";
    write("replay", std::string("other-") + name, joined(oracle, run_file(temporary, run)));
  }
  write("replay", "rich", unpacked(testing::make_trace(1)));
}

void write_json() {
  using namespace std::string_literals;
  const std::string entries =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("b":{"dtype":"I64","shape":[],"data_offsets":[12,20]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(entries.size());
  write("safetensors", "two", length + entries + std::string(20, 'x'));
  write("safetensors", "index", R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  write("config", "same", R"({"model_type":"tiny","hidden_size":64,"rope":{"theta":1e6}})");
  write("config", "two",
        R"({"model_type":"a","layers":["x",{"y":[1,2]}],"dtype":"bfloat16"})"
        "\0"
        R"({"model_type":"b","layers":["x"],"rope":{"theta":null}})"s);
  write("inputs", "prompts",
        R"({"prompt":"Hello","id":"one","max_new_tokens":4})"
        "\n"
        R"({"prompt_ids":[1,2,3],"output_ids":[4]})");
  write("inputs", "ids", "1, 2 3\n4");
  write("inputs", "text", "Once upon a time");
  write("inputs", "trace", testing::make_trace(0));
}

// ---- what showed a fault ------------------------------------------------------------------------

// The index promises values of gigabytes, which were allocated before a chunk was looked at.
void write_values_that_lie() {
  const auto parts = fuzz::take_apart(unpacked(testing::make_trace(0)));
  Index index = fuzz::index_of(parts);
  index.values[0].length = 200u << 20;
  write("file", "value-larger-than-its-chunk", fuzz::put_together(parts, encode_index(index)));
  write("index", "value-larger-than-its-chunk", encode_index(index));
  const ValueEntry first = index.values[0];
  for (std::uint64_t i = 1; i < 100; ++i) {
    index.values.push_back({first.hash, i * first.length, first.length, first.chunk});
  }
  write("file", "value-of-many-parts", fuzz::put_together(parts, encode_index(index)));
  index = fuzz::index_of(parts);
  index.values[0].offset = 5;
  write("index", "value-without-beginning", encode_index(index));
}

// 256 MiB were allocated for a chunk of a few bytes.
void write_frames_that_lie() {
  for (const auto& [name, codec] :
       {std::pair{"zstd-of-256-MiB", Codec::kZstd}, {"planes-of-256-MiB", Codec::kZstdPlanes}}) {
    ChunkHeader header{ChunkKind::kValues, codec,
                       codec == Codec::kZstd ? std::uint8_t{0} : std::uint8_t{2}};
    header.stored_size = 12;
    header.raw_size = kMaxChunkSize;
    const ChunkHeaderBytes bytes = encode_chunk_header(header);
    Bytes chunk(bytes.begin(), bytes.end());
    chunk.resize(chunk.size() + header.stored_size);
    write("chunk_header", name, chunk);
  }
}

// Recovered files kept a header that nothing could read, and room was asked for 2^64 timings.
void write_recoveries() {
  auto parts = fuzz::take_apart(unpacked(testing::make_trace(0)));
  const fuzz::Part header = parts[0];
  parts[0] = fuzz::plain_part(ChunkKind::kHeader, Bytes(20));
  write("recover", "header-that-is-no-table", fuzz::put_together(parts));
  Header other = testing::sample_header();
  other.major = kFormatMajor + 1;
  parts[0] = fuzz::plain_part(ChunkKind::kHeader, encode_header(other));
  write("recover", "header-of-another-version", fuzz::put_together(parts));
  ProgramChunk late;
  late.base.calls = std::numeric_limits<std::uint64_t>::max() - 1;
  late.timings.resize(3);
  parts[0] = header;
  parts.push_back(fuzz::plain_part(ChunkKind::kTiming, encode_timing(late)));
  write("recover", "timings-past-every-number", fuzz::put_together(parts));
}

// Every marker made the search read the next megabyte.
void write_markers() {
  std::string markers;
  for (int i = 0; i < 1000; ++i) markers += "GTCK";
  write("file", "markers", markers);
}

void write_programs_that_lie() {
  ProgramChunk chunk = testing::rich_chunk();
  for (std::size_t i = 0; i < chunk.nodes.size(); ++i) {
    // Its second child may be anything, as far as the encoder goes.
    if (chunk.nodes[i].kind == NodeKind::kComplex) chunk.nodes[i + 2] = {NodeKind::kInt, 0, 1};
  }
  write("program", "complex-of-double-and-int", encode_program(chunk));
  chunk = testing::rich_chunk();
  chunk.rows = {{5, {0, 0, 2, std::numeric_limits<std::int64_t>::max()}}};
  write("program", "rows-past-the-last-position", encode_program(chunk));
}

// Logits were looked for beside ids that have none; the last position overflowed.
void write_steps_that_lie() {
  const testing::TempFolder temporary;
  testing::MadeRun run = testing::sample_run(2, 1, testing::Keep::kHash);
  for (Step& step : run.text.steps) {
    step.top_logits.clear();
    step.logits_rms = 1;
  }
  const Bytes oracle = run_file(temporary, run);
  run.text.steps[1].chosen = 7;
  write("replay", "steps-without-logits", joined(oracle, run_file(temporary, run)));
  run.text.steps[1].rows = {{0, 0, 2, std::numeric_limits<std::int64_t>::max()}};
  write("replay", "rows-past-the-last-position", run_file(temporary, run));
  run.text.steps[1].rows = {{0, 0, 0, std::numeric_limits<std::int64_t>::min()}};
  write("replay", "rows-before-the-first-position", run_file(temporary, run));
}

// Showing a value of this depth ran the stack out.
void write_nested_json() {
  const std::string deep = std::string(4000, '[') + std::string(4000, ']');
  write("inputs", "nested", R"({"prompt_ids":[)" + deep + "]}");
  write("config", "nested", R"({"a":[)" + deep + "]}");
  write("safetensors", "nested", R"({"weight_map":{},"__metadata__":)" + deep + "}");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_seeds FOLDER\n");
    return 2;
  }
  folder = argv[1];
  write_tables();
  write_chunks();
  write_files();
  write_runs();
  write_json();
  write_values_that_lie();
  write_frames_that_lie();
  write_recoveries();
  write_markers();
  write_programs_that_lie();
  write_steps_that_lie();
  write_nested_json();
  return 0;
}
