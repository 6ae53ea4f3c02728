// Writes the golden files of this version into a folder: `make_golden FOLDER`. Files of a released
// version are never written again; this program says how they were made and makes the next
// version's. hybrid.fb, a real recording, is added by hand (README.md of the folder).
#include <flatbuffers/flatbuffers.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <span>
#include <string>

#include "src/digest/digest.h"
#include "src/format/compression.h"
#include "src/format/trace_generated.h"
#include "src/format/trace_writer.h"
#include "tests/golden/padded.h"
#include "tests/golden/written.h"
#include "tests/support/traces.h"

namespace goldentrace::testing {
namespace {

Bytes header_raw(std::uint16_t minor = kFormatMinor) {
  Header header = sample_header();
  header.major = kFormatMajor;
  header.minor = minor;
  return encode_header(header);
}

// FORMAT.md's worked example: y = x * 2 for one tensor of two bfloat16, everything stored as it is.
Bytes example() {
  Header header;
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  header.engine = "demo";
  header.dtype = "bfloat16";
  const Bytes value = {std::byte{0x00}, std::byte{0x40}, std::byte{0x40},
                       std::byte{0xc0}};  // 2, -3
  ProgramChunk chunk;
  chunk.strings = {"cpu"};
  chunk.operators = {{"aten::mul", "Tensor"}};
  chunk.scopes = {"", "scale"};
  chunk.geometries = {{{2}, {1}}};
  chunk.storages = {{4, 0}, {4, 0}};
  chunk.tensors = {{0, 0, DType::kBFloat16, 0, 0}, {1, 0, DType::kBFloat16, 0, 0}};
  chunk.ambients = {{}};
  chunk.nodes = {
      {NodeKind::kTensor, 0, 0}, {NodeKind::kWrappedInt, 0, 2}, {NodeKind::kTensor, 1, 1}};
  chunk.writes = {{1, 1, kWriteHashed | kWriteValue, hash_bytes(value)}};
  Call call;
  call.scope = 1;
  call.arguments = 2;
  call.results = 1;
  call.writes = 1;
  call.first_result = 2;
  call.end_node = 3;
  chunk.calls = {call};
  FileBuilder builder;
  builder.add(ChunkKind::kHeader, encode_header(header));
  builder.add(ChunkKind::kValues,
              encode_values(std::vector<ValuePart>{{hash_bytes(value), 4, 0, 4}}, value));
  builder.index().values.push_back({hash_bytes(value), 0, 4, 1});
  builder.add(ChunkKind::kProgram, encode_program(chunk), 0, 1);
  builder.add(ChunkKind::kSummary, encode_summary({{}, 1, 1000}));
  return builder.finish();
}

// Every codec, item size and way to lay out values.
Bytes values() {
  WriterOptions options;
  options.alone = 600;
  options.gather = 1000;
  options.max_part = 700;
  const auto fill = [](TraceWriter& writer) {
    for (const std::size_t item : {1u, 2u, 4u, 8u}) {
      for (const std::size_t count : {0u, 1u, 40u, 200u}) {
        Bytes smooth(item * count + (count == 40 ? 1 : 0));  // one that is no multiple of it
        for (std::size_t i = 0; i < smooth.size(); ++i) {
          const std::size_t at = i / item;
          smooth[i] = static_cast<std::byte>(i % item + 1 == item ? 63 + at % 3
                                                                  : at * at * 37 + i * 11 + item);
        }
        (void)writer.write_value(hash_bytes(smooth), smooth, item);
      }
    }
    const Bytes same(2000, std::byte{7});
    (void)writer.write_value(hash_bytes(same), same, 2);
  };
  return written(fill, 0, options);
}

// Planes of every item size, stored as they are, and tensors that are far apart.
Bytes far() {
  ProgramChunk chunk = rich_chunk();
  chunk.geometries.push_back({{std::int64_t{1} << 40, std::int64_t{1} << 40, 0}, {0, 0, 1}});
  chunk.tensors.push_back({3, 4, DType::kFloat64, 0, 0});
  chunk.tensors.resize(5000, chunk.tensors[0]);
  chunk.nodes[0].value = 4999;
  const std::size_t first = chunk.calls[2].first_node;  // the last call reads tensor 2: 4,997 back
  chunk.nodes[first].value = 2;
  Bytes file;
  FileBuilder builder;
  builder.add(ChunkKind::kHeader, header_raw());
  const Bytes raw = encode_program(chunk);
  Compressor compressor;
  const auto frame = compressor.zstd(raw, 9);
  builder.add_stored(ChunkKind::kProgram, frame->codec, 0,
                     {frame->bytes.begin(), frame->bytes.end()}, raw.size());
  builder.index().chunks.back().content = content_hash(raw);
  builder.index().chunks.back().calls = static_cast<std::uint32_t>(chunk.calls.size());
  const Bytes text = encode_text(sample_text());
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    Bytes stored(4 * width);
    for (std::size_t p = 0; p < width; ++p) {
      const std::size_t before = stored.size();
      for (std::size_t i = p; i < text.size(); i += width) stored.push_back(text[i]);
      stored[4 * p] = static_cast<std::byte>((stored.size() - before) & 0xff);
      stored[4 * p + 1] = static_cast<std::byte>((stored.size() - before) >> 8);
    }
    builder.add_stored(ChunkKind::kText, Codec::kZstdPlanes, static_cast<std::uint8_t>(width),
                       stored, text.size());
    builder.index().chunks.back().content = content_hash(text);
  }
  builder.add(ChunkKind::kSummary, encode_summary({{}, 3, 1}));
  return builder.finish();
}

// What another engine hands over: tensors under names, rows of two requests, tokens with logprobs.
Bytes engine() {
  ProgramChunk chunk;
  chunk.strings = {"cpu", "heads in turns, query then gate"};
  chunk.operators = {{"tensor", ""}, {"MUL_MAT", ""}};
  chunk.scopes = {"", "blk.0.attn_q", "output"};
  chunk.geometries = {{{3, 4}, {4, 1}}};
  chunk.storages = {{48, 0}, {48, 0}};
  chunk.tensors = {{0, 0, DType::kFloat32, 0, 0}, {1, 0, DType::kFloat32, 0, 0}};
  chunk.ambients = {{}};
  chunk.nodes = {{NodeKind::kTensor, 1, 0}, {NodeKind::kTensor, 1, 0}, {NodeKind::kTensor, 1, 1}};
  chunk.writes = {{0, 1, kWriteHashed, {11, 12}}, {1, 1, kWriteHashed, {13, 14}}};
  chunk.calls = {
      {.op = 0, .scope = 1, .flags = kCallForeign, .results = 1, .writes = 1, .end_node = 1},
      {.op = 1,
       .scope = 2,
       .flags = kCallForeign,
       .arguments = 1,
       .results = 1,
       .writes = 1,
       .first_node = 1,
       .end_node = 3,
       .first_result = 2,
       .first_write = 1}};
  chunk.placements = {{0, {PlacementKind::kShard, 1, 0, 2}},
                      {1, {PlacementKind::kPartialSum, 0, 0, 2}}};
  chunk.layouts = {{0, 1}};
  chunk.rows = {{0, {7, 0, 2, 30}}, {0, {8, 2, 1, 5}}};
  Text text;
  for (const std::uint32_t id : {7u, 8u}) {
    Request request;
    request.id = id;
    request.prompt_ids = {1, 2, 3};
    request.output_ids = {id};
    request.sampling = {{"forced", "true", "request"}};
    text.requests.push_back(request);
    Step step;
    step.rows = {{id, id - 7, 1, 30}};
    step.chosen = id;
    step.top_ids = {id, 4};
    step.top_logprobs = {-0.5f, -1.5f};
    step.top_pieces = {"\xe2\x82", ""};
    step.logprob = -0.5;
    step.logprob_kind = LogprobKind::kProcessed;
    text.steps.push_back(step);
  }
  Text again;  // request 8 once more, fuller
  again.requests = {text.requests[1]};
  again.requests[0].output = "\xe2\x82\xac";
  again.requests[0].finish_reason = "length";
  const auto fill = [&](TraceWriter& writer) {
    (void)writer.write_program(chunk);
    (void)writer.write_text(text);
    (void)writer.write_text(again);
  };
  return written(fill, 2);
}

// Three tensors with the digests that FORMAT.md's vectors of `sketch` have: one with all three, one
// without a sketch, one without stats.
Bytes sketches() {
  std::vector<float> fractions;
  for (int i = 0; i < 5000; ++i) fractions.push_back(1.0F / static_cast<float>(i + 1));
  const std::vector<std::uint16_t> halves = {0x3f80, 0xbf80, 0x0000, 0x8000, 0x0001, 0x7f80,
                                             0xff80, 0x7fc0, 0xff7f, 0x714a, 0x4049, 0x3eab};
  ProgramChunk chunk;
  chunk.strings = {"cpu"};
  chunk.operators = {{"tensor", ""}};
  chunk.scopes = {"", "fractions", "no sketch", "no stats"};
  chunk.geometries = {{{50, 100}, {100, 1}}, {{12}, {1}}};
  chunk.storages = {{20000, 0}, {24, 0}, {24, 0}};
  chunk.tensors = {{0, 0, DType::kFloat32, 0, 0},
                   {1, 1, DType::kBFloat16, 0, 0},
                   {2, 1, DType::kBFloat16, 0, 0}};
  chunk.ambients = {{}};
  const std::uint8_t flags[] = {kWriteHashed | kWriteStats | kWriteSketch,
                                kWriteHashed | kWriteStats, kWriteHashed | kWriteSketch};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto* data = i == 0 ? reinterpret_cast<const std::byte*>(fractions.data())
                              : reinterpret_cast<const std::byte*>(halves.data());
    const Geometry& geometry = chunk.geometries[chunk.tensors[i].geometry];
    const Digest digest =
        digest_tensor({data, chunk.tensors[i].dtype, geometry.sizes, geometry.strides},
                      {.stats = true, .sketch = true});
    Write write{.tensor = i, .version = 1, .flags = flags[i], .hash = digest.hash};
    if ((flags[i] & kWriteStats) != 0) {
      write.stats_index = static_cast<std::uint32_t>(chunk.stats.size());
      chunk.stats.push_back(digest.stats);
    }
    if ((flags[i] & kWriteSketch) != 0) {
      write.sketch_index = static_cast<std::uint32_t>(chunk.sketches.size());
      chunk.sketches.push_back(digest.sketch);
    }
    chunk.writes.push_back(write);
    chunk.nodes.push_back({NodeKind::kTensor, 1, i});
    chunk.calls.push_back({.scope = i + 1,
                           .flags = kCallForeign,
                           .results = 1,
                           .writes = 1,
                           .first_node = i,
                           .end_node = i + 1,
                           .first_result = i,
                           .first_write = i});
  }
  return written([&](TraceWriter& writer) { (void)writer.write_program(chunk); }, 3);
}

