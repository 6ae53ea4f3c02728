// A small sound trace in parts, so that a test can break one rule of it and nothing else.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/digest/digest.h"
#include "tests/support/traces.h"

namespace goldentrace::testing {

struct ValueBytes {
  Hash128 hash;
  std::uint64_t total = 0;
  std::uint64_t offset = 0;
  Bytes bytes;
};

struct SmallTrace {
  Header header = sample_header();
  ProgramChunk program;
  std::vector<Parameter> parameters;
  Text text;
  std::vector<ValueBytes> values;  // one part each, all in one chunk
  Summary summary;
  bool timings = true;
  std::uint64_t first_timed_call = 0;
  bool index_values = true;

  // Six float32 in memory from outside (storage 0), a parameter by value (storage 1), and two
  // calls: one writes storage 2 by value, stats and sketch, the next one writes it again, a
  // decision.
  SmallTrace();
  [[nodiscard]] Bytes file() const;
};

inline ValueBytes whole_value(Bytes bytes) {
  const Hash128 hash = hash_bytes(bytes);
  const std::uint64_t size = bytes.size();
  return {hash, size, 0, std::move(bytes)};
}

inline SmallTrace::SmallTrace() {
  const ValueBytes outside = whole_value(to_bytes("twenty-four bytes inside"));
  const ValueBytes weight = whole_value(to_bytes("8 bytes."));
  const ValueBytes result = whole_value(to_bytes("the result of call zero."));
  const ValueBytes decision = whole_value(to_bytes("what call one has chosen"));
  values = {outside, weight, result, decision};

  program.strings = {"cpu"};
  program.operators = {{"aten::mul", "Tensor"}, {"aten::sign_", ""}};
  program.scopes = {"", "model.mlp"};
  program.geometries = {{{2, 3}, {3, 1}}, {{2}, {1}}};
  program.storages = {{24, 0}, {8, 0}, {24, 0}};
  program.tensors = {
      {0, 0, DType::kFloat32, 0, 0}, {1, 1, DType::kFloat32, 0, 0}, {2, 0, DType::kFloat32, 0, 0}};
  program.ambients = {{}};
  program.externals = {{0, 0, 1, ExternalKind::kFirstRead, outside.hash}};
  program.nodes = {{NodeKind::kTensor, 1, 0},
                   {NodeKind::kTensor, 0, 1},
                   {NodeKind::kTensor, 1, 2},
                   {NodeKind::kTensor, 1, 2},
                   {NodeKind::kTensor, 2, 2}};
  program.stats = {{6, 0, 0, 0, 0, 0, 0, 1, 3, 2}};
  program.sketches.resize(1);
  program.sketches[0][63] = -2;
  program.writes = {{2, 1, kWriteHashed | kWriteStats | kWriteValue | kWriteSketch, result.hash},
                    {2, 2, kWriteHashed | kWriteValue | kWriteDecision, decision.hash}};
  Call first{.op = 0, .scope = 1, .arguments = 2, .results = 1, .writes = 1};
  first.end_node = 3;
  first.first_result = 2;
  Call second{.op = 1, .scope = 0, .step = 1, .arguments = 1, .results = 1, .writes = 1};
  second.first_node = 3;
  second.first_result = 4;
  second.end_node = 5;
  second.first_write = 1;
  program.calls = {first, second};
  program.rows = {{2, {3, 0, 2, 7}}};
  program.timings = {{0, 100, 20}, {0, 130, 5}};

  parameters = {{"w", ParameterKind::kParameter, 1, weight.hash, Recipe::kValue, {}, {}},
                {"head", ParameterKind::kParameter, 1, weight.hash, Recipe::kTied, {"w"}, {}}};
  text = sample_text();
  text.steps[1].step = 2;
  summary = sample_summary(2);
}

inline Bytes SmallTrace::file() const {
  FileBuilder builder;
  Header versioned = header;
  versioned.major = kFormatMajor;
  versioned.minor = kFormatMinor;
  builder.add(ChunkKind::kHeader, encode_header(versioned));
  std::vector<ValuePart> parts;
  Bytes data;
  for (const ValueBytes& value : values) {
    parts.push_back({value.hash, value.total, value.offset, value.bytes.size()});
    data.insert(data.end(), value.bytes.begin(), value.bytes.end());
    if (!index_values) continue;
    builder.index().values.push_back(
        {value.hash, value.offset, static_cast<std::uint32_t>(value.bytes.size()), 1});
  }
  std::ranges::sort(builder.index().values, [](const ValueEntry& left, const ValueEntry& right) {
    return std::tie(left.hash, left.offset) < std::tie(right.hash, right.offset);
  });
  builder.add(ChunkKind::kValues, encode_values(parts, data));
  const auto calls = static_cast<std::uint32_t>(program.calls.size());
  builder.add(ChunkKind::kProgram, encode_program(program), program.base.calls, calls);
  if (timings) {
    ProgramChunk timed = program;
    timed.base.calls = first_timed_call;
    builder.add(ChunkKind::kTiming, encode_timing(timed), first_timed_call,
                static_cast<std::uint32_t>(timed.timings.size()));
  }
  builder.add(ChunkKind::kParameters, encode_parameters(parameters));
  builder.add(ChunkKind::kText, encode_text(text));
  builder.add(ChunkKind::kSummary, encode_summary(summary));
  return builder.finish();
}

}  // namespace goldentrace::testing
