// `replay export`: what is in the files that it writes.
#include "replayer/tools/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "replayer/tools/npy.h"
#include "src/format/safetensors.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::Keep;
using testing::MadeRun;
using testing::TempFolder;

std::string text_of(const std::string& path) {
  const auto text = read_text_file(path, 1u << 20);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : "";
}

class Export : public ::testing::Test {
 protected:
  void write(const MadeRun& run) { trace_ = testing::write_run(folder_, "t.fb", run); }
  Result<ExportReport> to(const std::string& name, CallFilter filter, bool bits = false) {
    return export_trace({trace_, folder_.file(name), std::move(filter), bits});
  }
  bool exists(const std::string& name) { return std::filesystem::exists(folder_.file(name)); }
  // Nothing but the trace is there.
  bool nothing_left() {
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      ++files;
    }
    return files == 1;
  }
  TempFolder folder_;
  std::string trace_;
};

MadeRun run_with(DType dtype, const std::vector<double>& values) {
  MadeRun run = testing::sample_run(1, 1, Keep::kValues);
  run.steps[0][0].outputs[0] = {values, dtype, Keep::kValues};
  return run;
}

TEST_F(Export, AnNpyFileHoldsTheElementsAfterAPaddedHeader) {
  const std::vector<double> values = {1.5, -2, 0.25};
  write(run_with(DType::kFloat32, values));
  const auto report = to("x.npy", {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->written, 1u);
  EXPECT_EQ(report->bytes, 12u);
  EXPECT_TRUE(report->notes.empty());
  const std::string text = text_of(folder_.file("x.npy"));
  ASSERT_EQ(text.size(), 128u + 12u);
  EXPECT_EQ(text.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_THAT(text, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }"));
  EXPECT_EQ(text[127], '\n');
  const Bytes dense = testing::dense_of(DType::kFloat32, values);
  EXPECT_EQ(std::memcmp(text.data() + 128, dense.data(), dense.size()), 0);
}

TEST_F(Export, Bfloat16BecomesFloat32OrItsBits) {
  const std::vector<double> values = {1.5, -2, 0.1};
  write(run_with(DType::kBFloat16, values));
  const auto wide = to("x.npy", {});
  ASSERT_TRUE(wide.ok());
  ASSERT_EQ(wide->notes.size(), 1u);
  EXPECT_THAT(wide->notes[0], HasSubstr("written as float32, exactly"));
  const std::string text = text_of(folder_.file("x.npy"));
  ASSERT_EQ(text.size(), 128u + 12u);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float value = 0;
    std::memcpy(&value, text.data() + 128 + 4 * i, 4);
    EXPECT_EQ(value, bfloat16_to_float(testing::bfloat16_bits(values[i])));
  }
  ASSERT_TRUE(to("bits.npy", {}, true).ok());
  EXPECT_THAT(text_of(folder_.file("bits.npy")), HasSubstr("'<u2'"));
}

TEST_F(Export, PartsMayEndInsideAnElement) {
  const std::vector<double> values = testing::numbers(1, 50);
  const Bytes dense = testing::dense_of(DType::kBFloat16, values);
  MadeRun run = run_with(DType::kBFloat16, values);
  auto sink = create_file(folder_.file("t.fb"));
  ASSERT_TRUE(sink.ok());
  WriterOptions odd;
  odd.alone = 1;
  odd.max_part = 7;
  auto writer = TraceWriter::create(std::move(*sink), run.header, odd);
  testing::RunWriter program(**writer);
  program.write_step(0, run.steps[0]);
  ASSERT_TRUE((*writer)->close({{}, 1, 1}).ok());
  trace_ = folder_.file("t.fb");
  ASSERT_TRUE(to("x.npy", {}).ok());
  const std::string text = text_of(folder_.file("x.npy"));
  ASSERT_EQ(text.size(), 128 + 4 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    float value = 0;
    std::memcpy(&value, text.data() + 128 + 4 * i, 4);
    EXPECT_EQ(value, bfloat16_to_float(testing::bfloat16_bits(values[i]))) << i;
  }
  ASSERT_TRUE(to("x.safetensors", {}).ok());
  const std::string tensors = text_of(folder_.file("x.safetensors"));
  EXPECT_EQ(std::memcmp(tensors.data() + tensors.size() - dense.size(), dense.data(), dense.size()),
            0);
}

TEST_F(Export, AnNpyFileRefusesSeveralTensorsAndListsThem) {
  write(testing::sample_run(3, 6, Keep::kValues));
  const auto report = to("x.npy", {.scopes = {"model.layers.1"}});
  EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(report.status().message(), HasSubstr("6 tensors are selected"));
  EXPECT_THAT(report.status().message(), HasSubstr("'model.layers.1/aten::linear' (call 2)"));
  EXPECT_TRUE(nothing_left());
  EXPECT_TRUE(
      to("x.npy", {.scopes = {"model.layers.1"}, .ops = {"aten::mul"}, .last_step = 0}).ok());
  EXPECT_TRUE(to("y.npy", {.call = 2}).ok());
}

TEST_F(Export, EqualTensorsAreOneForAnNpyFile) {
  MadeRun run = testing::sample_run(2, 1, Keep::kValues);
  run.steps[1][0] = run.steps[0][0];
  write(run);
  const std::string hash =
      to_hex(testing::digest_of(DType::kBFloat16, run.steps[0][0].outputs[0].values).hash);
  const auto report = to("x.npy", {.hash = hash.substr(0, 8)});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->selected, 2u);
  EXPECT_EQ(to("y.npy", {.hash = "0000000000"}).status().code(), Code::kNotFound);
}

