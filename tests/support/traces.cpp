#include "tests/support/traces.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "src/digest/digest.h"
#include "src/format/trace_reader.h"
#include "src/format/trace_writer.h"

namespace goldentrace::testing {
namespace {

std::int64_t bits(double value) { return std::bit_cast<std::int64_t>(value); }

// Appends calls to a chunk; nodes and writes are added between begin() and end().
class CallMaker {
 public:
  explicit CallMaker(ProgramChunk& chunk) : chunk_(chunk) {}

  void begin(Call call) {
    call_ = call;
    call_.first_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    call_.first_write = static_cast<std::uint32_t>(chunk_.writes.size());
  }
  void node(NodeKind kind, std::int64_t value, std::uint32_t version = 0) {
    chunk_.nodes.push_back({kind, version, value});
  }
  void results() { call_.first_result = static_cast<std::uint32_t>(chunk_.nodes.size()); }
  void write(std::uint32_t tensor, std::uint32_t version, unsigned flags, Hash128 hash = {}) {
    Write write{tensor, version, static_cast<std::uint8_t>(flags), hash};
    if ((flags & kWriteStats) != 0) {
      write.stats_index = static_cast<std::uint32_t>(chunk_.stats.size());
      chunk_.stats.push_back({12, 1, 1, 1, 2, 2, -1.0, 0.5, 0.1, 2.3});
    }
    if ((flags & kWriteSketch) != 0) {
      write.sketch_index = static_cast<std::uint32_t>(chunk_.sketches.size());
      Sketch& sketch = chunk_.sketches.emplace_back();
      for (std::size_t i = 0; i < sketch.size(); ++i) {
        sketch[i] = (static_cast<float>(i) - 31.5F) / static_cast<float>(chunk_.sketches.size());
      }
    }
    chunk_.writes.push_back(write);
    ++call_.writes;
  }
  void end() {
    call_.end_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    chunk_.calls.push_back(call_);
  }

 private:
  ProgramChunk& chunk_;
  Call call_;
};

void define(ProgramChunk& chunk) {
  using namespace std::string_literals;
  chunk.strings = {"cpu", "cuda:0", "mean", "", "a hook object"};
  chunk.operators = {{"aten::mul", "Tensor"}, {"aten::linear", ""}, {"aten::cat", ""}};
  chunk.scopes = {"", "model.layers.0.mlp", "scope with a zero \0 byte"s};
  chunk.geometries = {{{}, {}}, {{2, 3}, {3, 1}}, {{3, 2}, {1, 3}}, {{0, 5}, {5, 1}}};
  chunk.storages = {{24, 0}, {4, 0}, {16, 1}, {0, 0}, {12, 0}};
  chunk.tensors = {{0, 1, DType::kFloat32, 0, 0},
                   {1, 0, DType::kFloat32, kTensorWrappedNumber, 0},
                   {2, 0, DType::kComplex64, kTensorConjugate | kTensorNegative, 1},
                   {3, 3, DType::kBFloat16, 0, 0},
                   {0, 2, DType::kFloat32, 0, 0},
                   {4, 1, DType::kBFloat16, 0, 0}};
  chunk.ambients = {{}, {true, true, true, true, DType::kFloat16, DType::kFloat64, "highest", 8}};
}

void external_inputs(ProgramChunk& chunk) {
  chunk.externals = {
      {0, 0, 0, ExternalKind::kFirstRead, {1, 2}},
      {2, 2, 3, ExternalKind::kHole, {std::numeric_limits<std::uint64_t>::max(), 4}}};
}

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// Decodes chunk `i` by its kind.
Status decode_chunk(const TraceReader& reader, std::size_t i) {
  const auto raw = reader.read_chunk(i);
  if (!raw.ok()) return raw.status();
  std::uint64_t first_call = 0;
  switch (reader.chunks()[i].kind) {
    case ChunkKind::kHeader:
      return decode_header(*raw).status();
    case ChunkKind::kProgram:
      return decode_program(*raw).status();
    case ChunkKind::kTiming:
      return decode_timing(*raw, first_call).status();
    case ChunkKind::kParameters:
      return decode_parameters(*raw).status();
    case ChunkKind::kText:
      return decode_text(*raw).status();
    case ChunkKind::kValues:
      return decode_values(*raw).status();
    case ChunkKind::kSummary:
      return decode_summary(*raw).status();
    default:
      return {};
  }
}

Status read_program(const TraceReader& reader, ReadOutcome& outcome) {
  ProgramReader program(reader);
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) return {};
    outcome.calls += program.chunk().calls.size();
    for (const Write& write : program.chunk().writes) {
      if ((write.flags & kWriteValue) == 0) continue;
      const auto value = reader.value(write.hash);
      if (!value.ok()) return value.status();
      ++outcome.values;
    }
  }
}

