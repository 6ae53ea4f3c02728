// Writer and reader together: what is written is read back, and faults while writing are told.
#include "src/format/trace_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/digest/digest.h"
#include "src/format/trace_reader.h"
#include "tests/support/temp_folder.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

using testing::FileBuilder;
using testing::make_trace;
using testing::rich_chunk;
using testing::to_bytes;

TEST(Trace, WhatIsWrittenIsReadBack) {
  const Bytes file = make_trace(2);
  const testing::ReadOutcome outcome = testing::read_all(file);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_EQ(outcome.calls, 5u);
  EXPECT_EQ(outcome.values, 1u);

  const auto reader = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ((*reader)->file_size(), file.size());
  EXPECT_EQ((*reader)->header().major, kFormatMajor);
  EXPECT_EQ((*reader)->header().minor, kFormatMinor);
  EXPECT_EQ((*reader)->header().engine, "transformers");
  EXPECT_EQ((*reader)->summary().calls, 5u);
  EXPECT_EQ(*(*reader)->parameters(), testing::sample_parameters());
  EXPECT_EQ((*reader)->text()->steps, testing::sample_text().steps);
  const auto timings = (*reader)->timings();
  ASSERT_TRUE(timings.ok());
  ASSERT_EQ(timings->size(), 5u);
  EXPECT_EQ((*timings)[1], rich_chunk().timings[1]);

  const Hash128 hash = hash_bytes(to_bytes("twelve bytes"));
  EXPECT_TRUE((*reader)->has_value(hash));
  EXPECT_EQ(*(*reader)->value(hash), to_bytes("twelve bytes"));
  EXPECT_FALSE((*reader)->has_value({1, 1}));
  EXPECT_EQ((*reader)->value({1, 1}).status().code(), Code::kNotFound);
}

TEST(Trace, StreamsTheProgramWithItsDefinitions) {
  const auto reader = TraceReader::open(open_memory("t", make_trace(1)));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  ProgramReader program(**reader);
  ASSERT_TRUE(*program.next());
  EXPECT_EQ(program.chunk().calls, rich_chunk().calls);
  EXPECT_EQ(program.dictionary().tensors(), 6u);
  ASSERT_TRUE(*program.next());
  EXPECT_EQ(program.chunk().base, rich_chunk().next_base());
  EXPECT_EQ(program.dictionary().tensors(), 7u);
  EXPECT_FALSE(*program.next());
}

TEST(Trace, EqualProgramsHaveEqualContentHashesWhateverTheTimes) {
  const auto program_hash = [](std::uint64_t start) {
    Bytes file;
    auto writer = TraceWriter::create(write_memory(&file), testing::sample_header());
    ProgramChunk chunk = rich_chunk();
    chunk.timings[0].start_ns = start;
    EXPECT_TRUE((*writer)->write_program(chunk).ok());
    EXPECT_TRUE((*writer)->close({}).ok());
    const auto reader = TraceReader::open(open_memory("t", file));
    return (*reader)->chunks()[1].content;
  };
  EXPECT_EQ(program_hash(1), program_hash(2));
}

TEST(Trace, ValuesAreKeptOnceGatheredAndFoundByHash) {
  Bytes file;
  WriterOptions options;
  options.gather = 100;  // several chunks
  options.alone = 200;
  auto writer = TraceWriter::create(write_memory(&file), testing::sample_header(), options);
  std::vector<Bytes> values = {{}};  // a tensor without elements has a value too
  for (unsigned i = 1; i < 40; ++i) values.emplace_back(i * 7, static_cast<std::byte>(i));
  for (int twice = 0; twice < 2; ++twice) {
    for (const Bytes& value : values) {
      ASSERT_TRUE((*writer)->write_value(hash_bytes(value), value, 1).ok());
    }
  }
  ASSERT_TRUE((*writer)->close({}).ok());

  const auto reader = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  for (const Bytes& value : values) {
    const auto back = (*reader)->value(hash_bytes(value));
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(*back, value);
  }
  std::uint64_t raw = 0;
  int chunks = 0;
  for (const ChunkEntry& chunk : (*reader)->chunks()) {
    if (chunk.kind != ChunkKind::kValues) continue;
    raw += chunk.raw_size;
    ++chunks;
  }
  EXPECT_GT(chunks, 5);
  EXPECT_LT(raw, 2u * 7 * 39 * 40 / 2) << "values were written twice";
}

