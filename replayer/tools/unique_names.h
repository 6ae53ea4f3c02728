// Numbers what has the same name: "x", "x#2", "x#3".
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

namespace goldentrace {

class UniqueNames {
 public:
  std::string take(std::string name) {
    std::uint32_t& count = counts_[name];
    if (++count == 1) return name;
    std::string numbered = name + "#" + std::to_string(count);
    while (!counts_.try_emplace(numbered, 1).second)
      numbered = name + "#" + std::to_string(++count);
    return numbered;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> counts_;
};

}  // namespace goldentrace