// y = x * 2, z = -y, and -z without a digest: y is stored once more before the call that reads it.
Bytes repeated() {
  const std::vector<float> x = {1, -2, 0.5F, 3};
  const std::vector<float> y = {2, -4, 1, 6};
  const std::vector<float> z = {-2, 4, -1, -6};
  const auto bytes = [](const std::vector<float>& v) { return std::as_bytes(std::span(v)); };
  ProgramChunk chunk;
  chunk.strings = {"cpu"};
  chunk.operators = {{"aten::mul", "Tensor"}, {"aten::neg", ""}};
  chunk.scopes = {"", "double", "negate"};
  chunk.geometries = {{{4}, {1}}};
  chunk.storages.resize(4, {16, 0});
  for (std::uint32_t i = 0; i < 4; ++i) chunk.tensors.push_back({i, 0, DType::kFloat32, 0, 0});
  chunk.ambients = {{}};
  chunk.nodes = {{NodeKind::kTensor, 1, 0}, {NodeKind::kWrappedInt, 0, 2},
                 {NodeKind::kTensor, 1, 1}, {NodeKind::kTensor, 2, 1},
                 {NodeKind::kTensor, 1, 2}, {NodeKind::kTensor, 1, 2},
                 {NodeKind::kTensor, 1, 3}};
  chunk.writes = {{1, 1, kWriteHashed, hash_bytes(bytes(y))},
                  {2, 1, kWriteHashed | kWriteValue, hash_bytes(bytes(z))},
                  {3, 1, 0, {}}};
  chunk.externals = {{0, 0, 1, ExternalKind::kFirstRead, hash_bytes(bytes(x))},
                     {1, 1, 2, ExternalKind::kRepeated, hash_bytes(bytes(y))}};
  chunk.calls = {{.op = 0,
                  .scope = 1,
                  .arguments = 2,
                  .results = 1,
                  .writes = 1,
                  .end_node = 3,
                  .first_result = 2},
                 {.op = 1,
                  .scope = 2,
                  .arguments = 1,
                  .results = 1,
                  .writes = 1,
                  .first_node = 3,
                  .end_node = 5,
                  .first_result = 4,
                  .first_write = 1},
                 {.op = 1,
                  .scope = 2,
                  .step = 1,
                  .arguments = 1,
                  .results = 1,
                  .writes = 1,
                  .first_node = 5,
                  .end_node = 7,
                  .first_result = 6,
                  .first_write = 2}};
  chunk.timings = {{0, 1234, 567}, {0, 2345, 678}, {0, 4000, 1000}};
  return written(
      [&](TraceWriter& writer) {
        for (const auto& value : {x, y, z}) {
          (void)writer.write_value(hash_bytes(bytes(value)), bytes(value), sizeof(float));
        }
        (void)writer.write_program(chunk);
      },
      3);
}

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  void good(const std::string& name, const Bytes& file) { write(name, file); }
  // `rule` is the number in FORMAT.md's list of what must be refused; 0 is "not supported".
  void bad(const std::string& name, int rule, const Bytes& file) {
    write("bad/" + name, file);
    list_ += name + " " + (rule == 0 ? "unsupported" : "corrupt " + std::to_string(rule)) + "\n";
  }
  void finish() { write("bad/list.txt", to_bytes(list_)); }

 private:
  void write(const std::string& name, const Bytes& file) {
    std::ofstream out(path_ + "/" + name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(file.data()),
              static_cast<std::streamsize>(file.size()));
    if (!out.flush()) {
      std::fprintf(stderr, "make_golden: can't write %s/%s\n", path_.c_str(), name.c_str());
      std::exit(2);
    }
  }
  std::string path_;
  std::string list_;
};