Status read_everything(const Bytes& file, ReadOutcome& outcome) {
  const auto reader = TraceReader::open(open_memory("trace", file));
  if (!reader.ok()) return reader.status();
  outcome.cut = (*reader)->cut_at().has_value();
  for (std::size_t i = 0; i < (*reader)->chunks().size(); ++i) {
    GOLDENTRACE_RETURN_IF_ERROR(decode_chunk(**reader, i));
  }
  GOLDENTRACE_RETURN_IF_ERROR(read_program(**reader, outcome));
  GOLDENTRACE_RETURN_IF_ERROR((*reader)->parameters().status());
  GOLDENTRACE_RETURN_IF_ERROR((*reader)->text().status());
  GOLDENTRACE_RETURN_IF_ERROR((*reader)->timings().status());
  return (*reader)->check_bytes();
}

}  // namespace

Bytes to_bytes(std::string_view text) {
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

ProgramChunk rich_chunk() {
  ProgramChunk chunk;
  define(chunk);
  external_inputs(chunk);
  CallMaker make(chunk);

  make.begin({.op = 0, .scope = 1, .step = 0, .ambient = 1, .arguments = 2, .results = 1});
  make.node(NodeKind::kTensor, 0, 7);
  make.node(NodeKind::kTensor, 1);
  make.results();
  make.node(NodeKind::kTensor, 5, 1);
  make.write(5, 1, kWriteHashed | kWriteStats | kWriteValue | kWriteSketch,
             hash_bytes(to_bytes("twelve bytes")));
  make.end();

  // Every kind of node, nested lists among them.
  make.begin({.op = 2,
              .scope = 0,
              .step = 1,
              .flags = kCallNotExecutable | kCallRandom,
              .arguments = 20,
              .results = 2});
  make.node(NodeKind::kNone, 0);
  make.node(NodeKind::kUndefinedTensor, 0);
  make.node(NodeKind::kInt, -3);
  make.node(NodeKind::kInt, std::int64_t{1} << 31);  // one more than 32 bits hold
  make.node(NodeKind::kInt, std::numeric_limits<std::int64_t>::min());
  make.node(NodeKind::kDouble, bits(-0.0));
  make.node(NodeKind::kDouble, bits(std::numeric_limits<double>::quiet_NaN()));
  make.node(NodeKind::kBool, 1);
  make.node(NodeKind::kString, 2);
  make.node(NodeKind::kDevice, 1);
  make.node(NodeKind::kList, 3);
  make.node(NodeKind::kTensor, 2, 9);
  make.node(NodeKind::kTuple, 2);
  make.node(NodeKind::kList, 0);
  make.node(NodeKind::kInt, 5);
  make.node(NodeKind::kTensor, 4, 7);
  make.node(NodeKind::kComplex, 0);
  make.node(NodeKind::kDouble, bits(1.5));
  make.node(NodeKind::kDouble, bits(-2.5));
  make.node(NodeKind::kGenerator, 0);
  make.node(NodeKind::kWrappedInt, std::int64_t{-5'000'000'000});
  make.node(NodeKind::kWrappedDouble, bits(1e-6));
  make.node(NodeKind::kWrappedBool, 1);
  make.node(NodeKind::kUnstorable, 4);
  make.node(NodeKind::kStorage, 0);
  make.node(NodeKind::kTuple, 0);
  make.node(NodeKind::kBool, 0);
  make.results();
  make.node(NodeKind::kTensor, 3, 1);
  make.node(NodeKind::kList, 1);
  make.node(NodeKind::kTensor, 0, 8);
  make.write(3, 1, kWriteUndefined);
  make.write(0, 8, kWriteHashed | kWriteDecision | kWriteSketch, {5, 6});
  make.end();

  make.begin({.op = 1, .scope = 2, .step = 1, .flags = kCallFailed | kCallForeign, .arguments = 1});
  make.node(NodeKind::kTensor, 2, 9);
  make.results();
  make.end();

  chunk.placements = {{5, {PlacementKind::kShard, 1, 3, 4}},
                      {3, {PlacementKind::kPartialSum, 0, 1, 2}}};
  chunk.layouts = {{5, 4}};
  chunk.rows = {{5, {0, 0, 1, 17}}, {5, {1, 1, 1, std::int64_t{1} << 40}}};
  chunk.timings = {{0, 100, 20}, {1, 130, 5}, {0, 200, 1}};
  return chunk;
}

ProgramChunk next_chunk(const ProgramBase& base) {
  ProgramChunk chunk;
  chunk.base = base;
  chunk.storages = {{12, 0}};
  chunk.tensors = {{base.storages, 1, DType::kBFloat16, 0, 0}};
  CallMaker make(chunk);
  make.begin({.op = 0, .scope = 1, .step = 2, .ambient = 0, .arguments = 2, .results = 1});
  make.node(NodeKind::kTensor, 5, 1);
  make.node(NodeKind::kTensor, base.tensors - 1, 1);
  make.results();
  make.node(NodeKind::kTensor, base.tensors, 1);
  make.write(base.tensors, 1, kWriteHashed | kWriteStats | kWriteSketch, {base.calls, 1});
  make.end();
  chunk.timings = {{0, 1000 + base.calls, 3}};
  return chunk;
}

Header sample_header() {
  Header header;
  header.engine = "transformers";
  header.engine_version = "5.24.0";
  header.device = "cpu";
  header.dtype = "bfloat16";
  header.model_config = R"({"hidden_size": 64})";
  header.environment = {{"threads", "2"}, {"torch", "2.9.0"}};
  header.command = {"record", "hf", "model", "--prompt", ""};
  header.started_unix_ns = 1'700'000'000'000'000'000;
  header.rank = 1;
  header.world = 2;
  header.mesh = "tp=2";
  header.modules = {{"", "tiny.Model"}, {"layers.0.mlp", "tiny.MLP, forward by fast.mlp"}};
  header.warnings = {"impure: layers.0.mlp: runs fast.mlp", "training: training mode is on"};
  return header;
}

std::vector<Parameter> sample_parameters() {
  return {{"model.norm.weight", ParameterKind::kParameter, 0, {1, 2}, Recipe::kSame, {"norm"}, {}},
          {"lm_head.weight", ParameterKind::kParameter, 0, {1, 2}, Recipe::kTied, {"embed"}, {}},
          {"experts",
           ParameterKind::kParameter,
           5,
           {3, 4},
           Recipe::kStack,
           {"e.0", "e.1"},
           {PlacementKind::kShard, 1, 2, 8}},
          {"qkv", ParameterKind::kParameter, 5, {3, 5}, Recipe::kConcat, {"q", "k", "v"}, {}},
          {"up", ParameterKind::kParameter, 5, {3, 6}, Recipe::kCast, {"up"}, {}},
          {"rotary.inv_freq", ParameterKind::kBuffer, 1, {7, 8}, Recipe::kValue, {}, {}},
          {"late", ParameterKind::kParameter, 5, {3, 7}, Recipe::kComputed, {}, {}, 1u << 20}};
}

Text sample_text() {
  using namespace std::string_literals;
  Request request;
  request.id = 3;
  request.prompt = "Hello";
  request.prompt_ids = {1, 15043, std::int64_t{1} << 40};
  request.prompt_pieces = {"<s>", "\xff not UTF-8", "a\0b"s};
  request.sampling = {{"temperature", "0", "request"}, {"stop", "\0"s, "default"}};
  request.stop_ids = {2};
  request.output_ids = {5, 6};
  request.output_pieces = {"x", "y"};
  request.output = "xy";
  request.finish_reason = "stop";
  Step step;
  step.step = 1;
  step.rows = {{3, 0, 1, 17}};
  step.chosen = 6;
  step.top_ids = {6, 9};
  step.top_logits = {12.5f, -std::numeric_limits<float>::infinity()};
  step.gap_ulp = 3.5;
  step.logprob = -0.25;
  step.top_logprobs = {-0.25f, -std::numeric_limits<float>::infinity()};
  step.top_pieces = {"y", "\xff"};
  step.logprob_kind = LogprobKind::kProcessed;
  Step next;  // known values: NaN is not equal to itself
  next.gap_ulp = next.logprob = 0;
  return {{request}, {step, next}};
}

Summary sample_summary(std::uint64_t calls) {
  Summary summary;
  summary.counters = {
      {"calls", CounterSeverity::kInfo, CounterOrigin::kRecording, calls, ""},
      {"holes", CounterSeverity::kLoss, CounterOrigin::kRecording, 1, "call 2: aten::linear"},
      {"recorder_errors", CounterSeverity::kError, CounterOrigin::kReading, 0, ""}};
  summary.calls = calls;
  summary.duration_ns = 12345;
  return summary;
}

Bytes make_trace(int more_chunks) {
  Bytes file;
  auto writer = TraceWriter::create(write_memory(&file), sample_header());
  const Bytes value = to_bytes("twelve bytes");
  ProgramChunk chunk = rich_chunk();
  // The writer's first error latches; close() tells.
  (void)(*writer)->write_value(hash_bytes(value), value, 2);
  (void)(*writer)->write_program(chunk);
  for (int i = 0; i < more_chunks; ++i) {
    chunk = next_chunk(chunk.next_base());
    (void)(*writer)->write_program(chunk);
  }
  (void)(*writer)->write_parameters(sample_parameters());
  (void)(*writer)->write_text(sample_text());
  if (!(*writer)->close(sample_summary(chunk.next_base().calls)).ok()) file.clear();
  return file;
}

ReadOutcome read_all(const Bytes& file) {
  ReadOutcome outcome;
  outcome.status = read_everything(file, outcome);
  return outcome;
}

FileBuilder::FileBuilder(std::uint16_t minor) { append(file_, encode_file_header(minor)); }

void FileBuilder::add(ChunkKind kind, const Bytes& raw, std::uint64_t first_call,
                      std::uint32_t calls, Codec codec) {
  index_.chunks.push_back(
      {file_.size(), raw.size(), raw.size(), content_hash(raw), first_call, calls, kind, codec});
  ChunkHeader header;
  header.kind = kind;
  header.codec = codec;
  header.raw_size = raw.size();
  add_bytes(header, raw);
}

void FileBuilder::add_stored(ChunkKind kind, Codec codec, std::uint8_t item_size,
                             const Bytes& stored, std::uint64_t raw_size) {
  index_.chunks.push_back({file_.size(), stored.size(), raw_size, {}, 0, 0, kind, codec});
  ChunkHeader header;
  header.kind = kind;
  header.codec = codec;
  header.item_size = item_size;
  header.raw_size = raw_size;
  add_bytes(header, stored);
}

void FileBuilder::add_bytes(const ChunkHeader& header, const Bytes& stored) {
  ChunkHeader complete = header;
  complete.stored_size = stored.size();
  complete.checksum = checksum64(stored);
  complete.sequence = sequence_++;
  append(file_, encode_chunk_header(complete));
  append(file_, stored);
}

Bytes FileBuilder::finish() {
  const std::uint64_t offset = file_.size();
  const Bytes raw = pad_index(encode_index(index_));
  ChunkHeader header;
  header.kind = ChunkKind::kIndex;
  header.raw_size = raw.size();
  add_bytes(header, raw);
  append(file_, encode_footer(offset));
  return file_;
}

}  // namespace goldentrace::testing