TEST(Trace, LongValuesAreSplitAndStandAlone) {
  Bytes file;
  WriterOptions options;
  options.alone = 100;
  options.max_part = 1000;
  auto writer = TraceWriter::create(write_memory(&file), testing::sample_header(), options);
  const Bytes value(2500, std::byte{3});
  const Bytes other(100, std::byte{4});
  const Bytes small(99, std::byte{5});
  for (const Bytes& bytes : {small, value, other}) {
    ASSERT_TRUE((*writer)->write_value(hash_bytes(bytes), bytes, 2).ok());
  }
  ASSERT_TRUE((*writer)->close({}).ok());
  const auto reader = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  const auto chunks = (*reader)->chunks();
  EXPECT_EQ(std::ranges::count(chunks, ChunkKind::kValues, &ChunkEntry::kind), 5);
  for (const Bytes& bytes : {small, value, other}) {
    EXPECT_EQ((*reader)->value_size(hash_bytes(bytes)), bytes.size());
    EXPECT_EQ(*(*reader)->value(hash_bytes(bytes)), bytes);
    const auto view = (*reader)->view_value(hash_bytes(bytes));
    ASSERT_TRUE(view.ok()) << view.status().message();
    EXPECT_TRUE(std::ranges::equal(*view, bytes));
    Bytes wrong(bytes.size() - 1);
    EXPECT_EQ((*reader)->read_value(hash_bytes(bytes), wrong).code(), Code::kCorrupt);
  }
  EXPECT_EQ((*reader)->value_size({1, 1}), std::nullopt);
  EXPECT_EQ((*reader)->view_value({1, 1}).status().code(), Code::kNotFound);
}

TEST(Trace, BytesThatAreNotWhatTheyAreKeptUnderAreRefused) {
  Bytes file;
  auto writer = TraceWriter::create(write_memory(&file), testing::sample_header(), {});
  const Bytes value(500, std::byte{3});
  ASSERT_TRUE((*writer)->write_value({1, 2}, value, 2).ok());
  ASSERT_TRUE((*writer)->write_value(hash_bytes(value), value, 2).ok());
  ASSERT_TRUE((*writer)->close({}).ok());
  const auto reader = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ((*reader)->view_value({1, 2}).status().code(), Code::kCorrupt);
  EXPECT_EQ((*reader)->value({1, 2}).status().code(), Code::kCorrupt);
  EXPECT_TRUE((*reader)->view_value(hash_bytes(value)).ok());
}

// Values longer than kMaxValuePart are too big for a unit test; the same parts, made by hand.
const Hash128 kFirstend = hash_bytes(to_bytes("firstend"));

Bytes value_in_parts(std::uint64_t second_offset, bool with_second, std::uint64_t total = 8) {
  const Hash128 hash = kFirstend;
  FileBuilder builder;
  Header header = testing::sample_header();
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  builder.add(ChunkKind::kHeader, encode_header(header));
  builder.add(ChunkKind::kValues,
              encode_values(std::vector<ValuePart>{{hash, total, 0, 5}}, to_bytes("first")));
  builder.index().values.push_back({hash, 0, 5, 1});
  if (with_second) {
    builder.add(ChunkKind::kValues,
                encode_values(std::vector<ValuePart>{{{9, 9}, 2, 0, 2}, {hash, total, 5, 3}},
                              to_bytes("..end")));
    builder.index().values.push_back({hash, second_offset, 3, 2});
  }
  builder.add(ChunkKind::kSummary, encode_summary({}));
  return builder.finish();
}

