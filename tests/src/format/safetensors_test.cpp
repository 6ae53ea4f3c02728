#include "src/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/temp_folder.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xffu);
  return bytes;
}

std::string safetensors(const std::string& json, const std::string& data) {
  return length_bytes(json.size()) + json + data;
}

// One uint8 tensor `name` that holds `data`.
std::string one_tensor(const std::string& name, const std::string& data) {
  const std::string size = std::to_string(data.size());
  return safetensors("{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + size +
                         "],\"data_offsets\":[0," + size + "]}}",
                     data);
}

std::string read_text(const Checkpoint& checkpoint, const std::string& name) {
  const Checkpoint::Entry* entry = checkpoint.find(name);
  if (entry == nullptr) return "(no such tensor)";
  std::string text(entry->bytes, '\0');
  const Status status = checkpoint.read(*entry, std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : status.message();
}

TEST(Checkpoint, ReadsNamesShapesAndBytesOfOneFile) {
  const TempFolder folder;
  const auto checkpoint = Checkpoint::open(folder.write(
      "m.safetensors", safetensors(R"({"__metadata__":{"format":"pt"},)"
                                   R"("w":{"dtype":"BF16","shape":[2,1],"data_offsets":[3,7]},)"
                                   R"("b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                   R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[7,7]},)"
                                   R"("scalar":{"dtype":"I8","shape":[],"data_offsets":[7,8]}}   )",
                                   "abcdefgh")));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->entries().size(), 4u);
  const Checkpoint::Entry* w = checkpoint->find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dtype, DType::kBFloat16);
  EXPECT_EQ(w->sizes, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(read_text(*checkpoint, "w"), "defg");
  EXPECT_EQ(read_text(*checkpoint, "b"), "abc");
  EXPECT_EQ(read_text(*checkpoint, "none"), "");
  EXPECT_EQ(read_text(*checkpoint, "scalar"), "h");
  EXPECT_EQ(checkpoint->find("__metadata__"), nullptr);
  std::array<std::byte, 3> wrong_size{};
  EXPECT_EQ(checkpoint->read(*w, wrong_size).code(), Code::kInvalidArgument);
}

TEST(Checkpoint, KnowsEveryDtypeOfTheFormat) {
  const std::pair<const char*, DType> dtypes[] = {
      {"BF16", DType::kBFloat16},
      {"F32", DType::kFloat32},
      {"F16", DType::kFloat16},
      {"F64", DType::kFloat64},
      {"I64", DType::kInt64},
      {"I32", DType::kInt32},
      {"I16", DType::kInt16},
      {"I8", DType::kInt8},
      {"U8", DType::kUInt8},
      {"BOOL", DType::kBool},
      {"F8_E4M3", DType::kFloat8E4M3FN},
      {"F8_E5M2", DType::kFloat8E5M2},
      {"U16", DType::kUInt16},
      {"U32", DType::kUInt32},
      {"U64", DType::kUInt64},
      {"C64", DType::kComplex64},
  };
  const TempFolder folder;
  for (const auto& [name, dtype] : dtypes) {
    SCOPED_TRACE(name);
    const std::size_t size = item_size(dtype);
    const auto checkpoint = Checkpoint::open(folder.write(
        "m.safetensors",
        safetensors(std::string(R"({"t":{"dtype":")") + name +
                        R"(","shape":[1],"data_offsets":[0,)" + std::to_string(size) + "]}}",
                    std::string(size, 'x'))));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_EQ(checkpoint->find("t")->dtype, dtype);
  }
}