Bytes with_byte(Bytes file, std::size_t at, int value) {
  file[at] = static_cast<std::byte>(value);
  return file;
}

void bad_containers(Folder& folder) {
  const Bytes good = make_trace(0);
  folder.bad("wrong-magic.fb", 1, with_byte(good, 0, 0x88));
  folder.bad("text-mode.fb", 1, to_bytes("\x89GTRC\n\x1a\x01 and more"));
  folder.bad("version-0.fb", 1, with_byte(good, 8, 0));
  folder.bad("version-2.fb", 0, with_byte(good, 8, 2));
  folder.bad("reserved-in-file-header.fb", 1, with_byte(good, 12, 1));
  folder.bad("only-a-file-header.fb", 2, Bytes(good.begin(), good.begin() + 16));
  folder.bad("cut-in-the-first-chunk.fb", 2, Bytes(good.begin(), good.begin() + 60));
  folder.bad("first-chunk-damaged.fb", 5, with_byte(good, 70, 0xff));
  folder.bad("minor-version-differs.fb", 8, with_byte(good, 10, 1));
  Bytes moved = good;
  const FooterBytes footer = encode_footer(16);
  std::copy(footer.begin(), footer.end(), moved.end() - kFooterSize);
  folder.bad("footer-points-elsewhere.fb", 3, moved);
}

