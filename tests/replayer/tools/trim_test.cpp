// `replay trim`: what is left is sound, says that it was trimmed, and is what it was.
#include "replayer/tools/trim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "replayer/replay.h"
#include "replayer/tools/check.h"
#include "src/format/trace_reader.h"
#include "tests/replayer/tools/small_trace.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::Keep;
using testing::MadeRun;
using testing::SmallTrace;
using testing::TempFolder;

class Trim : public ::testing::Test {
 protected:
  void write(const Bytes& file) {
    trace_ = folder_.write("t.fb", {reinterpret_cast<const char*>(file.data()), file.size()});
  }
  // Opens the trimmed trace, which must be sound.
  std::unique_ptr<TraceReader> trimmed(TrimOptions options) {
    options.trace = trace_;
    options.output = folder_.file("out.fb");
    const auto report = trim(options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    if (report.ok()) report_ = *report;
    const auto sound = check(CheckOptions{options.output});
    EXPECT_TRUE(sound.ok()) << sound.status().message();
    if (sound.ok()) {
      EXPECT_EQ(check_exit_status(*sound), 0) << text_report(*sound);
    }
    auto reader = TraceReader::open(options.output);
    EXPECT_TRUE(reader.ok());
    return std::move(*reader);
  }
  TempFolder folder_;
  std::string trace_;
  TrimReport report_;
};

// The only program chunk of a trace.
ProgramChunk program_of(const TraceReader& trace) {
  ProgramReader program(trace);
  const auto more = program.next();
  EXPECT_TRUE(more.ok() && *more);
  return program.chunk();
}

TEST_F(Trim, CallsOutsideTheFilterAreGoneAndTheRestIsNumberedAnew) {
  write(SmallTrace().file());
  const auto trace = trimmed({.filter = {.first_step = 1}});
  EXPECT_EQ(report_.calls, 2u);
  EXPECT_EQ(report_.kept_calls, 1u);
  const ProgramChunk program = program_of(*trace);
  ASSERT_EQ(program.calls.size(), 1u);
  EXPECT_EQ(program.operators, (std::vector<Operator>{{"aten::sign_", ""}}));
  EXPECT_EQ(program.scopes, (std::vector<std::string>{""}));
  // The call's tensor, and the parameters'.
  EXPECT_EQ(program.storages, (std::vector<Storage>{{24, 0}, {8, 0}}));
  EXPECT_EQ(program.nodes,
            (std::vector<Node>{{NodeKind::kTensor, 1, 0}, {NodeKind::kTensor, 2, 0}}));
  EXPECT_EQ(program.writes[0].version, 2u);
  EXPECT_TRUE(program.sketches.empty()) << "the sketch was of the other call";
  EXPECT_TRUE(program.externals.empty()) << "no kept call reads it";
  EXPECT_EQ(program.rows, (std::vector<TensorRow>{{0, {3, 0, 2, 7}}}));
  EXPECT_EQ(trace->timings()->at(0), (Timing{0, 130, 5}));
  EXPECT_EQ(trace->parameters()->size(), 2u);
  EXPECT_EQ(trace->parameters()->at(0).tensor, 1u);
  EXPECT_EQ(trace->summary().calls, 1u);
  EXPECT_EQ(trace->summary().counter("calls_trimmed"), 1u);
  EXPECT_EQ(trace->header().warnings.back(), "trimmed: 1 of 2 calls are left, those of steps=1..");
  EXPECT_EQ(trace->text()->requests.size(), 1u);
  ASSERT_EQ(trace->text()->steps.size(), 2u);
}

TEST_F(Trim, TextOfOtherStepsIsGone) {
  write(SmallTrace().file());
  const auto trace = trimmed({.filter = {.last_step = 1}});
  ASSERT_EQ(trace->text()->steps.size(), 1u);
  EXPECT_EQ(trace->text()->steps[0].step, 1u);
}

TEST_F(Trim, WhatKeptCallsReadFromOutsideStaysWithItsBytes) {
  write(SmallTrace().file());
  const auto trace = trimmed({.filter = {.scopes = {"model.**"}}});
  const ProgramChunk program = program_of(*trace);
  ASSERT_EQ(program.externals.size(), 1u);
  EXPECT_EQ(program.externals[0].call, 0u);
  EXPECT_TRUE(trace->has_value(program.externals[0].hash));
  EXPECT_TRUE(trace->has_value(program.writes[0].hash));
  EXPECT_EQ(report_.values_dropped, 1u) << "the decision outside";
}

TEST_F(Trim, ParametersMoveToTheCallThatFollowsThem) {
  SmallTrace small;
  small.parameters[0].call = 1;
  small.parameters[1].call = 2;
  write(small.file());
  const auto last = trimmed({.filter = {.first_step = 1}});
  EXPECT_EQ(last->parameters()->at(0).call, 0u);
  EXPECT_EQ(last->parameters()->at(1).call, 1u);
  const auto first = trimmed({.filter = {.last_step = 0}});
  EXPECT_EQ(first->parameters()->at(0).call, 1u);
  EXPECT_EQ(first->parameters()->at(1).call, 1u);
}

TEST_F(Trim, DroppedTimingsLeaveEveryOtherChunkByteForByte) {
  write(SmallTrace().file());
  const auto trace = trimmed({.drop_timings = true});
  const auto before = TraceReader::open(trace_);
  std::vector<Hash128> kept;
  for (const ChunkEntry& entry : (*before)->chunks()) {
    if (entry.kind != ChunkKind::kTiming) kept.push_back(entry.content);
  }
  std::vector<Hash128> have;
  for (const ChunkEntry& entry : trace->chunks()) have.push_back(entry.content);
  EXPECT_EQ(have, kept);
  EXPECT_EQ(trace->summary().counter("calls_trimmed"), 0u);
  EXPECT_EQ(trace->header().warnings, (*before)->header().warnings);
}

TEST_F(Trim, DroppedValuesLeaveWhatExecutionNeeds) {
  SmallTrace small;
  write(small.file());
  const auto trace = trimmed({.drop_values = true});
  const ProgramChunk program = program_of(*trace);
  EXPECT_EQ(program.writes[0].flags, kWriteHashed | kWriteStats | kWriteSketch);
  EXPECT_EQ(program.sketches, small.program.sketches);
  EXPECT_EQ(program.writes[1].flags, kWriteHashed | kWriteValue | kWriteDecision);
  EXPECT_FALSE(trace->has_value(program.writes[0].hash));
  EXPECT_EQ(*trace->value(program.writes[1].hash), small.values[3].bytes);
  EXPECT_EQ(*trace->value(program.externals[0].hash), small.values[0].bytes);
  EXPECT_EQ(*trace->value(small.parameters[0].hash), small.values[1].bytes);
  EXPECT_EQ(report_.values_dropped, 1u);
  EXPECT_EQ(program.timings.size() + trace->timings()->size(), 2u);

  small.program.calls[0].flags = kCallRandom;
  write(small.file());
  EXPECT_TRUE(trimmed({.drop_values = true})->has_value(small.values[2].hash));
}

TEST_F(Trim, ARunThatWasTrimmedStillAgreesWithItsOriginal) {
  const MadeRun run = testing::sample_run(3, 6, Keep::kValues);
  trace_ = testing::write_run(folder_, "t.fb", run);
  const std::vector<TrimOptions> cases = {{.filter = {.scopes = {"model.layers.1"}}},
                                          {.filter = {.last_step = 1}},
                                          {.filter = {.first_step = 1, .last_step = 1}},
                                          {.drop_values = true},
                                          {.drop_timings = true}};
  for (const TrimOptions& options : cases) {
    const auto trace = trimmed(options);
    for (const auto& [candidate, oracle] :
         {std::pair(trace->name(), trace_), std::pair(trace_, trace->name())}) {
      const auto report = run_replay({candidate, oracle});
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_EQ(exit_status(report->verdict), 0) << report->headline;
      EXPECT_GT(report->ops.outputs, 0u);
      EXPECT_GT(report->tokens.compared, 0u);
      EXPECT_EQ(report->ops.outputs, report->ops.identical);
    }
  }
}

TEST_F(Trim, ATrimmedTraceCanBeTrimmedAgain) {
  trace_ = testing::write_run(folder_, "t.fb", testing::sample_run(3, 6, Keep::kValues));
  (void)trimmed({.filter = {.last_step = 1}});
  std::filesystem::rename(folder_.file("out.fb"), trace_);
  const auto trace = trimmed({.filter = {.scopes = {"model.layers.0"}}});
  EXPECT_EQ(trace->summary().calls, 4u);
  EXPECT_EQ(trace->summary().counter("calls_trimmed"), 14u);
}

TEST_F(Trim, EveryKindOfNodeAndNoteSurvivesBeingNumberedAnew) {
  const Bytes file = testing::make_trace(2);
  const auto reader = TraceReader::open(open_memory("m", file));
  ASSERT_TRUE(reader.ok());
  write(file);
  TrimOptions options{.trace = trace_, .output = folder_.file("out.fb")};
  options.filter.scopes = {"**"};
  const auto report = trim(options);
  // Its parameters' tensors are defined, its values are partly made up: only the program counts.
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->kept_calls, 5u);
  const auto trace = TraceReader::open(options.output);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  ProgramReader before(**reader);
  ProgramReader after(**trace);
  ASSERT_TRUE(before.next().ok());
  ASSERT_TRUE(after.next().ok());
  const ProgramChunk& want = before.chunk();
  const ProgramChunk& got = after.chunk();
  ASSERT_GE(got.nodes.size(), want.nodes.size());  // of all three chunks in one
  for (std::size_t n = 0; n < want.nodes.size(); ++n) {
    EXPECT_EQ(got.nodes[n].kind, want.nodes[n].kind);
    EXPECT_EQ(got.nodes[n].version, want.nodes[n].version);
    if (want.nodes[n].kind != NodeKind::kTensor) continue;
    EXPECT_EQ(after.dictionary().describe_tensor(static_cast<std::uint32_t>(got.nodes[n].value)),
              before.dictionary().describe_tensor(static_cast<std::uint32_t>(want.nodes[n].value)));
  }
  ASSERT_EQ(want.sketches.size(), 2u);
  ASSERT_EQ(got.sketches.size(), 4u);
  EXPECT_EQ(std::vector(got.sketches.begin(), got.sketches.begin() + 2), want.sketches);
  EXPECT_EQ(got.placements.size(), want.placements.size());
  EXPECT_EQ(got.layouts.size(), want.layouts.size());
  EXPECT_EQ(got.rows.size(), want.rows.size());
}

