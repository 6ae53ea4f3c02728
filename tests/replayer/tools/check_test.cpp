// `replay check`: a sound trace is sound, and each rule that is broken is named.
#include "replayer/tools/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/format/trace_reader.h"
#include "tests/replayer/tools/small_trace.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::SmallTrace;
using testing::TempFolder;
using testing::to_bytes;

class Check : public ::testing::Test {
 protected:
  CheckReport report_of(const Bytes& file) {
    const auto report = check(*open_memory("t.fb", file));
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : CheckReport();
  }
  TempFolder folder_;
};

TEST_F(Check, ASoundTraceIsSound) {
  const CheckReport report = report_of(SmallTrace().file());
  EXPECT_EQ(check_exit_status(report), 0) << text_report(report);
  EXPECT_EQ(report.calls, 2u);
  EXPECT_EQ(report.writes, 2u);
  EXPECT_EQ(report.externals, 1u);
  EXPECT_EQ(report.values, 4u);
  EXPECT_EQ(report.value_bytes, 80u);
  EXPECT_EQ(report.parameters, 2u);
  EXPECT_TRUE(report.notes.empty());
  EXPECT_THAT(text_report(report),
              HasSubstr("SOUND  7 chunks, 2 calls, 2 writes, 4 values hashed again"));
  const auto json = nlohmann::json::parse(json_report(report));
  EXPECT_EQ(json["report"], "check");
  EXPECT_EQ(json["verdict"], "sound");
  EXPECT_EQ(json["faults"].size(), 0u);
}

