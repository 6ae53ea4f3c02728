// Lists the tensors of a trace: `list_tensors TRACE.fb`. One line each, with the first number of
// float32 tensors whose bytes are kept.
#include <goldentrace/goldentrace.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(goldentrace_status status) {
  if (status != GOLDENTRACE_OK) throw std::runtime_error(goldentrace_message());
}

void print(goldentrace_reader* trace, const goldentrace_record& record) {
  std::cout << "step " << record.step << "  " << record.name << "  " << record.op << "  "
            << goldentrace_dtype_name(record.dtype);
  for (std::uint32_t d = 0; d < record.rank; ++d)
    std::cout << (d == 0 ? " " : "x") << record.sizes[d];
  if (record.dtype == GOLDENTRACE_FLOAT32 && record.value_size != GOLDENTRACE_NO_VALUE &&
      record.value_size > 0) {
    // A kept value has as many bytes as its tensor: the library has checked it.
    std::vector<float> numbers(record.value_size / sizeof(float));
    check(goldentrace_reader_value(trace, record.hash, numbers.data(), record.value_size));
    std::cout << "  " << numbers[0];
  }
  std::cout << '\n';
}

void list(const char* path) {
  goldentrace_reader* opened = nullptr;
  check(goldentrace_reader_open(path, &opened));
  const std::unique_ptr<goldentrace_reader, decltype(&goldentrace_reader_destroy)> trace(
      opened, &goldentrace_reader_destroy);
  std::cout << goldentrace_reader_info(opened)->engine
            << (goldentrace_reader_whole(opened) ? "" : ", not whole") << '\n';
  const goldentrace_record* record = nullptr;
  for (check(goldentrace_reader_next(opened, &record)); record != nullptr;
       check(goldentrace_reader_next(opened, &record))) {
    print(opened, *record);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: list_tensors TRACE.fb\n";
    return 2;
  }
  try {
    list(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "list_tensors: " << error.what() << '\n';
    return 2;
  }
}
