// `replay show` on traces made in memory; make_trace has every kind of node.
#include "replayer/report/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "replayer/report/format.h"
#include "tests/support/run_trace.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TempFolder;

Status show_file(const std::string& path, const ShowOptions& options, std::ostream& out) {
  const auto trace = TraceReader::open(path);
  return trace.ok() ? show(**trace, options, out) : trace.status();
}

class Show : public ::testing::Test {
 protected:
  Show() {
    const Bytes bytes = testing::make_trace();
    trace_ = folder_.write("t.fb", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  // The lines that show prints.
  std::vector<std::string> lines(ShowWhat what, bool as_json) {
    std::ostringstream out;
    const Status status = show_file(trace_, {what, as_json}, out);
    EXPECT_TRUE(status.ok()) << status.message();
    std::istringstream in(out.str());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  TempFolder folder_;
  std::string trace_;
};

TEST_F(Show, SummaryNamesWhoRanAndWhatWasCounted) {
  std::string joined;
  for (const std::string& line : lines(ShowWhat::kSummary, true)) joined += line + "\n";
  const json object = json::parse(joined);
  EXPECT_EQ(object["trace"], trace_);
  EXPECT_EQ(object["engine"], "transformers 5.24.0");
  EXPECT_EQ(object["dtype"], "bfloat16");
  EXPECT_EQ(object["calls"], 4);
  EXPECT_EQ(object["environment"]["torch"], "2.9.0");
  EXPECT_EQ(object["counters"]["holes"]["value"], 1);
  EXPECT_EQ(object["counters"]["holes"]["first"], "call 2: aten::linear");
  EXPECT_EQ(object["command"].size(), 5u);
  EXPECT_EQ(object["modules"]["layers.0.mlp"], "tiny.MLP, forward by fast.mlp");
  EXPECT_EQ(object["warnings"].size(), 2u);

  const std::vector<std::string> text = lines(ShowWhat::kSummary, false);
  EXPECT_THAT(text, ::testing::Contains("engine      transformers 5.24.0"));
  EXPECT_THAT(text, ::testing::Contains("environment torch                     2.9.0"));
  EXPECT_THAT(text, ::testing::Contains("counters    holes                     1"));
  EXPECT_THAT(text, ::testing::Contains("modules     2"));
  EXPECT_THAT(text, ::testing::Contains("oracle not pure: layers.0.mlp runs fast.mlp"));
  EXPECT_THAT(text, ::testing::Contains("oracle warned: training: training mode is on"));
}

TEST_F(Show, CallsInTextAreOneLineEachWithEveryKindOfArgument) {
  const std::vector<std::string> text = lines(ShowWhat::kCalls, false);
  ASSERT_EQ(text.size(), 4u);
  EXPECT_THAT(text[0], HasSubstr("0  0  model.layers.0.mlp  aten::mul.Tensor(%0:float32 [2, 3], "
                                 "%1:float32 []) -> %5:bfloat16 [2, 3]  #"));
  EXPECT_THAT(text[1],
              HasSubstr("aten::cat(None, undefined, -3, 2147483648, -9223372036854775808, "
                        "-0.0, nan, True, \"mean\", cuda:0, [%2:complex64 [], [[], 5], "
                        "%4:float32 [3, 2]], 1.5+-2.5j, generator(cpu), -5000000000, "
                        "1e-06, True, <not stored: a hook object>, storage 0, [], False) -> "
                        "%3:bfloat16 [0, 5], [%0:float32 [2, 3]]"));
  EXPECT_THAT(text[1], HasSubstr("undefined  #"));
  EXPECT_THAT(text[1], HasSubstr("not re-executable"));
  EXPECT_THAT(text[2], HasSubstr("scope with a zero \\x00 byte"));
  EXPECT_THAT(text[2], HasSubstr("  threw"));
  for (const std::string& line : text) EXPECT_EQ(line, printable(line));
}

TEST_F(Show, CallsInJsonAreOneObjectALine) {
  const std::vector<std::string> text = lines(ShowWhat::kCalls, true);
  ASSERT_EQ(text.size(), 4u);
  const json first = json::parse(text[0]);
  EXPECT_EQ(first["call"], 0);
  EXPECT_EQ(first["scope"], "model.layers.0.mlp");
  EXPECT_EQ(first["op"], "aten::mul.Tensor");
  EXPECT_EQ(first["writes"][0]["stats"]["count"], 12);
  EXPECT_EQ(first["writes"][0]["value_kept"], true);
  EXPECT_EQ(first["writes"][0]["hash"].get<std::string>().size(), 32u);
  const json second = json::parse(text[1]);
  EXPECT_EQ(second["arguments"].size(), 20u);
  EXPECT_EQ(second["arguments"][6], "nan");
  EXPECT_EQ(second["writes"][0]["hash"], nullptr);
  EXPECT_EQ(second["writes"][0]["undefined"], true);
  EXPECT_EQ(second["writes"][1]["decision"], true);
  EXPECT_EQ(second["executable"], false);
  EXPECT_EQ(second["random"], true);
  EXPECT_EQ(json::parse(text[2])["failed"], true);
  EXPECT_EQ(json::parse(text[3])["step"], 2);
}

TEST_F(Show, TensorsAreOneLineEachWithWhatIsKnownOfThem) {
  const std::vector<std::string> text = lines(ShowWhat::kTensors, false);
  ASSERT_EQ(text.size(), 4u);
  EXPECT_THAT(text[0], HasSubstr("0  0  model.layers.0.mlp  aten::mul.Tensor  bfloat16 [2, 3]  #"));
  EXPECT_TRUE(text[0].ends_with(
      "  value  shard 3 of 4 along 1  layout \"a hook object\"  rows 0+1 request 0 at 17  "
      "rows 1+1 request 1 at 1099511627776"))
      << text[0];
  EXPECT_TRUE(text[1].ends_with("undefined  no value  partial sum of 2")) << text[1];
  EXPECT_TRUE(text[2].ends_with("no value  decision")) << text[2];
  const std::vector<std::string> as_json = lines(ShowWhat::kTensors, true);
  ASSERT_EQ(as_json.size(), 4u);
  const json first = json::parse(as_json[0]);
  EXPECT_EQ(first["dtype"], "bfloat16");
  EXPECT_EQ(first["shape"], json({2, 3}));
  EXPECT_EQ(first["value_kept"], true);
  EXPECT_EQ(first["placement"], json({{"kind", "shard"}, {"dim", 1}, {"index", 3}, {"count", 4}}));
  EXPECT_EQ(first["layout"], json({"a hook object"}));
  EXPECT_EQ(first["rows"][1]["request"], 1);
  EXPECT_EQ(json::parse(as_json[3])["placement"]["kind"], "replicated");
}

TEST_F(Show, AForeignCallIsSaidToBeAnotherEngines) {
  EXPECT_THAT(lines(ShowWhat::kCalls, false)[2], HasSubstr("  another engine's"));
  EXPECT_EQ(json::parse(lines(ShowWhat::kCalls, true)[2])["foreign"], true);
  EXPECT_EQ(json::parse(lines(ShowWhat::kCalls, true)[0])["foreign"], false);
}

TEST_F(Show, LossesAreAllCountersWithWhatTheyMean) {
  EXPECT_EQ(lines(ShowWhat::kLosses, false),
            (std::vector<std::string>{
                "info  recording  calls                       4",
                "loss  recording  holes                       1  first call 2: aten::linear",
                "error reading    recorder_errors             0"}));
  const json holes = json::parse(lines(ShowWhat::kLosses, true).at(1));
  EXPECT_EQ(holes, json({{"name", "holes"},
                         {"severity", "loss"},
                         {"origin", "recording"},
                         {"value", 1},
                         {"first", "call 2: aten::linear"}}));
}

TEST_F(Show, TheSummarySpreadsEveryByteOverTheKindsOfChunks) {
  std::string joined;
  for (const std::string& line : lines(ShowWhat::kSummary, true)) joined += line + "\n";
  const json object = json::parse(joined);
  std::uint64_t bytes = 0;
  for (const auto& [kind, spread] : object["spread"].items()) {
    bytes += spread["bytes"].get<std::uint64_t>();
  }
  EXPECT_EQ(bytes, object["bytes"]);
  EXPECT_EQ(object["spread"]["program"]["chunks"], 2);
  EXPECT_EQ(object["spread"]["program"]["bytes_a_call"].get<double>() * 4,
            object["spread"]["program"]["bytes"].get<double>());
  EXPECT_THAT(lines(ShowWhat::kSummary, false),
              ::testing::Contains(HasSubstr("spread      program                   ")));
}

TEST_F(Show, AFilterSelectsCallsAndTensors) {
  const auto count = [&](ShowWhat what, CallFilter filter) {
    std::ostringstream out;
    EXPECT_TRUE(show_file(trace_, {what, true, std::move(filter)}, out).ok());
    const std::string text = out.str();
    return std::ranges::count(text, '\n');
  };
  EXPECT_EQ(count(ShowWhat::kCalls, {.scopes = {"model.**"}}), 2);
  EXPECT_EQ(count(ShowWhat::kCalls, {.scopes = {"model.*"}}), 0);
  EXPECT_EQ(count(ShowWhat::kCalls, {.scopes = {"model.**", ""}}), 3);
  EXPECT_EQ(count(ShowWhat::kCalls, {.ops = {"aten::mul"}}), 2);
  EXPECT_EQ(count(ShowWhat::kCalls, {.ops = {"aten::mul.Tensor"}, .last_step = 1}), 1);
  EXPECT_EQ(count(ShowWhat::kTensors, {.first_step = 1, .last_step = 1}), 2);
  EXPECT_EQ(count(ShowWhat::kTensors, {.call = 3}), 1);
  const std::string hash =
      json::parse(lines(ShowWhat::kTensors, true)[0])["hash"].get<std::string>();
  EXPECT_EQ(count(ShowWhat::kTensors, {.hash = hash.substr(0, 8)}), 1);
  EXPECT_EQ(count(ShowWhat::kCalls, {.hash = hash}), 1);
}

TEST_F(Show, TimesAreInsideCallsAndBetweenThemByStepAndOperator) {
  std::string joined;
  for (const std::string& line : lines(ShowWhat::kTimes, true)) joined += line;
  const json times = json::parse(joined);
  const auto trace = TraceReader::open(trace_);
  const auto timings = (*trace)->timings();
  double inside = 0;
  for (const Timing& timing : *timings) inside += static_cast<double>(timing.duration_ns) * 1e-6;
  double by_step = 0;
  std::size_t calls = 0;
  for (const json& step : times["steps"]) {
    by_step += step["inside_ms"].get<double>();
    calls += step["calls"].get<std::size_t>();
    EXPECT_GE(step["between_ms"], 0);
  }
  double by_op = 0;
  double last = std::numeric_limits<double>::infinity();
  for (const json& op : times["ops"]) {
    by_op += op["inside_ms"].get<double>();
    EXPECT_LE(op["inside_ms"], last) << "the longest first";
    last = op["inside_ms"];
  }
  EXPECT_EQ(calls, timings->size());
  EXPECT_GT(inside, 0);
  EXPECT_NEAR(by_step, inside, 1e-9);
  EXPECT_NEAR(by_op, inside, 1e-9);
  const std::vector<std::string> text = lines(ShowWhat::kTimes, false);
  EXPECT_THAT(text.front(), HasSubstr("between ms"));
}

TEST(Steps, AreOneNumberOrARangeWithBothEnds) {
  EXPECT_EQ(*parse_steps("3"), std::pair(3u, 3u));
  EXPECT_EQ(*parse_steps("0..4"), std::pair(0u, 4u));
  for (const char* bad : {"", "..", "3..", "..3", "4..3", "-1", "a", "1..2..3", "4294967296"}) {
    EXPECT_EQ(parse_steps(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

TEST_F(Show, ParametersNameTheirTypeAndWhereTheyComeFrom) {
  const std::vector<std::string> text = lines(ShowWhat::kParameters, false);
  ASSERT_EQ(text.size(), 7u);
  EXPECT_TRUE(text[0].starts_with("model.norm.weight  ")) << text[0];
  EXPECT_THAT(text[0], HasSubstr("float32 [2, 3]"));
  EXPECT_TRUE(text[2].ends_with("  stack")) << text[2];
  const std::vector<std::string> as_json = lines(ShowWhat::kParameters, true);
  ASSERT_EQ(as_json.size(), 7u);
  const json experts = json::parse(as_json[2]);
  EXPECT_EQ(experts["recipe"], "stack");
  EXPECT_EQ(experts["sources"], json({"e.0", "e.1"}));
  EXPECT_EQ(json::parse(as_json[5])["kind"], "buffer");
  EXPECT_EQ(json::parse(as_json[6])["recipe"], "computed");
}

TEST_F(Show, TokensEscapeWhatIsNoText) {
  const std::vector<std::string> text = lines(ShowWhat::kTokens, false);
  EXPECT_EQ(text.at(0), "request 3: 3 prompt + 2 new tokens");
  EXPECT_EQ(text.at(1), "  prompt \"Hello\"");
  EXPECT_EQ(text.at(2), "step 1  id 6  gap 3.5 ulp  logprob -0.25");  // far behind its outputs
  const json object = json::parse(lines(ShowWhat::kTokens, true).at(0));
  EXPECT_EQ(object["requests"][0]["prompt_ids"].size(), 3u);
  EXPECT_EQ(object["requests"][0]["sampling"][0]["origin"], "request");
  EXPECT_EQ(object["steps"][0]["chosen"], 6);
  EXPECT_TRUE(object["steps"][0]["top_logits"][1].is_null()) << "minus infinity";
}

// Also where earlier steps were trimmed away, and of what is not known nothing is said.
TEST_F(Show, TokensFindTheirPieceByPosition) {
  testing::MadeRun run = testing::sample_run(3, 2);
  run.text.requests[0].prompt_ids = {1, 2};
  run.text.requests[0].prompt_pieces = {};
  run.text.requests[0].output_ids = {7, 8, 9};
  run.text.requests[0].output_pieces = {"a", "\n", "c"};
  run.text.steps.erase(run.text.steps.begin());
  for (Step& step : run.text.steps) step.rows = {{0, 0, 1, 1 + step.step}};
  run.text.steps[1].gap_ulp = std::numeric_limits<double>::quiet_NaN();
  trace_ = testing::write_run(folder_, "late.fb", run);
  const std::vector<std::string> text = lines(ShowWhat::kTokens, false);
  ASSERT_GT(text.size(), 2u);
  EXPECT_THAT(text.end()[-2], HasSubstr("step 1  id 101 \"\\n\"  gap"));
  EXPECT_THAT(text.end()[-1], HasSubstr("step 2  id 102 \"c\""));
  EXPECT_THAT(text.end()[-1], ::testing::Not(HasSubstr("gap")));
}

// A buffer that is made late is defined by a later chunk.
TEST_F(Show, FindsParametersThatALaterChunkDefines) {
  testing::MadeRun run = testing::sample_run();
  run.parameters[0].tensor = 15;
  trace_ = testing::write_run(folder_, "late.fb", run);
  EXPECT_THAT(lines(ShowWhat::kParameters, false).at(0), HasSubstr("bfloat16 [1, 32]"));
}

TEST_F(Show, RefusesAParameterThatNothingDefines) {
  testing::MadeRun run = testing::sample_run();
  run.parameters[0].tensor = 18;
  std::ostringstream out;
  const Status status =
      show_file(testing::write_run(folder_, "bad.fb", run), {ShowWhat::kParameters, false}, out);
  EXPECT_EQ(status.code(), Code::kCorrupt);
}

TEST_F(Show, GivesAStatusForWhatIsNoWholeTrace) {
  const Bytes whole = testing::make_trace();
  const std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  std::ostringstream out;
  EXPECT_EQ(show_file(folder_.file("missing.fb"), {}, out).code(), Code::kNotFound);
  EXPECT_EQ(show_file(folder_.write("cut.fb", text.substr(0, 50)), {}, out).code(), Code::kCorrupt);
  EXPECT_EQ(out.str(), "");
  std::string flipped = text;
  flipped[flipped.size() / 3] = static_cast<char>(flipped[flipped.size() / 3] ^ 4);
  const std::string damaged = folder_.write("flipped.fb", flipped);
  bool refused = false;
  for (const ShowWhat what :
       {ShowWhat::kSummary, ShowWhat::kCalls, ShowWhat::kParameters, ShowWhat::kTokens}) {
    refused |= !show_file(damaged, {what, true}, out).ok();
  }
  EXPECT_TRUE(refused);
}

TEST_F(Show, SaysThatATraceWasCut) {
  const Bytes whole = testing::make_trace();
  const std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  std::ostringstream out;
  ASSERT_TRUE(show_file(folder_.write("cut.fb", text.substr(0, text.size() - 9)), {}, out).ok());
  EXPECT_THAT(out.str(), ::testing::HasSubstr("not whole: trace_cut 1; first at offset"));
}

}  // namespace
}  // namespace goldentrace