// Checksums are right in what follows; something else is wrong.
struct Draft {
  std::vector<std::pair<ChunkKind, Bytes>> chunks;
  std::function<void(Index&)> change = [](Index&) {};
  std::function<void(FileBuilder&)> more = [](FileBuilder&) {};
  [[nodiscard]] Bytes file() const {
    FileBuilder builder;
    builder.add(ChunkKind::kHeader, header_raw());
    for (const auto& [kind, raw] : chunks) {
      const bool program = kind == ChunkKind::kProgram;
      builder.add(kind, raw, 0,
                  program ? static_cast<std::uint32_t>(
                                decode_program(raw).ok() ? decode_program(raw)->calls.size() : 0)
                          : 0);
    }
    more(builder);
    builder.add(ChunkKind::kSummary, encode_summary({}));
    change(builder.index());
    return builder.finish();
  }
};

void bad_indexes(Folder& folder) {
  const Draft base{{{ChunkKind::kProgram, encode_program(rich_chunk())}}};
  const auto with = [&](const std::function<void(Index&)>& change) {
    Draft draft = base;
    draft.change = change;
    return draft.file();
  };
  folder.bad("index-with-a-gap.fb", 6, with([](Index& i) { ++i.chunks[1].offset; }));
  folder.bad("index-without-a-chunk.fb", 6,
             with([](Index& i) { i.chunks.erase(i.chunks.begin() + 1); }));
  folder.bad("index-of-another-kind.fb", 6,
             with([](Index& i) { i.chunks[1].kind = ChunkKind::kText; }));
  folder.bad("index-of-another-size.fb", 6, with([](Index& i) { ++i.chunks[1].raw_size; }));
  folder.bad("content-hash.fb", 5, with([](Index& i) { ++i.chunks[1].content.high; }));
  folder.bad("number-of-calls.fb", 10, with([](Index& i) { --i.chunks[1].calls; }));
  Draft headers = base;
  headers.more = [](FileBuilder& b) { b.add(ChunkKind::kHeader, header_raw()); };
  folder.bad("two-headers.fb", 7, headers.file());
  Draft summaries = base;
  summaries.more = [](FileBuilder& b) { b.add(ChunkKind::kSummary, encode_summary({})); };
  folder.bad("two-summaries.fb", 7, summaries.file());
  Draft indexes = base;
  indexes.more = [](FileBuilder& b) { b.add(ChunkKind::kIndex, encode_index({})); };
  folder.bad("two-indexes.fb", 7, indexes.file());
}

