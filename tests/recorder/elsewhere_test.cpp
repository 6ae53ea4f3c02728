// Verification by a LibTorch that is not the one of the recording: what it lacks is listed, not
// guessed. The traces are made by hand, as another version would have written them.
#include <gmock/gmock.h>

#include "replayer/execute/verify.h"
#include "src/format/trace_writer.h"
#include "tests/support/temp_folder.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;

class ElsewhereTest : public ::testing::Test {
 protected:
  ElsewhereTest() {
    chunk_.strings = {"cpu"};
    chunk_.scopes = {""};
    chunk_.geometries = {{{4}, {1}}};
    chunk_.ambients = {{.matmul_precision = "highest"}};
    new_tensor();
  }

  // float32 [4] in memory of its own.
  std::uint32_t new_tensor() {
    const auto id = static_cast<std::uint32_t>(chunk_.tensors.size());
    chunk_.storages.push_back({16, 0});
    chunk_.tensors.push_back({.storage = id});
    return id;
  }

  // Appends op(arguments...) -> a new tensor, whose id is returned.
  std::uint32_t call(const Operator& op, std::vector<Node> arguments) {
    Call call;
    call.op = static_cast<std::uint32_t>(chunk_.operators.size());
    chunk_.operators.push_back(op);
    call.arguments = static_cast<std::uint16_t>(arguments.size());
    call.results = 1;
    call.first_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    chunk_.nodes.insert(chunk_.nodes.end(), arguments.begin(), arguments.end());
    call.first_result = static_cast<std::uint32_t>(chunk_.nodes.size());
    const std::uint32_t result = new_tensor();
    chunk_.nodes.push_back(tensor(result));
    call.end_node = static_cast<std::uint32_t>(chunk_.nodes.size());
    chunk_.calls.push_back(call);
    chunk_.timings.emplace_back();
    return result;
  }

  static Node tensor(std::uint32_t id) { return {NodeKind::kTensor, 0, id}; }

  VerifyReport verify_with(double max_loss) {
    const std::string path = folder_.file("trace.fb");
    auto sink = create_file(path);
    EXPECT_TRUE(sink.ok());
    Header header;
    header.environment = {{"torch", "1.0.0"}};
    auto writer = TraceWriter::create(std::move(*sink), header);
    EXPECT_TRUE(writer.ok());
    EXPECT_TRUE((*writer)->write_program(chunk_).ok());
    EXPECT_TRUE((*writer)->close({{}, chunk_.calls.size(), 0}).ok());
    std::string none("\x02\0\0\0\0\0\0\0{}", 10);
    const auto report = verify(
        {.trace = path, .weights = folder_.write("none.safetensors", none), .max_loss = max_loss});
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : VerifyReport();
  }

 private:
  ProgramChunk chunk_;
  testing::TempFolder folder_;
};

TEST_F(ElsewhereTest, AnOperatorThatIsMissingIsListedWithWhatItCosts) {
  const std::uint32_t made = call({"vendor::fused", ""}, {tensor(0)});
  call({"aten::neg", ""}, {tensor(made)});
  for (int i = 0; i < 98; ++i) call({"aten::neg", ""}, {tensor(0)});
  const VerifyReport report = verify_with(0.01);
  EXPECT_EQ(report.mode, VerifyMode::kElsewhere);
  EXPECT_EQ(report.executed, 98u);
  ASSERT_EQ(report.lost.size(), 2u);
  EXPECT_EQ(report.lost.at("vendor::fused").why, "this LibTorch has no such operator");
  EXPECT_THAT(report.lost.at("aten::neg").why, HasSubstr("an input was never made"));
  EXPECT_EQ(verify_exit_status(report), 2);  // 2 of 100 are more than 1 %
  EXPECT_EQ(verify_exit_status(verify_with(0.02)), 0);
}

TEST_F(ElsewhereTest, AnOperatorThatLostAnArgumentIsListed) {
  call({"aten::neg", ""}, {tensor(0), {NodeKind::kNone, 0, 0}});
  const VerifyReport report = verify_with(0.01);
  EXPECT_EQ(report.lost.at("aten::neg").why, "takes 1 arguments here, had 2 when recorded");
  EXPECT_EQ(verify_exit_status(report), 2);
}

TEST_F(ElsewhereTest, AnArgumentThatWasAddedSinceTakesItsDefault) {
  call({"aten::add", "Tensor"}, {tensor(0), tensor(0)});
  const VerifyReport report = verify_with(0.01);
  EXPECT_EQ(report.executed, 1u);
  EXPECT_EQ(verify_exit_status(report), 0);
}

TEST_F(ElsewhereTest, AnAddedArgumentWithoutADefaultIsListed) {
  call({"aten::add", "Tensor"}, {tensor(0)});
  EXPECT_EQ(verify_with(0.01).lost.at("aten::add.Tensor").why, "needs argument 'other' here");
}

}  // namespace
}  // namespace goldentrace
