// Small helpers of every report: grouped numbers, columns, clipped lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace goldentrace {

inline constexpr std::size_t kReportWidth = 100;

// 9583 -> "9,583".
std::string grouped(std::uint64_t number);
// A ratio for people: "0.43 %", "31 %", "3.8e+04 %"; "infinite" for infinity.
std::string percent(double ratio);
// `text` padded with spaces to `width`.
std::string padded(std::string text, std::size_t width);
// `left` and `right` at the two ends of a line of kReportWidth.
std::string at_both_ends(std::string left, std::string_view right);
// Cut to kReportWidth, with ".." where something was cut.
std::string clipped(std::string line);

}  // namespace goldentrace