void bad_values(Folder& folder) {
  const Bytes data = to_bytes("firstend");
  const auto file = [&](std::vector<ValuePart> parts, std::vector<ValueEntry> entries) {
    Draft draft{{{ChunkKind::kValues, encode_values(parts, data)}}};
    draft.change = [entries](Index& index) { index.values = entries; };
    return draft.file();
  };
  const Hash128 a = hash_bytes(to_bytes("first"));
  const Hash128 b = hash_bytes(to_bytes("end"));
  const bool ordered = a < b;
  const std::vector<ValueEntry> good = {{ordered ? a : b, 0, ordered ? 5u : 3u, 1},
                                        {ordered ? b : a, 0, ordered ? 3u : 5u, 1}};
  folder.bad("values-out-of-order.fb", 10, file({{a, 5, 0, 5}, {b, 3, 0, 3}}, {good[1], good[0]}));
  folder.bad("value-in-no-values-chunk.fb", 10,
             file({{a, 5, 0, 5}, {b, 3, 0, 3}}, {{good[0].hash, 0, good[0].length, 0}}));
  folder.bad("value-bytes-of-nobody.fb", 10, file({{a, 5, 0, 5}}, {{a, 0, 5, 1}}));
  folder.bad("value-part-outside.fb", 10, file({{a, 5, 1, 5}, {b, 3, 0, 3}}, good));
  folder.bad("value-part-missing.fb", 10, file({{a, 9, 0, 5}, {b, 3, 0, 3}}, good));
  folder.bad("value-elsewhere.fb", 10, file({{{1, 1}, 5, 0, 5}, {b, 3, 0, 3}}, good));
  folder.bad("value-of-another-hash.fb", 10,
             file({{{1, 1}, 5, 0, 5}, {{1, 2}, 3, 0, 3}}, {{{1, 1}, 0, 5, 1}, {{1, 2}, 0, 3, 1}}));
}

