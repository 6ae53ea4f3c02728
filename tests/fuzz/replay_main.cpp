// Runs files, and every file of folders, through one fuzz target. A finding ends the process as it
// ends a fuzzer. Exit status: 0 all were run, 2 none was found.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

std::vector<std::filesystem::path> files_of(int count, char** paths) {
  std::vector<std::filesystem::path> files;
  for (int i = 0; i < count; ++i) {
    if (!std::filesystem::is_directory(paths[i])) {
      files.emplace_back(paths[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(paths[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  int run = 0;
  for (const auto& path : files_of(argc - 1, argv + 1)) {
    std::ifstream file(path, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    if (!file) continue;
    std::fprintf(stderr, "%s, %zu bytes\n", path.c_str(), input.size());
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ++run;
  }
  std::printf("%d files run\n", run);
  return run > 0 ? 0 : 2;
}
