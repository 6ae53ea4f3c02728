#include "tests/support/temp_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace goldentrace::testing {

TempFolder::TempFolder() {
  path_ = std::filesystem::temp_directory_path() / "goldentrace-test-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("can't make " + path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::file(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

std::string TempFolder::write(std::string_view name, std::string_view text) const {
  const std::string path = file(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace goldentrace::testing