void bad_codecs(Folder& folder) {
  const auto file = [](Codec codec, std::uint8_t item, const Bytes& stored, std::size_t raw) {
    Draft draft;
    draft.more = [=](FileBuilder& b) { b.add_stored(ChunkKind::kText, codec, item, stored, raw); };
    return draft.file();
  };
  const Bytes raw = encode_text(sample_text());
  Compressor compressor;
  const auto frame = compressor.zstd(raw, 3);
  const Bytes stored(frame->bytes.begin(), frame->bytes.end());
  Bytes twice = stored;
  twice.insert(twice.end(), stored.begin(), stored.end());
  folder.bad("codec-of-the-future.fb", 0, file(static_cast<Codec>(3), 0, raw, raw.size()));
  folder.bad("zstd-of-another-size.fb", 5, file(Codec::kZstd, 0, stored, raw.size() + 1));
  folder.bad("zstd-two-frames.fb", 5, file(Codec::kZstd, 0, twice, 2 * raw.size()));
  folder.bad("item-size-without-planes.fb", 5, file(Codec::kNone, 2, raw, raw.size()));
  const Bytes planes = to_bytes(std::string_view("\x02\0\0\0\x02\0\0\0acbd", 12));
  folder.bad("planes-of-three.fb", 5, file(Codec::kZstdPlanes, 3, planes, 4));
  folder.bad("planes-too-long.fb", 5, file(Codec::kZstdPlanes, 2, planes, 3));
  folder.bad("planes-left-over.fb", 5, file(Codec::kZstdPlanes, 1, planes, 2));
}

