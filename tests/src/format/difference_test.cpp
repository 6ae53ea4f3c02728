// Equal programs are known by their hashes; the first call that differs is found in one chunk.
#include "src/format/difference.h"

#include <gtest/gtest.h>

#include <functional>

#include "src/format/trace_writer.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

constexpr int kChunks = 6;

// rich_chunk, then kChunks chunks of one call, the way `change` leaves them.
Bytes program(const std::function<void(int, ProgramChunk&)>& change, int chunks = kChunks) {
  Bytes file;
  auto writer = TraceWriter::create(write_memory(&file), testing::sample_header());
  ProgramChunk chunk = testing::rich_chunk();
  for (int i = 0; i <= chunks; ++i) {
    if (i > 0) chunk = testing::next_chunk(chunk.next_base());
    change(i, chunk);
    for (Timing& timing : chunk.timings) timing.start_ns += file.size();  // other times
    EXPECT_TRUE((*writer)->write_program(chunk).ok());
  }
  EXPECT_TRUE((*writer)->close({}).ok());
  return file;
}

// Counts what is read of the file.
class CountingSource final : public ByteSource {
 public:
  CountingSource(Bytes bytes, std::uint64_t* read) : bytes_(std::move(bytes)), read_(read) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] const std::string& name() const override { return name_; }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    *read_ += out.size();
    if (offset + out.size() > bytes_.size()) return {Code::kCorrupt, "end"};
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }

 private:
  std::string name_ = "counted";
  Bytes bytes_;
  std::uint64_t* read_;
};

struct Found {
  std::optional<std::uint64_t> call;
  std::uint64_t read = 0;  // bytes of both files, after they were opened
};

Found compare(const Bytes& left, const Bytes& right) {
  std::uint64_t read = 0;
  const auto a = TraceReader::open(std::make_unique<CountingSource>(left, &read));
  const auto b = TraceReader::open(std::make_unique<CountingSource>(right, &read));
  EXPECT_TRUE(a.ok() && b.ok());
  read = 0;
  const auto call = first_difference(**a, **b);
  EXPECT_TRUE(call.ok()) << call.status().message();
  return {*call, read};
}

const auto kNothing = [](int, ProgramChunk&) {};

TEST(Difference, EqualProgramsAreEqualWithoutReadingAChunk) {
  const Found found = compare(program(kNothing), program(kNothing));
  EXPECT_EQ(found.call, std::nullopt);
  EXPECT_EQ(found.read, 0u);
}

TEST(Difference, OneCallIsLocatedByReadingItsChunkAlone) {
  const Bytes plain = program(kNothing);
  for (int at = 1; at <= kChunks; ++at) {
    SCOPED_TRACE(at);
    const Bytes other = program([at](int i, ProgramChunk& chunk) {
      if (i == at) ++chunk.writes[0].hash.low;
    });
    const Found found = compare(plain, other);
    EXPECT_EQ(found.call, 3u + static_cast<unsigned>(at) - 1);
    EXPECT_GT(found.read, 0u);
    EXPECT_LT(found.read, 2000u) << "more than the two chunks was read";
  }
}

TEST(Difference, EachPartOfACallCounts) {
  struct Case {
    const char* why;
    std::function<void(ProgramChunk&)> change;
    std::uint64_t call;
  };
  const Case cases[] = {
      {"operator", [](ProgramChunk& c) { c.calls[1].op = 1; }, 1},
      {"scope", [](ProgramChunk& c) { c.calls[2].scope = 0; }, 2},
      {"step", [](ProgramChunk& c) { c.calls[1].step = 9; }, 1},
      {"ambient", [](ProgramChunk& c) { c.calls[1].ambient = 1; }, 1},
      {"flags", [](ProgramChunk& c) { c.calls[2].flags = 0; }, 2},
      {"an argument", [](ProgramChunk& c) { c.nodes[5].value = 4; }, 1},
      {"a version", [](ProgramChunk& c) { c.nodes[0].version = 8; }, 0},
      {"stats", [](ProgramChunk& c) { c.stats[0].sum += 1; }, 0},
      {"a sketch", [](ProgramChunk& c) { c.sketches[1][63] += 1; }, 1},
      {"a hash", [](ProgramChunk& c) { ++c.writes[2].hash.high; }, 1},
      {"the operator's name", [](ProgramChunk& c) { c.operators[c.calls[1].op].name = "x"; }, 1},
      {"an input", [](ProgramChunk& c) { ++c.externals[1].hash.low; }, 2},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    const Bytes other = program([&](int i, ProgramChunk& chunk) {
      if (i == 0) c.change(chunk);
    });
    EXPECT_EQ(compare(program(kNothing), other).call, c.call);
    EXPECT_EQ(compare(other, program(kNothing)).call, c.call);
  }
}

TEST(Difference, AShorterProgramPartsWhereItEnds) {
  EXPECT_EQ(compare(program(kNothing), program(kNothing, 2)).call, 5u);
  EXPECT_EQ(compare(program(kNothing, 2), program(kNothing)).call, 5u);
}

}  // namespace
}  // namespace goldentrace
