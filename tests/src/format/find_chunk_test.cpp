// Searching chunks without an index: what hostile files make it read, and what repeated values do.
#include <gtest/gtest.h>

#include "src/digest/digest.h"
#include "src/format/scan.h"
#include "src/format/trace_reader.h"
#include "tests/support/traces.h"

namespace goldentrace {
namespace {

// Counts the bytes that are read.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(Bytes bytes) : memory_(open_memory("counted", std::move(bytes))) {}
  std::uint64_t size() const override { return memory_->size(); }
  const std::string& name() const override { return memory_->name(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    bytes_read_ += out.size();
    return memory_->read(offset, out);
  }
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::unique_ptr<ByteSource> memory_;
  mutable std::uint64_t bytes_read_ = 0;
};

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

TEST(FindChunk, FindsEveryChunkOfAFile) {
  const CountingSource source(testing::make_trace(1));
  std::uint64_t from = 0;
  std::size_t chunks = 0;
  for (;; ++chunks) {
    const auto found = find_chunk(source, from, 0);
    ASSERT_TRUE(found.ok());
    if (!*found) break;
    EXPECT_EQ((*found)->header.sequence, chunks);
    from = (*found)->end();
  }
  EXPECT_EQ(chunks, 10u);  // the index is one
}

TEST(FindChunk, FindsAMarkerThatLiesAcrossTwoWindows) {
  for (std::size_t before = 4080; before < 4100; ++before) {
    SCOPED_TRACE(before);
    Bytes file(before, std::byte{'G'});
    ChunkHeader header{static_cast<ChunkKind>(100), Codec::kNone};
    header.checksum = checksum64({});
    append(file, encode_chunk_header(header));
    const auto found = find_chunk(*open_memory("t", file), 0, 0);
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ((*found)->offset, before);
  }
}

TEST(FindChunk, ReadsAFileOfNothingButMarkersAFewTimesAtMost) {
  Bytes file;
  for (int i = 0; i < 100'000; ++i) append(file, testing::to_bytes("GTCK"));
  const CountingSource source(file);
  const auto found = find_chunk(source, 0, 0);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(*found);
  EXPECT_LT(source.bytes_read(), 12 * file.size());  // 40 bytes of header each
}

// Headers that are right and promise the rest of the file, which does not match: what they promise
// is theirs, and is read once.
TEST(FindChunk, HeadersThatPromiseTheRestOfTheFileAreReadOnce) {
  Bytes file;
  constexpr std::size_t kSize = 2000 * kChunkHeaderSize;
  while (file.size() < kSize) {
    ChunkHeader liar{static_cast<ChunkKind>(100), Codec::kNone};
    liar.stored_size = liar.raw_size = kSize - file.size() - kChunkHeaderSize;
    append(file, encode_chunk_header(liar));
  }
  const CountingSource source(file);
  const auto found = find_chunk(source, 0, 0);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(*found);
  EXPECT_LT(source.bytes_read(), 3 * file.size());
}

// No recorder stores a value twice; a file that does is still read.
TEST(Indexer, AValueThatIsStoredTwiceIsReadOnce) {
  const Bytes value = testing::to_bytes("twelve bytes");
  for (const Bytes& bytes : {value, Bytes()}) {
    const Hash128 hash = hash_bytes(bytes);
    const std::vector<ValuePart> parts = {{hash, bytes.size(), 0, bytes.size()}};
    Header header = testing::sample_header();
    header.major = kFormatMajor;
    header.minor = kFormatMinor;
    testing::FileBuilder builder;
    builder.add(ChunkKind::kHeader, encode_header(header));
    builder.add(ChunkKind::kValues, encode_values(parts, bytes));
    builder.add(ChunkKind::kValues, encode_values(parts, bytes));
    Bytes file = builder.finish();
    file.resize(file.size() - 1);
    const auto reader = TraceReader::open(open_memory("t", file));
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    const auto read = (*reader)->value(hash);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, bytes);
  }
}

}  // namespace
}  // namespace goldentrace