void bad_programs(Folder& folder) {
  const auto file = [](const std::function<void(ProgramChunk&)>& change) {
    ProgramChunk chunk = rich_chunk();
    change(chunk);
    Draft draft;
    const Bytes raw = encode_program(chunk);
    draft.more = [&](FileBuilder& b) {
      b.add(ChunkKind::kProgram, raw, 0, static_cast<std::uint32_t>(chunk.calls.size()));
    };
    return draft.file();
  };
  folder.bad("undefined-tensor.fb", 10, file([](ProgramChunk& c) { c.nodes[0].value = 6; }));
  folder.bad("undefined-scope.fb", 10, file([](ProgramChunk& c) { c.calls[0].scope = 3; }));
  folder.bad("undefined-operator.fb", 10, file([](ProgramChunk& c) { c.calls[0].op = 9; }));
  folder.bad("undefined-layout.fb", 10, file([](ProgramChunk& c) { c.layouts[0].text = 5; }));
  folder.bad("placement-of-nothing.fb", 10,
             file([](ProgramChunk& c) { c.placements[0].tensor = 6; }));
  folder.bad("shard-beyond-count.fb", 10,
             file([](ProgramChunk& c) { c.placements[0].placement.index = 4; }));
  folder.bad("summand-beyond-count.fb", 10, file([](ProgramChunk& c) {
               c.placements[0].placement = {PlacementKind::kPartialSum, 0, 2, 2};
             }));
  folder.bad("tensor-outside-storage.fb", 10,
             file([](ProgramChunk& c) { c.tensors[0].offset = 1; }));
  folder.bad("negative-size.fb", 10, file([](ProgramChunk& c) { c.geometries[1].sizes[0] = -2; }));
  folder.bad("negative-stride-of-nothing.fb", 10,
             file([](ProgramChunk& c) { c.geometries[3].strides[0] = -1; }));
  folder.bad("chunk-missing.fb", 10, file([](ProgramChunk& c) { c.base.strings = 1; }));
  folder.bad("more-nodes-than-calls.fb", 10,
             file([](ProgramChunk& c) { c.calls[0].arguments = 1; }));
  folder.bad("fewer-nodes-than-calls.fb", 10,
             file([](ProgramChunk& c) { c.calls[2].arguments = 2; }));
  folder.bad("negative-list.fb", 10, file([](ProgramChunk& c) { c.nodes[13].value = -1; }));
  folder.bad("sketch-missing.fb", 10, file([](ProgramChunk& c) { c.sketches.pop_back(); }));
  folder.bad("sketch-left-over.fb", 10, file([](ProgramChunk& c) { c.sketches.emplace_back(); }));
  folder.bad("externals-out-of-order.fb", 10,
             file([](ProgramChunk& c) { std::swap(c.externals[0], c.externals[1]); }));
  folder.bad("external-too-late.fb", 10, file([](ProgramChunk& c) { c.externals[1].call = 4; }));
  folder.bad("external-of-the-future.fb", 0,
             file([](ProgramChunk& c) { c.externals[1].kind = static_cast<ExternalKind>(3); }));
  folder.bad("dtype-of-the-future.fb", 0,
             file([](ProgramChunk& c) { c.tensors[0].dtype = static_cast<DType>(40); }));
  folder.bad("node-of-the-future.fb", 0,
             file([](ProgramChunk& c) { c.nodes[3].kind = static_cast<NodeKind>(17); }));
  folder.bad("placement-of-the-future.fb", 0, file([](ProgramChunk& c) {
               c.placements[0].placement.kind = static_cast<PlacementKind>(3);
             }));
}

// Our own encoder writes whole sketches only.
void bad_sketch(Folder& folder) {
  wire::ProgramT program;
  flatbuffers::GetRoot<wire::Program>(encode_program(rich_chunk()).data())->UnPackTo(&program);
  program.write_sketch.pop_back();
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::Program::Pack(builder, &program));
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  Draft draft;
  draft.more = [&](FileBuilder& b) {
    b.add(ChunkKind::kProgram, {begin, begin + builder.GetSize()}, 0, 3);
  };
  folder.bad("sketch-cut.fb", 10, draft.file());
}