TEST_F(Export, SafetensorsHoldsAllThatIsSelectedUnderItsNames) {
  MadeRun run = testing::sample_run(2, 4, Keep::kValues);
  run.steps[0][1].op = "aten::linear";  // twice in one module
  run.steps[0][2].scope = "";
  run.steps[0][3].outputs[0] = {{1, 2, 3}, DType::kInt64, Keep::kValues, true};
  write(run);
  const auto report = to("x.safetensors", {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->written, 8u);
  const auto file = Checkpoint::open(folder_.file("x.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->entries().size(), 8u);
  for (const char* name :
       {"model.layers.0/aten::linear", "model.layers.0/aten::linear#2", "aten::linear",
        "model.layers.1/aten::mul", "model.layers.0/aten::linear/step 1",
        "model.layers.1/aten::mul/step 1"}) {
    EXPECT_NE(file->find(name), nullptr) << name;
  }
  const Checkpoint::Entry* entry = file->find("model.layers.0/aten::linear#2");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->dtype, DType::kBFloat16);
  EXPECT_EQ(entry->sizes, (std::vector<std::int64_t>{1, 32}));
  Bytes bytes(entry->bytes);
  ASSERT_TRUE(file->read(*entry, bytes).ok());
  EXPECT_EQ(bytes, testing::dense_of(DType::kBFloat16, run.steps[0][1].outputs[0].values));
  for (const auto& [name, tensor] : file->entries()) {
    EXPECT_EQ(tensor.offset % item_size(tensor.dtype), 0u) << name;
  }
}

TEST_F(Export, NumbersOfEqualNamesAreThoseOfTheWholeProgram) {
  MadeRun run = testing::sample_run(1, 2, Keep::kValues);
  run.steps[0][1].op = "aten::linear";
  write(run);
  ASSERT_TRUE(to("x.safetensors", {.call = 1}).ok());
  const auto file = Checkpoint::open(folder_.file("x.safetensors"));
  ASSERT_TRUE(file.ok());
  EXPECT_NE(file->find("model.layers.0/aten::linear#2"), nullptr);
}

TEST_F(Export, ValuesThatWereNotKeptAreCountedOrRefused) {
  MadeRun run = testing::sample_run(1, 3, Keep::kValues);
  run.steps[0][1].outputs[0].keep = Keep::kStats;
  run.steps[0][2].outputs[0].keep = Keep::kNothing;
  write(run);
  const auto report = to("x.safetensors", {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->written, 1u);
  EXPECT_EQ(report->not_kept, 2u);
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_THAT(report->notes[0], HasSubstr("2 selected without a value are left out"));
  for (const char* name : {"y.npy", "y.safetensors"}) {
    const auto none = to(name, {.call = 1});
    EXPECT_EQ(none.status().code(), Code::kNotFound);
    EXPECT_THAT(none.status().message(), HasSubstr("record with --rule 'scope=...:values'"));
    EXPECT_FALSE(exists(name));
  }
}

TEST_F(Export, JsonLinesHoldTheSelectedCalls) {
  write(testing::sample_run(3, 6));
  ASSERT_TRUE(to("x.jsonl", {.ops = {"aten::mu?"}, .first_step = 1, .last_step = 1}).ok());
  std::istringstream lines(text_of(folder_.file("x.jsonl")));
  std::vector<std::uint64_t> calls;
  for (std::string line; std::getline(lines, line);) {
    calls.push_back(nlohmann::json::parse(line)["call"]);
  }
  EXPECT_EQ(calls, (std::vector<std::uint64_t>{7, 9, 11}));
  EXPECT_EQ(to("y.jsonl", {.scopes = {"nowhere"}}).status().code(), Code::kNotFound);
  EXPECT_FALSE(exists("y.jsonl"));
}

TEST_F(Export, AnotherEndingTheTraceItselfOrAFolderThatIsNotThereIsRefused) {
  write(testing::sample_run(1, 1, Keep::kValues));
  EXPECT_EQ(to("x.pt", {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(export_trace({trace_, folder_.file("no/x.npy"), {}}).status().code(), Code::kNotFound);
  EXPECT_EQ(export_trace({trace_, "/dev/full.npy/x.npy", {}}).ok(), false);
  std::filesystem::rename(trace_, folder_.file("t.npy"));
  trace_ = folder_.file("t.npy");
  EXPECT_EQ(to("t.npy", {}).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Export, AFailureLeavesTheFileThatWasThere) {
  write(testing::sample_run(3, 6, Keep::kValues));
  (void)folder_.write("x.npy", "precious");
  EXPECT_FALSE(to("x.npy", {}).ok());
  EXPECT_EQ(text_of(folder_.file("x.npy")), "precious");
  EXPECT_FALSE(exists("x.npy.partial"));
}

struct Type {
  DType dtype;
  const char* descr;
  const char* bits;
};

TEST(Npy, NamesTheTypesOfNumpy) {
  const Type types[] = {
      {DType::kBool, "|b1", "|b1"},         {DType::kUInt8, "|u1", "|u1"},
      {DType::kInt8, "|i1", "|i1"},         {DType::kInt64, "<i8", "<i8"},
      {DType::kUInt16, "<u2", "<u2"},       {DType::kFloat16, "<f2", "<f2"},
      {DType::kFloat64, "<f8", "<f8"},      {DType::kComplex64, "<c8", "<c8"},
      {DType::kComplex128, "<c16", "<c16"}, {DType::kBFloat16, "<f4", "<u2"},
      {DType::kFloat8E4M3FN, "<f4", "|u1"}, {DType::kFloat8E5M2FNUZ, "<f4", "|u1"},
  };
  for (const Type& type : types) {
    SCOPED_TRACE(std::string(dtype_name(type.dtype)));
    EXPECT_EQ(npy_type(type.dtype, false)->descr, type.descr);
    EXPECT_EQ(npy_type(type.dtype, true)->descr, type.bits);
  }
  EXPECT_EQ(npy_type(DType::kComplex32, false).status().code(), Code::kUnsupported);
  EXPECT_EQ(npy_type(DType::kComplex32, true)->descr, "<u4");
}

TEST(Npy, ShapesAreTuples) {
  EXPECT_THAT(npy_header("<f4", {}), HasSubstr("'shape': (), }"));
  EXPECT_THAT(npy_header("<f4", {3}), HasSubstr("'shape': (3, ), }"));
  EXPECT_THAT(npy_header("<f4", {3, 0}), HasSubstr("'shape': (3, 0), }"));
  for (std::size_t rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(npy_header("<f4", std::vector<std::int64_t>(rank, 1234567)).size() % 64, 0u);
  }
}

struct Float8Case {
  DType dtype;
  unsigned bits;
  float value;
};

// From the definitions (OCP 8-bit floats; AMD's and Graphcore's fnuz variants).
TEST(Npy, EightBitFloatsAreWidenedExactly) {
  const float inf = std::numeric_limits<float>::infinity();
  const Float8Case cases[] = {
      {DType::kFloat8E4M3FN, 0x38, 1.0f},       {DType::kFloat8E4M3FN, 0x7e, 448.0f},
      {DType::kFloat8E4M3FN, 0x01, 0x1p-9f},    {DType::kFloat8E4M3FN, 0xb8, -1.0f},
      {DType::kFloat8E5M2, 0x3c, 1.0f},         {DType::kFloat8E5M2, 0x7b, 57344.0f},
      {DType::kFloat8E5M2, 0x7c, inf},          {DType::kFloat8E5M2, 0xfc, -inf},
      {DType::kFloat8E5M2, 0x01, 0x1p-16f},     {DType::kFloat8E4M3FNUZ, 0x40, 1.0f},
      {DType::kFloat8E4M3FNUZ, 0x7f, 240.0f},   {DType::kFloat8E4M3FNUZ, 0x01, 0x1p-10f},
      {DType::kFloat8E5M2FNUZ, 0x40, 1.0f},     {DType::kFloat8E5M2FNUZ, 0x7f, 57344.0f},
      {DType::kFloat8E5M2FNUZ, 0x01, 0x1p-17f},
  };
  for (const Float8Case& c : cases) {
    const auto byte = static_cast<std::byte>(c.bits);
    EXPECT_EQ(to_float32(c.dtype, &byte), c.value) << dtype_name(c.dtype) << " " << c.bits;
  }
  for (const auto& [dtype, bits] :
       {std::pair(DType::kFloat8E4M3FN, 0x7fu), std::pair(DType::kFloat8E5M2, 0x7du),
        std::pair(DType::kFloat8E4M3FNUZ, 0x80u), std::pair(DType::kFloat8E5M2FNUZ, 0x80u)}) {
    const auto byte = static_cast<std::byte>(bits);
    EXPECT_TRUE(std::isnan(to_float32(dtype, &byte))) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace goldentrace