TEST(Checkpoint, RefusesHeadersThatBreakTheRules) {
  const auto tensor = [](const std::string& members) {
    return safetensors("{\"t\":{" + members + "}}", "12345678");
  };
  struct Case {
    const char* why;
    std::string file;
  };
  const Case cases[] = {
      {"empty file", ""},
      {"shorter than the length", "1234567"},
      {"length beyond the file", length_bytes(3) + "{}"},
      {"length beyond the limit", length_bytes(100'000'001) + "{}"},
      {"length that wraps around", length_bytes(~std::uint64_t{0}) + "{}"},
      {"no header", length_bytes(0)},
      {"not JSON", safetensors("{\"t\":", "")},
      {"not an object", safetensors("[1]", "")},
      {"not UTF-8", safetensors("{\"\xff\":1}", "")},
      {"nested without end", safetensors(std::string(200'000, '['), "")},
      {"tensor is no object", safetensors("{\"t\":1}", "")},
      {"no dtype", tensor(R"("shape":[8],"data_offsets":[0,8])")},
      {"dtype is no string", tensor(R"("dtype":8,"shape":[8],"data_offsets":[0,8])")},
      {"unknown dtype", tensor(R"("dtype":"F4","shape":[8],"data_offsets":[0,8])")},
      {"no shape", tensor(R"("dtype":"U8","data_offsets":[0,8])")},
      {"shape is no list", tensor(R"("dtype":"U8","shape":8,"data_offsets":[0,8])")},
      {"negative size", tensor(R"("dtype":"U8","shape":[-8],"data_offsets":[0,8])")},
      {"size is no integer", tensor(R"("dtype":"U8","shape":[8.0],"data_offsets":[0,8])")},
      {"sizes overflow",
       tensor(R"("dtype":"U8","shape":[4294967296,4294967296,8],"data_offsets":[0,8])")},
      {"size over 63 bits behind a zero",
       tensor(R"("dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[0,0])")},
      {"no offsets", tensor(R"("dtype":"U8","shape":[8])")},
      {"one offset", tensor(R"("dtype":"U8","shape":[8],"data_offsets":[8])")},
      {"offsets the wrong way", tensor(R"("dtype":"U8","shape":[8],"data_offsets":[8,0])")},
      {"negative offset", tensor(R"("dtype":"U8","shape":[8],"data_offsets":[-1,7])")},
      {"past the end", tensor(R"("dtype":"U8","shape":[8],"data_offsets":[1,9])")},
      {"far past the end",
       tensor(
           R"("dtype":"U8","shape":[8],"data_offsets":[18446744073709551607,18446744073709551615])")},
      {"shorter than its shape", tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0,7])")},
      {"longer than its shape", tensor(R"("dtype":"F16","shape":[3],"data_offsets":[0,8])")},
  };
  const TempFolder folder;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const std::string path = folder.write("m.safetensors", c.file);
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_EQ(checkpoint.status().code(), Code::kCorrupt);
    EXPECT_THAT(checkpoint.status().message(), HasSubstr(path + ": at offset "));
  }
}

TEST(Checkpoint, ReadsPastMetadataThatIsEndlesslyNested) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string file = safetensors(
      R"({"__metadata__":)" + deep + R"(,"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
      "ab");
  const auto bytes = std::as_bytes(std::span(file));
  const auto checkpoint = Checkpoint::open(open_memory("t", {bytes.begin(), bytes.end()}));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(read_text(*checkpoint, "t"), "ab");
}

TEST(Checkpoint, EveryPrefixAndEveryFlippedByteIsRefusedOrRead) {
  const TempFolder folder;
  const std::string whole = one_tensor("t", "12345678");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto checkpoint = Checkpoint::open(folder.write("m.safetensors", whole.substr(0, size)));
    ASSERT_EQ(checkpoint.status().code(), Code::kCorrupt) << size;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x81);
    (void)Checkpoint::open(folder.write("m.safetensors", flipped));
  }
}

TEST(Checkpoint, AFolderIsReadByItsIndexElseItsOneFileElseAllFiles) {
  const TempFolder folder;
  (void)folder.write("b.safetensors", one_tensor("b", "bb"));
  (void)folder.write("a.safetensors", one_tensor("a", "aaa"));
  (void)folder.write("notes.txt", "not a checkpoint");
  const auto all = Checkpoint::open(folder.path());
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(read_text(*all, "a"), "aaa");
  EXPECT_EQ(read_text(*all, "b"), "bb");
  EXPECT_EQ(all->find("a")->file, 0u);
  EXPECT_EQ(all->find("b")->file, 1u);

  (void)folder.write("model.safetensors", one_tensor("m", "mmmm"));
  const auto single = Checkpoint::open(folder.path());
  ASSERT_TRUE(single.ok()) << single.status().message();
  EXPECT_EQ(single->entries().size(), 1u);
  EXPECT_EQ(read_text(*single, "m"), "mmmm");

  (void)folder.write("model.safetensors.index.json",
                     R"({"weight_map":{"a":"a.safetensors","x":"a.safetensors"}})");
  const auto sharded = Checkpoint::open(folder.path());
  ASSERT_TRUE(sharded.ok()) << sharded.status().message();
  EXPECT_EQ(sharded->entries().size(), 1u);
  EXPECT_EQ(read_text(*sharded, "a"), "aaa");
}

TEST(Checkpoint, RefusesIndexFilesThatBreakTheRules) {
  struct Case {
    const char* why;
    const char* index;
    Code code;
  };
  const Case cases[] = {
      {"not JSON", "{", Code::kCorrupt},
      {"a list", "[]", Code::kCorrupt},
      {"no weight_map", "{}", Code::kCorrupt},
      {"weight_map is no object", R"({"weight_map":[]})", Code::kCorrupt},
      {"a number for a file", R"({"weight_map":{"a":1}})", Code::kCorrupt},
      {"a file elsewhere", R"({"weight_map":{"a":"../a.safetensors"}})", Code::kCorrupt},
      {"a missing shard", R"({"weight_map":{"a":"c.safetensors"}})", Code::kNotFound},
  };
  const TempFolder folder;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    (void)folder.write("model.safetensors.index.json", c.index);
    EXPECT_EQ(Checkpoint::open(folder.path()).status().code(), c.code);
  }
}

TEST(Checkpoint, ATensorInTwoFilesIsRefused) {
  const TempFolder folder;
  (void)folder.write("a.safetensors", one_tensor("same", "1"));
  (void)folder.write("b.safetensors", one_tensor("same", "1"));
  const auto checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(checkpoint.status().code(), Code::kCorrupt);
  EXPECT_THAT(checkpoint.status().message(), HasSubstr("b.safetensors"));
}

TEST(Checkpoint, NothingThereIsNotFound) {
  const TempFolder folder;
  const auto empty = Checkpoint::open(folder.path());
  EXPECT_EQ(empty.status().code(), Code::kNotFound);
  EXPECT_EQ(empty.status().message(), folder.path() + ": holds no .safetensors file");
  EXPECT_EQ(Checkpoint::open(folder.file("none")).status().code(), Code::kNotFound);
  EXPECT_EQ(Checkpoint::open(folder.file("none.safetensors")).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace goldentrace