TEST_F(Check, ATraceOfTheWriterIsSoundAlsoWithValuesInParts) {
  const auto run = testing::sample_run(3, 6, testing::Keep::kValues);
  const auto report = check(CheckOptions{testing::write_run(folder_, "run.fb", run)});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(check_exit_status(*report), 0) << text_report(*report);

  Bytes file;
  WriterOptions small;
  small.max_part = 1000;
  small.alone = 100;
  auto writer = TraceWriter::create(write_memory(&file), testing::sample_header(), small);
  ASSERT_TRUE(writer.ok());
  const Bytes value(10'001, std::byte{7});
  (void)(*writer)->write_value(hash_bytes(value), value, 2);
  ASSERT_TRUE((*writer)->close({}).ok());
  const CheckReport parts = report_of(file);
  EXPECT_EQ(check_exit_status(parts), 0) << text_report(parts);
  EXPECT_EQ(parts.values, 1u);
  EXPECT_EQ(parts.value_bytes, 10'001u);
}

struct Broken {
  const char* what;  // the finding
  std::function<void(SmallTrace&)> change;
};

const Broken kBroken[] = {
    {"external input does not have its storage's next version",
     [](SmallTrace& t) { t.program.externals[0].version = 2; }},
    {"external input is said to be kept and is not there",
     [](SmallTrace& t) { t.program.externals[0].hash.low ^= 1; }},
    {"external input is kept with another number of bytes than it has",
     [](SmallTrace& t) { t.program.storages[0].bytes = 32; }},
    {"argument or result has a version that nothing has written",
     [](SmallTrace& t) { t.program.nodes[1].version = 1; }},
    {"argument or result has a version that nothing has written",
     [](SmallTrace& t) { t.program.nodes[4].version = 3; }},
    {"write does not have its storage's next version",
     [](SmallTrace& t) { t.program.writes[0].version = 2; }},
    {"write does not have its storage's next version",
     [](SmallTrace& t) { t.program.writes[1].version = 1; }},
    {"undefined memory has a digest",
     [](SmallTrace& t) { t.program.writes[1].flags |= kWriteUndefined; }},
    {"undefined memory has a digest",
     [](SmallTrace& t) {
       t.program.writes[1].flags = kWriteUndefined | kWriteSketch;
       t.program.sketches.emplace_back();
     }},
    {"stats are of another number or kind of elements",
     [](SmallTrace& t) { t.program.stats[0].count = 5; }},
    {"stats are of another number or kind of elements",
     [](SmallTrace& t) { t.program.tensors[2].dtype = DType::kInt32; }},
    {"sketch of other elements than real floats",
     [](SmallTrace& t) {
       t.program.tensors[2].dtype = DType::kInt32;
       t.program.writes[0].flags &= static_cast<std::uint8_t>(~kWriteStats);
       t.program.stats.clear();
     }},
    {"sketch is not finite",
     [](SmallTrace& t) { t.program.sketches[0][1] = std::numeric_limits<float>::quiet_NaN(); }},
    {"sketch is not finite",
     [](SmallTrace& t) { t.program.sketches[0][9] = -std::numeric_limits<float>::infinity(); }},
    {"value is said to be kept and has no hash",
     [](SmallTrace& t) { t.program.writes[1].flags = kWriteValue; }},
    {"value of a write is said to be kept and is not there",
     [](SmallTrace& t) { t.program.writes[1].hash.high ^= 1; }},
    {"value of a write is kept with another number of bytes than it has",
     [](SmallTrace& t) {
       t.program.tensors[2].geometry = 1;
       t.program.stats[0].count = 2;
     }},
    {"call that threw has results", [](SmallTrace& t) { t.program.calls[0].flags = kCallFailed; }},
    {"foreign call does not give one tensor",
     [](SmallTrace& t) {
       t.program.calls[1].flags = kCallForeign;
       t.program.calls[1].arguments = 0;
       t.program.calls[1].results = 2;
       t.program.calls[1].first_result = 3;
     }},
    {"call names an undefined operator, scope or ambient state",
     [](SmallTrace& t) { t.program.calls[1].op = 2; }},
    {"tensor reaches outside its storage", [](SmallTrace& t) { t.program.storages[2].bytes = 20; }},
    {"there is not one timing for each call", [](SmallTrace& t) { t.program.timings.pop_back(); }},
    {"timings do not continue those before", [](SmallTrace& t) { t.first_timed_call = 1; }},
    {"summary counts other calls than there are", [](SmallTrace& t) { t.summary.calls = 3; }},
    {"parameter of a tensor that no earlier chunk defines",
     [](SmallTrace& t) { t.parameters[0].tensor = 3; }},
    {"parameter is tied to one that is not there",
     [](SmallTrace& t) { t.parameters[1].sources = {"v"}; }},
    {"value of a parameter is said to be kept and is not there",
     [](SmallTrace& t) { t.parameters[0].hash.low ^= 1; }},
    {"value of a parameter is kept with another number of bytes than it has",
     [](SmallTrace& t) { t.parameters[0].tensor = 2; }},
    {"value does not hash to the name that it is kept under",
     [](SmallTrace& t) { t.values[2].bytes[5] ^= std::byte{1}; }},
    {"value does not hash to the name that it is kept under",  // it lacks its last part
     [](SmallTrace& t) { t.values[3].total = 25; }},
    {"the trace can't be opened",  // its index says so already
     [](SmallTrace& t) {
       t.values.push_back({{5, 5}, 4, 2, to_bytes("ab")});
     }},
    {"part of a value is not in the index", [](SmallTrace& t) { t.index_values = false; }},
};

TEST_F(Check, EachRuleThatIsBrokenIsNamed) {
  for (const Broken& broken : kBroken) {
    SCOPED_TRACE(broken.what);
    SmallTrace trace;
    broken.change(trace);
    const CheckReport report = report_of(trace.file());
    EXPECT_EQ(check_exit_status(report), 1);
    EXPECT_THAT(report.faults,
                ::testing::Contains(::testing::Field(&CheckFinding::what, broken.what)))
        << text_report(report);
    for (const CheckFinding& fault : report.faults) EXPECT_NE(fault.first, "") << fault.what;
  }
}

// No rule of the format is broken, but a reader may wonder.
const Broken kOdd[] = {
    {"parameter is put in place after the last call",
     [](SmallTrace& t) { t.parameters[0].call = 3; }},
    {"recipe without sources names some", [](SmallTrace& t) { t.parameters[0].sources = {"v"}; }},
    {"rows of a request that is not there",
     [](SmallTrace& t) { t.text.steps[0].rows[0].request = 9; }},
    {"rows of a request that is not there",
     [](SmallTrace& t) { t.program.rows[0].row.request = 9; }},
    {"row of a step at a position below 0",
     [](SmallTrace& t) { t.text.steps[0].rows[0].position = -1; }},
    {"row of a tensor at a position below 0",
     [](SmallTrace& t) { t.program.rows[0].row.position = -1; }},
    {"step chose a token id below 0", [](SmallTrace& t) { t.text.steps[0].chosen = -2; }},
    {"step has two entries of one request",
     [](SmallTrace& t) { t.text.steps.push_back(t.text.steps[0]); }},
};

TEST_F(Check, WhatIsOddIsANote) {
  for (const Broken& odd : kOdd) {
    SCOPED_TRACE(odd.what);
    SmallTrace trace;
    odd.change(trace);
    const CheckReport report = report_of(trace.file());
    EXPECT_EQ(check_exit_status(report), 0) << text_report(report);
    EXPECT_THAT(report.notes, ::testing::Contains(::testing::Field(&CheckFinding::what, odd.what)));
  }
}

TEST_F(Check, PartsOfOtherValuesMayLieBetweenThoseOfOne) {
  const Bytes split = to_bytes("first half, second half");
  const Bytes other = to_bytes("another value");
  const std::vector<ValuePart> parts = {{hash_bytes(split), split.size(), 0, 11},
                                        {hash_bytes(other), other.size(), 0, other.size()},
                                        {hash_bytes(split), split.size(), 11, split.size() - 11}};
  for (const bool damaged : {false, true}) {
    Bytes data(split.begin(), split.begin() + 11);
    data.insert(data.end(), other.begin(), other.end());
    data.insert(data.end(), split.begin() + 11, split.end());
    if (damaged) data.back() ^= std::byte{1};
    SmallTrace trace;
    trace.header.major = kFormatMajor;
    trace.header.minor = kFormatMinor;
    testing::FileBuilder builder;
    builder.add(ChunkKind::kHeader, encode_header(trace.header));
    for (const ValuePart& part : parts) {
      builder.index().values.push_back(
          {part.hash, part.offset, static_cast<std::uint32_t>(part.length), 1});
    }
    std::ranges::sort(builder.index().values, {},
                      [](const ValueEntry& entry) { return std::tuple(entry.hash, entry.offset); });
    builder.add(ChunkKind::kValues, encode_values(parts, data));
    builder.add(ChunkKind::kSummary, encode_summary({}));
    const CheckReport report = report_of(builder.finish());
    EXPECT_EQ(check_exit_status(report), damaged ? 1 : 0) << text_report(report);
    EXPECT_EQ(report.values, 2u);
  }
}

TEST_F(Check, AFileThatCanNotBeReadIsNoAnswer) {
  class Failing final : public ByteSource {
   public:
    explicit Failing(Bytes bytes) : inner_(open_memory("t.fb", std::move(bytes))) {}
    std::uint64_t size() const override { return inner_->size(); }
    const std::string& name() const override { return inner_->name(); }
    Status read(std::uint64_t offset, std::span<std::byte> out) const override {
      if (offset > 16 && offset < 300) return {Code::kIo, "t.fb: can't read: Input/output error"};
      return inner_->read(offset, out);
    }

   private:
    std::unique_ptr<ByteSource> inner_;
  };
  SmallTrace trace;
  trace.header.warnings.assign(1, std::string(1000, 'x'));  // read when the trace is opened
  EXPECT_EQ(check(Failing(trace.file())).status().code(), Code::kIo);
}

TEST_F(Check, EveryFlippedByteIsFoundAndNeverACrash) {
  const Bytes whole = SmallTrace().file();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    SCOPED_TRACE(at);
    Bytes damaged = whole;
    damaged[at] ^= std::byte{4};
    const auto report = check(*open_memory("t.fb", damaged));
    // In the file header it is another kind of file, or a version that does not exist yet.
    if (report.ok()) {
      EXPECT_EQ(check_exit_status(*report), 1) << text_report(*report);
    } else {
      EXPECT_LT(at, 10u) << report.status().message();
    }
  }
}

TEST_F(Check, EveryCutIsDamage) {
  const Bytes whole = SmallTrace().file();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const CheckReport report =
        report_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_EQ(check_exit_status(report), 1);
  }
  const CheckReport report = report_of(Bytes(whole.begin(), whole.end() - 30));
  EXPECT_EQ(report.calls, 2u);
  EXPECT_THAT(text_report(report), HasSubstr("the file was cut: `replay recover` makes"));
}

