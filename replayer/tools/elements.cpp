#include "replayer/tools/elements.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "replayer/report/format.h"
#include "replayer/tools/npy.h"

namespace goldentrace {
namespace {

constexpr std::size_t kEdge = 3;  // elements at each end of a long dimension

template <typename Number>
Number load(const DenseTensor& tensor, std::size_t i) {
  Number number;
  std::memcpy(&number, tensor.bytes.data() + i * sizeof(Number), sizeof(Number));
  return number;
}

std::string number_text(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return text;
}

class Printer {
 public:
  Printer(const DenseTensor& tensor, std::size_t most) : tensor_(tensor) {
    while (edge_ > 1 && rows(0) > most) --edge_;
    measure(0, 0);
  }

  std::vector<std::string> print() {
    add(0, 0, "", "");
    return std::move(rows_);
  }

 private:
  [[nodiscard]] std::size_t size(std::size_t dim) const {
    return static_cast<std::size_t>(tensor_.sizes[dim]);
  }
  [[nodiscard]] bool is_last(std::size_t dim) const { return dim + 1 == tensor_.sizes.size(); }
  [[nodiscard]] std::size_t edge(std::size_t dim) const { return is_last(dim) ? kEdge : edge_; }
  [[nodiscard]] bool is_long(std::size_t dim) const { return size(dim) > 2 * edge(dim); }

  [[nodiscard]] std::size_t rows(std::size_t dim) const {
    if (is_last(dim)) return 1;
    const std::size_t shown = is_long(dim) ? 2 * edge(dim) : size(dim);
    return shown * rows(dim + 1) + (is_long(dim) ? 1 : 0);
  }

  // visit(index, whether what comes before it was left out).
  template <typename Visit>
  void visit_shown(std::size_t dim, Visit visit) const {
    for (std::size_t i = 0; i < size(dim); ++i) {
      const bool after_gap = is_long(dim) && i == edge(dim);
      if (after_gap) i = size(dim) - edge(dim);
      visit(i, after_gap);
    }
  }

  void measure(std::size_t dim, std::size_t first) {
    visit_shown(dim, [&](std::size_t i, bool) {
      const std::size_t at = first * size(dim) + i;
      if (!is_last(dim)) return measure(dim + 1, at);
      width_ = std::max(width_, element_text(tensor_, at).size());
    });
  }

  // `before` stands in front of the first row, `after` behind the last one.
  void add(std::size_t dim, std::size_t first, const std::string& before,
           const std::string& after) {
    if (is_last(dim)) {
      std::string row = before + "[";
      visit_shown(dim, [&](std::size_t i, bool after_gap) {
        const std::string text = element_text(tensor_, first * size(dim) + i);
        row += std::string(i > 0 ? 1 : 0, ' ') + (after_gap ? "... " : "") +
               std::string(width_ - text.size(), ' ') + text;
      });
      rows_.push_back(row + "]" + after);
      return;
    }
    visit_shown(dim, [&](std::size_t i, bool after_gap) {
      const std::string margin(before.size() + 1, ' ');
      if (after_gap) rows_.push_back(margin + "...");
      add(dim + 1, first * size(dim) + i, i == 0 ? before + "[" : margin,
          i + 1 == size(dim) ? "]" + after : "");
    });
  }

  const DenseTensor& tensor_;
  std::size_t edge_ = kEdge;  // of all dimensions but the last
  std::size_t width_ = 0;
  std::vector<std::string> rows_;
};

}  // namespace

std::string element_text(const DenseTensor& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case DType::kBool:
      return load<std::uint8_t>(tensor, i) != 0 ? "True" : "False";
    case DType::kUInt8:
      return std::to_string(load<std::uint8_t>(tensor, i));
    case DType::kInt8:
      return std::to_string(load<std::int8_t>(tensor, i));
    case DType::kInt16:
      return std::to_string(load<std::int16_t>(tensor, i));
    case DType::kUInt16:
      return std::to_string(load<std::uint16_t>(tensor, i));
    case DType::kInt32:
      return std::to_string(load<std::int32_t>(tensor, i));
    case DType::kUInt32:
      return std::to_string(load<std::uint32_t>(tensor, i));
    case DType::kInt64:
      return std::to_string(load<std::int64_t>(tensor, i));
    case DType::kUInt64:
      return std::to_string(load<std::uint64_t>(tensor, i));
    case DType::kComplex32:
      return number_text(float16_to_float(load<std::uint16_t>(tensor, 2 * i)), 4) + "+" +
             number_text(float16_to_float(load<std::uint16_t>(tensor, 2 * i + 1)), 4) + "j";
    case DType::kComplex64:
      return number_text(load<float>(tensor, 2 * i), 6) + "+" +
             number_text(load<float>(tensor, 2 * i + 1), 6) + "j";
    case DType::kComplex128:
      return number_text(load<double>(tensor, 2 * i), 6) + "+" +
             number_text(load<double>(tensor, 2 * i + 1), 6) + "j";
    case DType::kBFloat16:
    case DType::kFloat16:
      return number_text(load_real(tensor.dtype, tensor.bytes.data(), i), 4);
    case DType::kFloat32:
    case DType::kFloat64:
      return number_text(load_real(tensor.dtype, tensor.bytes.data(), i), 6);
    default:
      return number_text(to_float32(tensor.dtype, &tensor.bytes[i]), 4);
  }
}

std::vector<std::string> element_rows(const DenseTensor& tensor, std::size_t most) {
  if (tensor.bytes.empty()) return {"[]"};
  if (tensor.sizes.empty()) return {element_text(tensor, 0)};
  std::vector<std::string> rows = Printer(tensor, most).print();
  if (rows.size() > most) {
    rows.resize(most);
    rows.back() = "..";
  }
  for (std::string& row : rows) row = clipped(std::move(row), kReportWidth - 4);
  return rows;
}

}  // namespace goldentrace
