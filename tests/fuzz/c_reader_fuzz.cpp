// The C interface's reader: every list to its end, every tensor with its value.
#include <vector>

#include "src/capi/goldentrace.h"
#include "tests/fuzz/memory_file.h"

namespace fuzz = goldentrace::fuzz;

namespace {

template <typename Item>
void read_list(goldentrace_reader* reader,
               goldentrace_status (*get)(goldentrace_reader*, std::size_t, const Item**)) {
  const Item* item = nullptr;
  for (std::size_t i = 0; get(reader, i, &item) == GOLDENTRACE_OK && item != nullptr; ++i) {
  }
}

void read_counters(const goldentrace_reader* reader) {
  const goldentrace_counter* item = nullptr;
  for (std::size_t i = 0;
       goldentrace_reader_counter(reader, i, &item) == GOLDENTRACE_OK && item != nullptr; ++i) {
  }
}

void read_value(goldentrace_reader* reader, const goldentrace_record& record) {
  if (record.hash == nullptr || record.value_size > (1u << 20)) return;
  std::vector<char> value(record.value_size);
  (void)goldentrace_reader_value(reader, record.hash, value.data(), value.size());
}

void find_again(goldentrace_reader* reader, const goldentrace_record& record) {
  goldentrace_query query;
  goldentrace_query_init(&query);
  const std::string name = record.name;
  query.name = name.c_str();
  query.step = record.step;
  const goldentrace_record* found = nullptr;
  fuzz::require(goldentrace_reader_find(reader, &query, &found) != GOLDENTRACE_NOT_FOUND,
                "a tensor is found by its name");
}

void read_tensors(goldentrace_reader* reader) {
  const goldentrace_record* record = nullptr;
  while (goldentrace_reader_next(reader, &record) == GOLDENTRACE_OK && record != nullptr) {
    read_value(reader, *record);
  }
  if (goldentrace_reader_next(reader, &record) == GOLDENTRACE_OK) {
    fuzz::require(record == nullptr, "nothing comes after the end or a refusal");
  }
  (void)goldentrace_reader_rewind(reader);
  if (goldentrace_reader_next(reader, &record) == GOLDENTRACE_OK && record != nullptr) {
    find_again(reader, *record);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::bytes_of(data, size));
  goldentrace_reader* reader = nullptr;
  if (goldentrace_reader_open(file.path().c_str(), &reader) != GOLDENTRACE_OK) return 0;
  (void)goldentrace_reader_info(reader);
  read_counters(reader);
  read_list(reader, goldentrace_reader_request);
  read_list(reader, goldentrace_reader_result);
  read_list(reader, goldentrace_reader_parameter);
  read_tensors(reader);
  goldentrace_reader_destroy(reader);
  return 0;
}
