// Reading .npy: the header is a Python dict literal with three keys.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "replayer/tools/npy.h"

namespace goldentrace {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 1u << 16;
constexpr std::size_t kMaxRank = 64;
constexpr std::string_view kOpaque = "V2";

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// One literal after the other; every function says whether it was there.
class Literals {
 public:
  explicit Literals(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip_space();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> take_string() {
    skip_space();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inner = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return inner;
  }
  std::optional<std::int64_t> take_size() {
    skip_space();
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (error != std::errc() || number < 0) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return number;
  }
  bool at_end() {
    skip_space();
    return text_.empty();
  }

 private:
  void skip_space() {
    const std::size_t begin = std::min(text_.find_first_not_of(" \t\r\n"), text_.size());
    text_.remove_prefix(begin);
  }
  std::string_view text_;
};

bool take_shape(Literals& literals, std::vector<std::int64_t>& shape) {
  if (!literals.take('(')) return false;
  while (!literals.take(')')) {
    const auto size = literals.take_size();
    if (!size || shape.size() == kMaxRank) return false;
    shape.push_back(*size);
    if (literals.take(',')) continue;
    return literals.take(')');
  }
  return true;
}

// False when it is no such dict.
bool parse_header(std::string_view text, NpyHeader& header) {
  Literals literals(text);
  std::array<bool, 3> found{};
  if (!literals.take('{')) return false;
  while (!literals.take('}')) {
    const auto key = literals.take_string();
    if (!key || !literals.take(':')) return false;
    if (*key == "descr") {
      const auto descr = literals.take_string();
      // A structured dtype is a list.
      if (!descr && !literals.take('[')) return false;
      header.descr = descr ? *descr : "[..]";
      if (!descr) return true;  // the list is not looked into
      found[0] = true;
    } else if (*key == "fortran_order") {
      header.fortran_order = literals.take_word("True");
      if (!header.fortran_order && !literals.take_word("False")) return false;
      found[1] = true;
    } else if (*key == "shape") {
      if (found[2] || !take_shape(literals, header.shape)) return false;
      found[2] = true;
    } else {
      return false;
    }
    if (literals.take(',')) continue;
    if (!literals.take('}')) return false;
    break;
  }
  return literals.at_end() && found[0] && found[1] && found[2];
}

std::optional<DType> dtype_of(std::string_view descr) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"b1", DType::kBool},      {"i1", DType::kInt8},        {"i2", DType::kInt16},
      {"i4", DType::kInt32},     {"i8", DType::kInt64},       {"u1", DType::kUInt8},
      {"u2", DType::kUInt16},    {"u4", DType::kUInt32},      {"u8", DType::kUInt64},
      {"f2", DType::kFloat16},   {"f4", DType::kFloat32},     {"f8", DType::kFloat64},
      {"c8", DType::kComplex64}, {"c16", DType::kComplex128}, {kOpaque, DType::kUInt16}};
  for (const auto& [name, dtype] : kNames) {
    if (descr.size() != name.size() + 1 || descr.substr(1) != name) continue;
    const bool one_byte = item_size(dtype) == 1 || name == kOpaque;
    return descr.front() == '<' || (one_byte && descr.front() == '|') ? std::optional(dtype)
                                                                      : std::nullopt;
  }
  return std::nullopt;
}

// Elements of a column-major array, row by row.
std::vector<std::byte> to_rows(const std::vector<std::byte>& columns, std::size_t item,
                               const std::vector<std::int64_t>& shape) {
  std::vector<std::byte> rows(columns.size());
  std::vector<std::size_t> index(shape.size(), 0);
  for (std::size_t to = 0; to < rows.size(); to += item) {
    std::size_t from = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      from = from * static_cast<std::size_t>(shape[d]) + index[d];
    }
    std::memcpy(&rows[to], &columns[from * item], item);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < static_cast<std::size_t>(shape[d])) break;
      index[d] = 0;
    }
  }
  return rows;
}

}  // namespace

Result<NpyArray> read_npy(const ByteSource& file) {
  const auto corrupt = [&](const std::string& what) {
    return Status(Code::kCorrupt, file.name() + ": " + what);
  };
  std::array<std::byte, 12> start{};
  const std::size_t length = std::min<std::uint64_t>(start.size(), file.size());
  GOLDENTRACE_RETURN_IF_ERROR(file.read(0, std::span(start).first(length)));
  if (length < start.size() || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    return corrupt("is no .npy file");
  }
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(start[i]); };
  const std::uint32_t version = byte(6);
  if (version < 1 || version > 3) {
    return Status(Code::kUnsupported,
                  file.name() + ": .npy format " + std::to_string(version) + " is not known");
  }
  const std::size_t begin = version == 1 ? 10 : 12;
  std::uint32_t size = byte(8) | byte(9) << 8;
  if (version > 1) size |= byte(10) << 16 | byte(11) << 24;
  if (size > kMaxHeader || begin + size > file.size()) {
    return corrupt("its header of " + std::to_string(size) + " bytes is beyond the file or 64 KiB");
  }
  std::string text(size, '\0');
  GOLDENTRACE_RETURN_IF_ERROR(file.read(begin, std::as_writable_bytes(std::span(text))));
  NpyHeader header;
  if (!parse_header(text, header)) return corrupt("its header is no description of an array");

  const auto dtype = dtype_of(header.descr);
  if (!dtype) {
    return Status(Code::kUnsupported, file.name() + ": elements of type '" + header.descr +
                                          "' can't be read (little-endian numbers can)");
  }
  const std::uint64_t available = file.size() - begin - size;
  std::uint64_t bytes = item_size(*dtype);
  for (const std::int64_t dimension : header.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dimension), &bytes)) {
      return corrupt("its shape is larger than any file");
    }
  }
  if (bytes != available) {
    return corrupt("holds " + std::to_string(available) + " bytes of elements, " +
                   type_text(*dtype, header.shape) + " takes " + std::to_string(bytes));
  }
  NpyArray array{{*dtype, std::move(header.shape), std::vector<std::byte>(bytes)},
                 header.descr.ends_with(kOpaque)};
  GOLDENTRACE_RETURN_IF_ERROR(file.read(begin + size, array.tensor.bytes));
  if (header.fortran_order && array.tensor.sizes.size() > 1) {
    array.tensor.bytes = to_rows(array.tensor.bytes, item_size(*dtype), array.tensor.sizes);
  }
  return array;
}

Result<NpyArray> read_npy(const std::string& path) {
  const auto file = open_file(path);
  if (!file.ok()) return file.status();
  return read_npy(**file);
}

}  // namespace goldentrace
