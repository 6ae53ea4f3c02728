#include "replayer/align/batch.h"

#include <algorithm>

#include "src/digest/digest.h"

namespace goldentrace {

BatchRow keep_row_of(const Text& oracle, Text& candidate) {
  if (oracle.requests.size() != 1 || candidate.requests.size() < 2) return {};
  const std::vector<std::int64_t>& prompt = oracle.requests.front().prompt_ids;
  const auto found = std::ranges::find(candidate.requests, prompt, &Request::prompt_ids);
  const std::uint64_t index = found == candidate.requests.end()
                                  ? 0
                                  : static_cast<std::uint64_t>(found - candidate.requests.begin());
  const BatchRow row = {index, candidate.requests.size()};
  const Request kept = candidate.requests[index];
  std::erase_if(candidate.steps, [&](const Step& step) {
    return !step.rows.empty() && step.rows.front().request != kept.id;
  });
  candidate.requests = {kept};
  return row;
}

bool holds_row(const Output& want, const Output& got, const BatchRow& row) {
  return got.elements == want.elements || got.elements == row.count * want.elements;
}

std::span<const std::byte> row_of(std::span<const std::byte> bytes, const Output& want,
                                  const Output& got, const BatchRow& row) {
  if (got.elements == want.elements || bytes.size() % row.count != 0) return bytes;
  const std::size_t size = bytes.size() / row.count;
  return bytes.subspan(row.index * size, size);
}

Result<Output> output_of_row(const TraceReader& candidate, const Output& want, const Output& got,
                             const BatchRow& row) {
  if (got.elements == want.elements) return got;
  Output alone = got;
  alone.elements = want.elements;
  alone.shape = want.shape;
  alone.flags = got.flags & kWriteDecision;
  // Integers that no float decided number the rows themselves.
  const bool counts = is_real_float(got.dtype) || (got.flags & kWriteDecision) != 0;
  if (!counts || item_size(got.dtype) == 0 || !candidate.has_value(got.hash)) return alone;
  const auto bytes = candidate.view_value(got.hash);
  if (!bytes.ok()) return bytes.status();
  const std::span<const std::byte> mine = row_of(*bytes, want, got, row);
  const std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(want.elements)};
  const std::vector<std::int64_t> strides = {1};
  if (mine.size() != want.elements * item_size(got.dtype)) {
    return Status(Code::kCorrupt, candidate.name() + ": a stored value has another size");
  }
  const bool real = is_real_float(got.dtype);
  const Digest digest =
      digest_tensor({mine.data(), got.dtype, sizes, strides}, {.stats = real, .sketch = real});
  alone.hash = digest.hash;
  alone.flags |= kWriteHashed;
  if (real) {
    alone.stats = digest.stats;
    alone.sketch = digest.sketch;
    alone.flags |= kWriteStats | kWriteSketch;
  }
  return alone;
}

}  // namespace goldentrace
