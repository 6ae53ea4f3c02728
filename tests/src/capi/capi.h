// Short ways to use the C interface in tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/capi/goldentrace.h"
#include "tests/support/temp_folder.h"

#define ASSERT_DONE(call) ASSERT_EQ(call, GOLDENTRACE_OK) << goldentrace_message()
#define EXPECT_DONE(call) EXPECT_EQ(call, GOLDENTRACE_OK) << goldentrace_message()

namespace goldentrace::testing {

struct WriterDeleter {
  void operator()(goldentrace_writer* writer) const { goldentrace_writer_destroy(writer); }
};
using WriterHandle = std::unique_ptr<goldentrace_writer, WriterDeleter>;
struct ReaderDeleter {
  void operator()(goldentrace_reader* reader) const { goldentrace_reader_destroy(reader); }
};
using ReaderHandle = std::unique_ptr<goldentrace_reader, ReaderDeleter>;

inline goldentrace_writer_options sample_options() {
  goldentrace_writer_options options;
  goldentrace_writer_options_init(&options);
  options.engine = "ggml";
  options.engine_version = "b1";
  options.dtype = "float32";
  return options;
}

inline WriterHandle open_writer(const std::string& path,
                                const goldentrace_writer_options& options = sample_options()) {
  goldentrace_writer* writer = nullptr;
  EXPECT_DONE(goldentrace_writer_open(path.c_str(), &options, &writer));
  return WriterHandle(writer);
}

inline ReaderHandle open_reader(const std::string& path) {
  goldentrace_reader* reader = nullptr;
  EXPECT_DONE(goldentrace_reader_open(path.c_str(), &reader));
  return ReaderHandle(reader);
}

// A tensor of host memory; `sizes` and `data` must outlive it.
inline goldentrace_tensor tensor_of(const char* name, std::uint32_t dtype,
                                    const std::vector<std::int64_t>& sizes, const void* data) {
  goldentrace_tensor tensor;
  goldentrace_tensor_init(&tensor);
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.rank = static_cast<std::uint32_t>(sizes.size());
  tensor.sizes = sizes.data();
  tensor.data = data;
  return tensor;
}

inline const goldentrace_record* next_record(const ReaderHandle& reader) {
  const goldentrace_record* record = nullptr;
  EXPECT_DONE(goldentrace_reader_next(reader.get(), &record));
  return record;
}

inline const goldentrace_record* find_record(const ReaderHandle& reader, const char* name) {
  goldentrace_query query;
  goldentrace_query_init(&query);
  query.name = name;
  const goldentrace_record* record = nullptr;
  EXPECT_DONE(goldentrace_reader_find(reader.get(), &query, &record));
  return record;
}

template <typename T>
std::vector<T> read_values(const ReaderHandle& reader, const goldentrace_record& record) {
  EXPECT_NE(record.value_size, GOLDENTRACE_NO_VALUE);
  if (record.value_size == GOLDENTRACE_NO_VALUE) return {};
  std::vector<T> values(record.value_size / sizeof(T));
  EXPECT_DONE(
      goldentrace_reader_value(reader.get(), record.hash, values.data(), record.value_size));
  return values;
}

}  // namespace goldentrace::testing