TEST(Trace, PartsOfAValueAreJoinedAndMissingOnesRefused) {
  struct Case {
    const char* why;
    Bytes file;
    bool ok;
  };
  const Case cases[] = {
      {"both parts", value_in_parts(5, true), true},
      {"second part missing", value_in_parts(5, false), false},
      {"index gives another offset", value_in_parts(6, true), false},
      {"parts end before the value", value_in_parts(5, true, 9), false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const auto reader = TraceReader::open(open_memory("t", c.file));
    if (!reader.ok()) {  // the index alone shows it
      EXPECT_FALSE(c.ok) << reader.status().message();
      EXPECT_EQ(reader.status().code(), Code::kCorrupt);
      continue;
    }
    const auto value = (*reader)->value(kFirstend);
    EXPECT_EQ(value.status().code(), c.ok ? Code::kOk : Code::kCorrupt);
    if (c.ok) {
      EXPECT_EQ(*value, to_bytes("firstend"));
    }
  }
}

// Accepts `limit` bytes, then has no room; remembers whether it was written to after that.
class FullSink final : public ByteSink {
 public:
  explicit FullSink(std::size_t limit, int* writes_after_error)
      : left_(limit), writes_after_error_(writes_after_error) {}
  const std::string& name() const override { return name_; }
  Status write(std::span<const std::byte> bytes) override {
    if (full_) ++*writes_after_error_;
    if (bytes.size() > left_) {
      full_ = true;
      return {Code::kIo, name_ + ": no room"};
    }
    left_ -= bytes.size();
    return {};
  }
  Status close() override { return {}; }

 private:
  std::string name_ = "full";
  std::size_t left_;
  bool full_ = false;
  int* writes_after_error_;
};

TEST(Writer, AnErrorAtAnyByteLatchesAndCloseTells) {
  const std::size_t whole = make_trace(0).size();
  for (std::size_t limit = 0; limit < whole; ++limit) {
    SCOPED_TRACE(limit);
    int writes_after_error = 0;
    auto writer = TraceWriter::create(std::make_unique<FullSink>(limit, &writes_after_error),
                                      testing::sample_header());
    if (!writer.ok()) {
      EXPECT_EQ(writer.status().code(), Code::kIo);
      continue;
    }
    const Bytes value = to_bytes("twelve bytes");
    (void)(*writer)->write_value(hash_bytes(value), value, 2);
    (void)(*writer)->write_program(rich_chunk());
    (void)(*writer)->write_parameters(testing::sample_parameters());
    (void)(*writer)->write_text(testing::sample_text());
    const Status closed = (*writer)->close(testing::sample_summary(3));
    EXPECT_EQ(closed.code(), Code::kIo);
    EXPECT_EQ((*writer)->status().message(), "full: no room");
    EXPECT_EQ(writes_after_error, 0);
  }
}

class UnclosableSink final : public ByteSink {
 public:
  const std::string& name() const override { return name_; }
  Status write(std::span<const std::byte>) override { return {}; }
  Status close() override { return {Code::kIo, "quota"}; }

 private:
  std::string name_ = "unclosable";
};

TEST(Writer, AFaultOfTheLastCloseIsTold) {
  auto writer = TraceWriter::create(std::make_unique<UnclosableSink>(), testing::sample_header());
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ((*writer)->close({}).message(), "quota");
}

// Readers refuse what unfolds into far more than the file holds; no writer may make such a file.
TEST(Writer, StoresAsItIsWhatWouldUnfoldTooFar) {
  Bytes file;
  auto writer = TraceWriter::create(write_memory(&file), testing::sample_header());
  ASSERT_TRUE(writer.ok());
  ProgramChunk chunk;
  chunk.timings.resize(400'000);
  constexpr std::uint64_t kChunks = 12;  // of 8 MB each
  for (std::uint64_t i = 0; i < kChunks; ++i, chunk.base.calls += chunk.timings.size()) {
    ASSERT_TRUE((*writer)->write_timing(chunk).ok());
  }
  ASSERT_TRUE((*writer)->close({}).ok());
  const auto reader = TraceReader::open(open_memory("t", file));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  std::size_t as_it_is = 0;
  for (const ChunkEntry& entry : (*reader)->chunks()) {
    as_it_is += entry.kind == ChunkKind::kTiming && entry.codec == Codec::kNone ? 1 : 0;
  }
  EXPECT_EQ(as_it_is, 1u);  // which makes room for all that follow
  const auto timings = (*reader)->timings();
  ASSERT_TRUE(timings.ok()) << timings.status().message();
  EXPECT_EQ(timings->size(), kChunks * chunk.timings.size());
}

TEST(Trace, WorksWithFiles) {
  const testing::TempFolder folder;
  auto sink = create_file(folder.file("t.fb"));
  ASSERT_TRUE(sink.ok());
  auto writer = TraceWriter::create(std::move(*sink), testing::sample_header());
  ASSERT_TRUE((*writer)->write_program(rich_chunk()).ok());
  ASSERT_TRUE((*writer)->close({}).ok());
  const auto reader = TraceReader::open(folder.file("t.fb"));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ((*reader)->file_size(), (*writer)->bytes_written());
  EXPECT_EQ(TraceReader::open(folder.file("none.fb")).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace goldentrace
