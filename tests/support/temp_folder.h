// A folder of its own for a test that needs real files; removed with everything in it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace goldentrace::testing {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // The path of `name` in this folder; nothing is created.
  [[nodiscard]] std::string file(std::string_view name) const;
  // Creates or replaces `name`; returns its path.
  [[nodiscard]] std::string write(std::string_view name, std::string_view text) const;

 private:
  std::string path_;
};

}  // namespace goldentrace::testing
