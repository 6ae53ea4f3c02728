// Small helpers of every report: grouped numbers, columns, clipped lines. A column is a code point;
// widths are exact for text that went through `printable`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace goldentrace {

inline constexpr std::size_t kReportWidth = 100;

// 9583 -> "9,583".
std::string grouped(std::uint64_t number);
// "1 call", "2 calls".
std::string counted(std::uint64_t count, const char* one, const char* many);
// A ratio for people: "0.43 %", "31 %", "3.8e+04 %"; "infinite" for what is not finite.
std::string percent(double ratio);
// `part` of `whole`, rounded down so that "100 %" means all of it: 2318 of 2320 is "99.9 %".
std::string share(std::uint64_t part, std::uint64_t whole);

// `text` as it may stand inside one row: control characters, line separators, direction marks and
// bytes that are no UTF-8 become \n, \t, \r or \xHH. Backslashes stay, so doing it twice is
// harmless.
std::string printable(std::string_view text);
// A token's piece between single quotes, printable, with its own backslashes and quotes escaped.
std::string quoted_piece(std::string_view piece);

std::size_t columns(std::string_view text);
// `text` padded with spaces to `width` columns.
std::string padded(std::string text, std::size_t width);
// Cut to `width` columns, with ".." where something was cut: at the end, or at the beginning.
std::string clipped(std::string text, std::size_t width = kReportWidth);
std::string clipped_left(std::string text, std::size_t width);
// `left` and `right` at the two ends of a line of kReportWidth; `left` is made printable and
// clipped.
std::string at_both_ends(const std::string& left, std::string_view right);

}  // namespace goldentrace
