// What the recorder's tests share: record a block, read the trace back whole, execute it again.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "recorder/recorder.h"
#include "replayer/execute/verify.h"
#include "src/format/trace_reader.h"
#include "tests/support/temp_folder.h"

namespace goldentrace::testing {

struct RecordedWrite {
  Write write;
  Stats stats;  // when kWriteStats
};

// One call with what it refers to, so that a test need not follow ids.
struct RecordedCall {
  std::string op;  // "aten::mul.Tensor"
  std::string scope;
  Call call;
  std::vector<Node> arguments;
  std::vector<Node> results;
  std::vector<RecordedWrite> writes;
  Timing timing;
};

// A trace with all chunks joined. Definitions are looked up by the ids in nodes and writes.
struct Recorded {
  std::unique_ptr<TraceReader> trace;
  std::unique_ptr<ProgramReader> program;
  std::vector<RecordedCall> calls;
  std::vector<External> externals;
  std::vector<ChunkEntry> program_chunks;

  [[nodiscard]] const Dictionary& dictionary() const { return program->dictionary(); }
  [[nodiscard]] std::uint64_t counter(const std::string& name) const {
    return trace->summary().counter(name);
  }
  [[nodiscard]] std::vector<std::string> ops() const {
    std::vector<std::string> names;
    for (const RecordedCall& call : calls) names.push_back(call.op);
    return names;
  }
  // The only call of `op`; a failure and an empty call where there are none or several.
  [[nodiscard]] RecordedCall only(const std::string& op) const {
    RecordedCall found;
    int count = 0;
    for (const RecordedCall& call : calls) {
      if (call.op != op) continue;
      found = call;
      ++count;
    }
    EXPECT_EQ(count, 1) << "calls of " << op;
    // So that a test may look at [0] without crashing all others.
    if (found.arguments.empty()) found.arguments.resize(8);
    if (found.results.empty()) found.results.resize(1);
    if (found.writes.empty() && count != 1) found.writes.resize(1);
    return found;
  }
  [[nodiscard]] std::uint32_t storage_of(const Node& node) const {
    EXPECT_EQ(node.kind, NodeKind::kTensor);
    return node.kind == NodeKind::kTensor
               ? dictionary().tensor(static_cast<std::uint32_t>(node.value)).storage
               : 0xffffffffu;
  }
};

inline Recorded read_trace(const std::string& path) {
  Recorded recorded;
  auto trace = TraceReader::open(path);
  if (!trace.ok()) {
    ADD_FAILURE() << trace.status().message();
    return recorded;
  }
  recorded.trace = std::move(*trace);
  EXPECT_TRUE(recorded.trace->check_bytes().ok());
  for (const ChunkEntry& entry : recorded.trace->chunks()) {
    if (entry.kind == ChunkKind::kProgram) recorded.program_chunks.push_back(entry);
  }
  const auto timings = recorded.trace->timings();
  EXPECT_TRUE(timings.ok()) << timings.status().message();
  recorded.program = std::make_unique<ProgramReader>(*recorded.trace);
  while (true) {
    const auto more = recorded.program->next();
    EXPECT_TRUE(more.ok()) << more.status().message();
    if (!more.ok() || !*more) break;
    const ProgramChunk& chunk = recorded.program->chunk();
    const auto at = [&](std::size_t i) {
      return chunk.nodes.begin() + static_cast<std::ptrdiff_t>(i);
    };
    for (const Call& call : chunk.calls) {
      RecordedCall one;
      one.op = recorded.dictionary().describe_op(call.op);
      one.scope = recorded.dictionary().scope(call.scope);
      one.call = call;
      one.arguments.assign(at(call.first_node), at(call.first_result));
      one.results.assign(at(call.first_result), at(call.end_node));
      for (std::size_t w = 0; w < call.writes; ++w) {
        const Write& write = chunk.writes[call.first_write + w];
        const bool stats = (write.flags & kWriteStats) != 0;
        one.writes.push_back({write, stats ? chunk.stats[write.stats_index] : Stats()});
      }
      if (timings.ok()) one.timing = (*timings)[recorded.calls.size()];
      recorded.calls.push_back(std::move(one));
    }
    recorded.externals.insert(recorded.externals.end(), chunk.externals.begin(),
                              chunk.externals.end());
  }
  return recorded;
}

// A test that records. Every trace goes to a folder of the test's own.
class RecordingTest : public ::testing::Test {
 protected:
  // Records `body`, which may take the recorder, and reads the trace back.
  template <typename Body>
  Recorded record(Body body, RecorderOptions options = {}) {
    if (options.path.empty()) options.path = trace_path();
    const std::string path = options.path;
    auto recorder = Recorder::start(std::move(options));
    if (!recorder.ok()) {
      ADD_FAILURE() << recorder.status().message();
      return {};
    }
    if constexpr (std::is_invocable_v<Body, Recorder&>) {
      body(**recorder);
    } else {
      body();
    }
    const Status stopped = (*recorder)->stop();
    EXPECT_TRUE(stopped.ok()) << stopped.message();
    return read_trace(path);
  }

  // Executes the trace again; every output must come out bit for bit.
  VerifyReport expect_reproduced(const std::string& weights = {}) {
    const auto report =
        verify({.trace = trace_path(), .weights = weights.empty() ? no_weights() : weights});
    if (!report.ok()) {
      ADD_FAILURE() << report.status().message();
      return {};
    }
    EXPECT_TRUE(report->reproduced());
    report_findings(*report);
    return *report;
  }

  // Executes the trace again in a wider dtype; every call must run and give its recorded shape.
  VerifyReport expect_promotable(DType to = DType::kFloat32) {
    const auto report = verify({.trace = trace_path(), .weights = no_weights(), .promote = to});
    if (!report.ok()) {
      ADD_FAILURE() << report.status().message();
      return {};
    }
    EXPECT_EQ(verify_exit_status(*report), 0);
    report_findings(*report);
    return *report;
  }

  [[nodiscard]] std::string trace_path() const { return folder_.file("trace.fb"); }
  [[nodiscard]] const TempFolder& folder() const { return folder_; }

  // A safetensors file whose tensor `name` holds `tensor`, which is dense and float32.
  [[nodiscard]] std::string write_weights(const std::string& name, const at::Tensor& tensor) const {
    std::string shape;
    for (const std::int64_t size : tensor.sizes()) {
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    }
    const std::string json = "{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[" + shape +
                             "],\"data_offsets\":[0," + std::to_string(tensor.nbytes()) + "]}}";
    std::uint64_t length = json.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    file += json;
    file.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    return folder_.write("model.safetensors", file);
  }

 private:
  static void report_findings(const VerifyReport& report) {
    for (const VerifyFinding& finding : report.findings) {
      ADD_FAILURE() << "call " << finding.call << " " << finding.op << ": " << finding.what;
    }
  }

  // For programs without parameters: any checkpoint will do.
  [[nodiscard]] std::string no_weights() const {
    std::string file(8, '\0');
    file[0] = 2;
    return folder_.write("none.safetensors", file + "{}");
  }

  TempFolder folder_;
};

// Bytes equal, shapes equal: NaN equals NaN, +0 is not -0.
inline bool same_bits(const at::Tensor& got, const at::Tensor& want) {
  if (got.sizes() != want.sizes() || got.scalar_type() != want.scalar_type()) return false;
  const at::Tensor x = got.contiguous();
  const at::Tensor y = want.contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace goldentrace::testing
