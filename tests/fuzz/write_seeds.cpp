// Writes what every target's search begins with: `write_seeds FOLDER` makes FOLDER/TARGET/NAME.
#include <cstdio>
#include <filesystem>
#include <fstream>
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
  write("file", "rich", rich);
  write("file", "rich-unpacked", unpacked(rich));
  write("file", "values", trace_of_values());
  write("file", "values-unpacked", unpacked(trace_of_values()));
  write("file", "cut", std::span(rich).first(rich.size() / 2));
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
  return 0;
}