TEST_F(Check, DamageInOneChunkDoesNotHideTheOthers) {
  const auto run = testing::sample_run(3, 6, testing::Keep::kValues);
  const std::string path = testing::write_run(folder_, "run.fb", run);
  const auto trace = TraceReader::open(path);
  ASSERT_TRUE(trace.ok());
  const auto source = open_file(path);
  Bytes bytes((*source)->size());
  ASSERT_TRUE((*source)->read(0, bytes).ok());
  std::size_t program = 0;
  for (const ChunkEntry& entry : (*trace)->chunks()) {
    if (entry.kind == ChunkKind::kProgram && ++program == 2) {
      bytes[entry.offset + kChunkHeaderSize + 3] ^= std::byte{1};
    }
  }
  const CheckReport report = report_of(bytes);
  ASSERT_EQ(report.faults.size(), 1u) << text_report(report);
  EXPECT_EQ(report.faults[0].what, "chunk can't be read");
  EXPECT_THAT(report.faults[0].first, HasSubstr("at offset "));
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_THAT(report.notes[0].what, HasSubstr("ids not checked"));
}

TEST_F(Check, VersionsOfATrimmedTraceMayLeapButNotGoBack) {
  SmallTrace trace;
  trace.summary.counters.push_back(
      {"calls_trimmed", CounterSeverity::kInfo, CounterOrigin::kReading, 5, ""});
  trace.program.externals[0].version = 4;
  trace.program.nodes[0].version = 4;
  trace.program.writes[1].version = 9;
  EXPECT_EQ(check_exit_status(report_of(trace.file())), 0);
  trace.program.writes[1].version = 1;
  EXPECT_EQ(check_exit_status(report_of(trace.file())), 1);
}

