#include "src/base/io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "tests/support/temp_folder.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;
using testing::to_bytes;

TEST(Io, WhatIsWrittenToAFileIsReadBack) {
  const TempFolder folder;
  auto sink = create_file(folder.file("f"));
  ASSERT_TRUE(sink.ok()) << sink.status().message();
  EXPECT_TRUE((*sink)->write(to_bytes("hello ")).ok());
  EXPECT_TRUE((*sink)->write(to_bytes("there")).ok());
  EXPECT_TRUE((*sink)->close().ok());

  const auto source = open_file(folder.file("f"));
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->size(), 11u);
  std::vector<std::byte> out(5);
  EXPECT_TRUE((*source)->read(6, out).ok());
  EXPECT_EQ(out, to_bytes("there"));
  EXPECT_EQ(*read_text_file(folder.file("f"), 11), "hello there");
}

TEST(Io, EachWayToMissAFileHasItsCode) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  struct Case {
    const char* why;
    std::string path;
    Code code;
  };
  const Case cases[] = {
      {"no such file", folder.file("missing"), Code::kNotFound},
      {"a folder is no file", folder.path(), Code::kIo},
      {"a pipe without a writer must not block", folder.file("pipe"), Code::kIo},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const auto source = open_file(c.path);
    ASSERT_FALSE(source.ok());
    EXPECT_EQ(source.status().code(), c.code);
    EXPECT_THAT(source.status().message(), HasSubstr(c.path));
  }
  EXPECT_EQ(create_file(folder.file("no/such/folder")).status().code(), Code::kNotFound);
  EXPECT_EQ(create_file(folder.path()).status().code(), Code::kIo);
}

TEST(Io, AReadPastTheEndSaysOffsetWantedAndLeft) {
  const TempFolder folder;
  const auto file = open_file(folder.write("f", "12345678"));
  ASSERT_TRUE(file.ok());
  const auto memory = open_memory(folder.file("f"), to_bytes("12345678"));
  std::array<std::byte, 4> out{};
  for (const ByteSource* source : {file->get(), memory.get()}) {
    EXPECT_TRUE(source->read(4, out).ok());
    EXPECT_TRUE(source->read(8, std::span(out).first(0)).ok());
    const Status status = source->read(5, out);
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(status.message(),
              folder.file("f") + ": at offset 5: wanted 4 bytes, only 3 left (truncated?)");
    EXPECT_EQ(source->read(~std::uint64_t{0}, out).code(), Code::kCorrupt);
  }
}

TEST(Io, AFileThatShrinksWhileItIsReadIsRefused) {
  const TempFolder folder;
  const auto source = open_file(folder.write("f", "12345678"));
  ASSERT_TRUE(source.ok());
  (void)folder.write("f", "123");
  std::array<std::byte, 4> out{};
  EXPECT_EQ((*source)->read(2, out).code(), Code::kCorrupt);
}

TEST(Io, ATextFileOverItsLimitIsRefused) {
  const TempFolder folder;
  const std::string path = folder.write("config.json", "12345");
  EXPECT_TRUE(read_text_file(path, 5).ok());
  EXPECT_EQ(read_text_file(path, 4).status().code(), Code::kCorrupt);
  EXPECT_EQ(*read_text_file(folder.write("empty", ""), 4), "");
}

TEST(Io, AFullDiskIsReportedByWriteAndByClose) {
  auto sink = create_file("/dev/full");
  if (!sink.ok()) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_EQ((*sink)->write(to_bytes("x")).code(), Code::kIo);
  EXPECT_EQ((*sink)->write(to_bytes("y")).code(), Code::kIo);
  EXPECT_EQ((*sink)->close().code(), Code::kIo);
}

}  // namespace
}  // namespace goldentrace
