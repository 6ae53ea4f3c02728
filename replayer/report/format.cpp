#include "replayer/report/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace goldentrace {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

// A code point that would break a row or turn its direction: C0, DEL, C1, line and paragraph
// separators, bidirectional controls.
bool is_unprintable(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

// Bytes of the UTF-8 sequence that `text` begins with when it can stand in a row; 0 otherwise.
std::size_t printable_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return is_unprintable(first) ? 0 : 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  char32_t c = first & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) return 0;
    c = (c << 6) | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  const bool overlong = c < (size == 4 ? 0x10000u : size == 3 ? 0x800u : 0x80u);
  if (overlong || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || is_unprintable(c)) return 0;
  return size;
}

// The bytes of the first `columns` columns of printable text.
std::size_t bytes_of(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (; at < text.size() && (columns > 0 || is_continuation(text[at])); ++at) {
    if (!is_continuation(text[at])) --columns;
  }
  return at;
}

}  // namespace

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return grouped(count) + " " + (count == 1 ? one : many);
}

std::string percent(double ratio) {
  if (!std::isfinite(ratio)) return "infinite";
  char text[32];
  const double value = 100 * ratio;
  // Two digits of a small or a huge number, whole per cents between.
  const bool whole = value == 0 || (value >= 10 && value < 1e4);
  std::snprintf(text, sizeof(text), whole ? "%.0f %%" : "%.2g %%", value);
  return text;
}

std::string share(std::uint64_t part, std::uint64_t whole) {
  if (part >= whole) return "100 %";
  const std::uint64_t permille = part * 1000 / whole;
  return std::to_string(permille / 10) + "." + std::to_string(permille % 10) + " %";
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = printable_bytes(text);
    if (size > 0) {
      out += text.substr(0, size);
    } else if (text.front() == '\n') {
      out += "\\n";
    } else if (text.front() == '\t') {
      out += "\\t";
    } else if (text.front() == '\r') {
      out += "\\r";
    } else {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", static_cast<unsigned char>(text.front()));
      out += escape;
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

std::string quoted_piece(std::string_view piece) {
  std::string text;
  for (const char c : piece) {
    if (c == '\\' || c == '\'') text += '\\';
    text += c;
  }
  return "'" + printable(text) + "'";
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string padded(std::string text, std::size_t width) {
  if (columns(text) < width) text.append(width - columns(text), ' ');
  return text;
}

std::string clipped(std::string text, std::size_t width) {
  if (columns(text) > width) text = text.substr(0, bytes_of(text, width - 2)) + "..";
  return text;
}

std::string clipped_left(std::string text, std::size_t width) {
  const std::size_t wide = columns(text);
  if (wide > width) text = ".." + text.substr(bytes_of(text, wide - width + 2));
  return text;
}

std::string at_both_ends(const std::string& left, std::string_view right) {
  const std::size_t room = kReportWidth - right.size() - 1;
  return padded(clipped(printable(left), room), room + 1) + std::string(right);
}

}  // namespace goldentrace