TEST_F(Check, WhatARecoveredTraceLacksIsANoteAndNoFault) {
  SmallTrace trace;
  trace.summary.counters.push_back(
      {"chunks_lost", CounterSeverity::kError, CounterOrigin::kReading, 1, "at offset 99"});
  trace.values.pop_back();
  trace.program.timings.pop_back();
  const CheckReport report = report_of(trace.file());
  EXPECT_EQ(check_exit_status(report), 0) << text_report(report);
  EXPECT_THAT(text_report(report), HasSubstr("value of a write was kept and is lost"));
  EXPECT_THAT(text_report(report), HasSubstr("not the whole run: chunks_lost"));
}

TEST_F(Check, UnknownKindsOfChunksAndCountersAreNoFault) {
  testing::FileBuilder builder;
  SmallTrace trace;
  trace.header.major = kFormatMajor;
  trace.header.minor = kFormatMinor;
  builder.add(ChunkKind::kHeader, encode_header(trace.header));
  builder.add(static_cast<ChunkKind>(99), to_bytes("of a later version"));
  Summary summary;
  summary.counters = {{"later", CounterSeverity::kInfo, CounterOrigin::kRecording, 3, ""}};
  builder.add(ChunkKind::kSummary, encode_summary(summary));
  const CheckReport report = report_of(builder.finish());
  EXPECT_EQ(check_exit_status(report), 0) << text_report(report);
  EXPECT_EQ(report.notes.size(), 1u);
}

TEST_F(Check, AnUnknownCodecIsNoAnswer) {
  testing::FileBuilder builder;
  SmallTrace trace;
  trace.header.major = kFormatMajor;
  trace.header.minor = kFormatMinor;
  builder.add(ChunkKind::kHeader, encode_header(trace.header));
  builder.add(ChunkKind::kText, to_bytes("text"), 0, 0, static_cast<Codec>(77));
  builder.add(ChunkKind::kSummary, encode_summary({}));
  const CheckReport report = report_of(builder.finish());
  EXPECT_EQ(check_exit_status(report), 2) << text_report(report);
  EXPECT_THAT(text_report(report), HasSubstr("NO ANSWER"));
}

TEST_F(Check, WhatIsNoTraceIsNoAnswer) {
  EXPECT_EQ(check(CheckOptions{folder_.file("missing.fb")}).status().code(), Code::kNotFound);
  EXPECT_EQ(check(CheckOptions{folder_.path()}).status().code(), Code::kIo);
  EXPECT_EQ(check(CheckOptions{folder_.write("empty.fb", "")}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(check(CheckOptions{folder_.write("text.fb", "hello, trace\n")}).status().code(),
            Code::kInvalidArgument);
  Bytes newer = SmallTrace().file();
  newer[8] = std::byte{2};
  EXPECT_EQ(check(*open_memory("newer.fb", newer)).status().code(), Code::kUnsupported);
}

TEST_F(Check, AReportOfManyFaultsStaysShort) {
  CheckReport report;
  for (int i = 0; i < 30; ++i) {
    report.faults.push_back({"fault " + std::to_string(i), 3, std::string(200, 'x')});
    report.notes.push_back({"note\n" + std::to_string(i), 1, ""});
  }
  const std::string text = text_report(report);
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_LE(count, 25u);
  EXPECT_THAT(text, HasSubstr("other kinds (--json has all)"));
  EXPECT_EQ(nlohmann::json::parse(json_report(report))["faults"].size(), 30u);
}

}  // namespace
}  // namespace goldentrace
