#include "replayer/report/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace goldentrace {

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string percent(double ratio) {
  if (!std::isfinite(ratio)) return "infinite";
  char text[32];
  const double value = 100 * ratio;
  // Three digits of a small number, whole per cents of a large one.
  std::snprintf(text, sizeof(text), value != 0 && value < 10 ? "%.2g %%" : "%.0f %%", value);
  return text;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string at_both_ends(std::string left, std::string_view right) {
  const std::size_t room = kReportWidth - right.size() - 1;
  if (left.size() > room) left = left.substr(0, room - 2) + "..";
  return padded(std::move(left), room + 1) + std::string(right);
}

std::string clipped(std::string line) {
  if (line.size() > kReportWidth) line = line.substr(0, kReportWidth - 2) + "..";
  return line;
}

}  // namespace goldentrace
