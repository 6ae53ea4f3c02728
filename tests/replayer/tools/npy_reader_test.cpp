// Reading .npy files: what NumPy writes, and what is no such file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/tools/load_tensor.h"
#include "replayer/tools/npy.h"
#include "tests/support/run_trace.h"

namespace goldentrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A file with this dict, in format `version`, before these elements.
std::string with_header(const std::string& dict, const std::string& elements, char version = 1) {
  std::string size(version == 1 ? 2 : 4, '\0');
  size[0] = static_cast<char>(dict.size() & 0xff);
  size[1] = static_cast<char>(dict.size() >> 8);
  return std::string("\x93NUMPY") + version + '\0' + size + dict + elements;
}

Result<NpyArray> read(const std::string& text) {
  return read_npy(*open_memory("x.npy", bytes_of(text)));
}

Status refused(const std::string& text) {
  const auto array = read(text);
  EXPECT_FALSE(array.ok());
  if (array.ok()) return {};
  EXPECT_THAT(array.status().message(), ::testing::StartsWith("x.npy: "));
  EXPECT_EQ(array.status().message().find('\n'), std::string::npos);
  return array.status();
}

std::string elements(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i);
  return text;
}

std::string whole_file() { return npy_header("<f4", {2, 3}) + elements(24); }

TEST(NpyReader, ReadsWhatWasWritten) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt64,
                            DType::kUInt8, DType::kBool, DType::kComplex64}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {3}, {2, 3}, {0, 4}, {1, 2, 1, 3}}) {
      std::size_t bytes = item_size(dtype);
      for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
      const auto array = read(npy_header(npy_type(dtype, false)->descr, shape) + elements(bytes));
      ASSERT_TRUE(array.ok()) << array.status().message();
      EXPECT_EQ(array->tensor.dtype, dtype);
      EXPECT_EQ(array->tensor.sizes, shape);
      EXPECT_EQ(array->tensor.bytes, bytes_of(elements(bytes)));
      EXPECT_FALSE(array->opaque);
    }
  }
}

TEST(NpyReader, ColumnsComeOutAsRows) {
  const auto array =
      read(with_header("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", elements(6)));
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->tensor.bytes, bytes_of(std::string("\0\2\4\1\3\5", 6)));
}

TEST(NpyReader, TakesEveryFormOfTheHeader) {
  for (const char* dict : {
           "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }          \n",
           "{\"shape\": (3,), \"descr\": \"<u2\", \"fortran_order\": False}",
           "{ 'fortran_order':False,'descr':'<u2','shape':( 3 ) }\n",
       }) {
    for (const char version : {'\1', '\2', '\3'}) {
      const auto array = read(with_header(dict, elements(6), version));
      ASSERT_TRUE(array.ok()) << dict << array.status().message();
      EXPECT_THAT(array->tensor.sizes, ElementsAre(3));
    }
  }
}

TEST(NpyReader, BitsWithoutMeaningAreTakenWhereTheyCanBeBfloat16) {
  testing::TempFolder folder;
  for (const char* descr : {"<V2", "|V2", "<u2"}) {
    const std::string path = folder.write("x.npy", npy_header(descr, {2}) + elements(4));
    const auto tensor = load_tensor(path, "", DType::kBFloat16);
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    EXPECT_EQ(tensor->dtype, DType::kBFloat16);
    const auto other = load_tensor(path, "", DType::kFloat16);
    EXPECT_EQ(other.ok(), std::string(descr) == "<u2");
  }
}

TEST(NpyReader, EveryPrefixAndEveryLongerFileIsRefused) {
  const std::string whole = whole_file();
  ASSERT_TRUE(read(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    EXPECT_EQ(refused(whole.substr(0, size)).code(), Code::kCorrupt);
  }
  EXPECT_EQ(refused(whole + "x").code(), Code::kCorrupt);
}

TEST(NpyReader, AFlippedByteOfTheHeaderIsRefusedOrReadAsItSays) {
  const std::string whole = whole_file();
  for (std::size_t i = 0; i < whole.size() - 24; ++i) {
    for (const int bit : {1, 2, 4, 8, 16, 32, 64, 128}) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ bit);
      const auto array = read(flipped);
      if (!array.ok()) continue;
      EXPECT_EQ(array->tensor.bytes.size(), 24u) << i;
    }
  }
}

TEST(NpyReader, WhatIsNoArrayOfNumbersIsRefusedWithAReason) {
  struct Case {
    const char* why;
    std::string dict;
    Code code;
    const char* word;
  };
  const std::string rest = "', 'fortran_order': False, 'shape': (3,), }";
  const Case cases[] = {
      {"big-endian", "{'descr': '>f4" + rest, Code::kUnsupported, "'>f4'"},
      {"objects", "{'descr': '|O" + rest, Code::kUnsupported, "'|O'"},
      {"text", "{'descr': '<U8" + rest, Code::kUnsupported, "'<U8'"},
      {"records", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
       Code::kUnsupported, "[..]"},
      {"another size", "{'descr': '<f8" + rest, Code::kCorrupt, "takes 24"},
      {"a negative size", "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
       Code::kCorrupt, "no description"},
      {"more than 64 bits",
       "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, "
       "4294967296), }",
       Code::kCorrupt, "larger than any file"},
      {"a size of 70 bits",
       "{'descr': '<f4', 'fortran_order': False, 'shape': "
       "(999999999999999999999,), }",
       Code::kCorrupt, "no description"},
      {"no shape", "{'descr': '<f4', 'fortran_order': False}", Code::kCorrupt, "no description"},
      {"another key", "{'descr': '<f4', 'order': False, 'shape': (3,)}", Code::kCorrupt,
       "no description"},
      {"more behind it", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} {}",
       Code::kCorrupt, "no description"},
      {"nothing", "", Code::kCorrupt, "no description"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Status status = refused(with_header(c.dict, elements(12)));
    EXPECT_EQ(status.code(), c.code);
    EXPECT_THAT(status.message(), HasSubstr(c.word));
  }
  std::string later = whole_file();
  later[6] = 4;
  EXPECT_EQ(refused(later).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace goldentrace
