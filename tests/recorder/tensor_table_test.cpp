// The tensor table alone: identity by lifetime, and no growth with the length of a run.
#include "recorder/tensor_table.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "src/event/chunk_builder.h"
#include "tests/recorder/recording.h"

namespace goldentrace {
namespace {

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

TEST(TensorTable, ViewsOfOneStorageShareItAndKeepTheirIds) {
  ChunkBuilder builder;
  TensorTable table(builder);
  const at::Tensor x = at::zeros({4, 3});
  StorageEntry& entry = table.storage(storage_of(x));
  const std::uint32_t whole = table.tensor(entry, x);
  const std::uint32_t turned = table.tensor(entry, x.t());
  EXPECT_NE(whole, turned);
  EXPECT_NE(table.tensor(entry, x.view(at::kInt)), whole) << "the dtype is part of a view";
  EXPECT_EQ(table.tensor(entry, x.view({4, 3})), whole) << "not the TensorImpl";
  EXPECT_EQ(table.tensor(table.storage(storage_of(x.t())), x.t()), turned);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(builder.chunk().storages.size(), 1u);
}

TEST(TensorTable, KeepsNoMemoryAlive) {
  ChunkBuilder builder;
  TensorTable table(builder);
  at::Tensor x = at::zeros({1000});
  const c10::weak_intrusive_ptr<c10::StorageImpl> watch(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage_of(x)));
  table.tensor(table.storage(storage_of(x)), x);
  x.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(TensorTable, AReusedAddressIsAnotherStorage) {
  ChunkBuilder builder;
  TensorTable table(builder);
  const void* address = nullptr;
  std::uint32_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    const at::Tensor x = at::empty({512});
    const std::uint32_t id = table.storage(storage_of(x)).id;
    if (x.const_data_ptr() == address) {
      EXPECT_NE(id, last);
      return;
    }
    address = x.const_data_ptr();
    last = id;
  }
  FAIL() << "the allocator never gave an address out twice in a row";
}

TEST(TensorTable, AStorageOfAnotherSizeIsAnotherStorageWithUndefinedContent) {
  ChunkBuilder builder;
  TensorTable table(builder);
  const at::Tensor x = at::zeros({4});
  StorageEntry& before = table.storage(storage_of(x));
  before.content = Content::kKnown;
  const std::uint32_t id = before.id;
  x.resize_({100});
  EXPECT_NE(table.storage(storage_of(x)).id, id);
  EXPECT_EQ(table.storage(storage_of(x)).content, Content::kUndefined);
  EXPECT_EQ(table.size(), 1u);
}

TEST(TensorTable, LetsGoOfWhatIsGoneAndKeepsWhatLives) {
  ChunkBuilder builder;
  TensorTable table(builder);
  const at::Tensor alive = at::zeros({4});
  const std::uint32_t id = table.storage(storage_of(alive)).id;
  for (int i = 0; i < 20000; ++i) {
    table.let_go();  // before a call: what the last one made has its memory back
    ASSERT_EQ(table.size(), 1u);
    const at::Tensor x = at::empty({i % 7});
    table.tensor(table.storage(storage_of(x)), x);
  }
  // More of them than are young, which then go at once.
  std::vector<at::Tensor> many;
  for (int i = 0; i < 100; ++i) {
    table.let_go();
    many.push_back(at::empty({4}));
    table.storage(storage_of(many.back()));
  }
  EXPECT_EQ(table.size(), 101u);
  many.clear();
  for (int i = 0; i < 2000; ++i) table.let_go();
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.storage(storage_of(alive)).id, id);
}

using LongRun = testing::RecordingTest;

TEST_F(LongRun, TwentyThousandSmallCallsAreRecordedOverSeveralChunks) {
  const testing::Recorded recorded = record([] {
    at::Tensor x = at::zeros({4});
    for (int i = 1; i < 20000; ++i) x = x.add(1);
  });
  EXPECT_EQ(recorded.calls.size(), 20000u);
  EXPECT_GT(recorded.program_chunks.size(), 2u);
  // A call of this kind costs about 40 bytes: id, arguments, hash and stats.
  EXPECT_LT(recorded.trace->file_size(), 20000u * 100);
  EXPECT_EQ(expect_reproduced().hashes, 20000u);
}

}  // namespace
}  // namespace goldentrace