void bad_tables(Folder& folder) {
  const auto file = [](ChunkKind kind, const Bytes& raw) { return Draft{{{kind, raw}}}.file(); };
  for (const auto& [kind, name] : {std::pair{ChunkKind::kTiming, "timing"},
                                   {ChunkKind::kParameters, "parameters"},
                                   {ChunkKind::kText, "text"},
                                   {ChunkKind::kValues, "values"}}) {
    folder.bad(std::string("no-flatbuffer-") + name + ".fb", 9,
               file(kind, to_bytes("\x99\x99\x99\x99 no table at all")));
  }
  Text text = sample_text();
  text.steps[0].top_logits.pop_back();
  folder.bad("top-lengths-differ.fb", 10, file(ChunkKind::kText, encode_text(text)));
  text = sample_text();
  text.steps[0].rows.push_back({4, 1, 1, 0});
  folder.bad("rows-of-two-requests.fb", 10, file(ChunkKind::kText, encode_text(text)));
  text = sample_text();
  text.steps[0].rows[0].position = std::numeric_limits<std::int64_t>::max();
  folder.bad("rows-past-the-last-position.fb", 10, file(ChunkKind::kText, encode_text(text)));
  text = sample_text();
  text.steps[0].logprob_kind = static_cast<LogprobKind>(2);
  folder.bad("logprob-of-the-future.fb", 0, file(ChunkKind::kText, encode_text(text)));
  std::vector<Parameter> parameters = sample_parameters();
  parameters[0].sources.clear();
  const auto parameters_file = [](const std::vector<Parameter>& entries) {
    return Draft{{{ChunkKind::kProgram, encode_program(rich_chunk())},
                  {ChunkKind::kParameters, encode_parameters(entries)}}}
        .file();
  };
  folder.bad("recipe-without-source.fb", 10, parameters_file(parameters));
  parameters = sample_parameters();
  parameters[0].tensor = 6;
  folder.bad("parameter-of-no-tensor.fb", 10, parameters_file(parameters));
  parameters = sample_parameters();
  parameters[0].recipe = static_cast<Recipe>(7);
  folder.bad("recipe-of-the-future.fb", 0, parameters_file(parameters));
  text = sample_text();
  text.requests[0].prompt_pieces.pop_back();
  folder.bad("pieces-fewer-than-ids.fb", 10, file(ChunkKind::kText, encode_text(text)));
  ProgramChunk late = rich_chunk();
  late.base.calls = 2;
  Draft timings{{{ChunkKind::kProgram, encode_program(rich_chunk())}}};
  timings.more = [&](FileBuilder& b) { b.add(ChunkKind::kTiming, encode_timing(late), 2, 3); };
  folder.bad("timing-gap.fb", 10, timings.file());
}

void bad_bands(Folder& folder) {
  const auto file = [](const std::vector<Bands>& all) {
    Draft draft{{{ChunkKind::kProgram, encode_program(rich_chunk())}}};
    draft.more = [&](FileBuilder& b) {
      for (const Bands& bands : all) b.add(ChunkKind::kBands, encode_bands(bands));
    };
    return draft.file();
  };
  folder.bad("bands-uneven.fb", 10, file({{0, {1, 2}, {1}}}));
  folder.bad("band-below-zero.fb", 10, file({{0, {-1}, {1}}}));
  folder.bad("band-typical-above-largest.fb", 10, file({{0, {2}, {1}}}));
  folder.bad("band-infinite.fb", 10, file({{0, {1}, {std::numeric_limits<float>::infinity()}}}));
  folder.bad("bands-out-of-order.fb", 10, file({{1, {1}, {1}}, {1, {1}, {1}}}));
}

int make(const std::string& path) {
  Folder folder(path);
  FileBuilder least;
  least.add(ChunkKind::kHeader, header_raw());
  least.add(ChunkKind::kSummary, encode_summary({}));
  folder.good("least.fb", least.finish());
  folder.good("example.fb", example());
  const Bytes program = make_trace(2);
  folder.good("program.fb", program);
  folder.good("values.fb", values());
  folder.good("engine.fb", engine());
  folder.good("far.fb", far());
  folder.good("padded.fb", padded());
  folder.good("sketch.fb", sketches());
  folder.good("repeated.fb", repeated());
  folder.good("bands.fb", bands());
  folder.good("cut.fb", Bytes(program.begin(), program.end() - 700));
  folder.good("no-footer.fb", Bytes(program.begin(), program.end() - 24));
  bad_containers(folder);
  bad_indexes(folder);
  bad_values(folder);
  bad_codecs(folder);
  bad_programs(folder);
  bad_sketch(folder);
  bad_tables(folder);
  bad_bands(folder);
  folder.finish();
  return 0;
}

}  // namespace
}  // namespace goldentrace::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_golden FOLDER\n", stderr);
    return 2;
  }
  return goldentrace::testing::make(argv[1]);
}