TEST_F(Trim, WhatCanNotBeTrimmedIsRefused) {
  const Bytes file = SmallTrace().file();
  write(file);
  const auto code = [&](TrimOptions options) {
    options.trace = trace_;
    if (options.output.empty()) options.output = folder_.file("out.fb");
    return trim(options).status().code();
  };
  EXPECT_EQ(code({}), Code::kInvalidArgument);
  EXPECT_EQ(code({.filter = {.scopes = {"nowhere"}}}), Code::kNotFound);
  EXPECT_EQ(code({.output = trace_, .drop_values = true}), Code::kInvalidArgument);
  write(Bytes(file.begin(), file.end() - 30));
  EXPECT_EQ(code({.drop_values = true}), Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.fb")));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.fb.partial")));
}

TEST_F(Trim, DamageIsReportedAndLeavesNoFile) {
  Bytes file = SmallTrace().file();
  write(file);
  const auto trace = TraceReader::open(trace_);
  file[(*trace)->chunks()[2].offset + kChunkHeaderSize + 1] ^= std::byte{1};
  write(file);
  const auto report =
      trim({.trace = trace_, .output = folder_.file("out.fb"), .drop_values = true});
  EXPECT_EQ(report.status().code(), Code::kCorrupt);
  EXPECT_THAT(report.status().message(), HasSubstr(trace_ + ": at offset"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.fb.partial")));
}

}  // namespace
}  // namespace goldentrace
