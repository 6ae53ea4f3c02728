#include "replayer/tools/twin_distances.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "replayer/align/batch.h"
#include "replayer/align/matched_steps.h"
#include "replayer/band/band.h"
#include "src/digest/digest.h"

namespace goldentrace {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

using Sizes = std::vector<std::int64_t>;

// Of "bfloat16 [1, 96, 128]".
Sizes sizes_in(std::string_view shape) {
  Sizes sizes;
  bool number = false;
  for (const char c : shape.substr(shape.find('['))) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !number) sizes.push_back(0);
    if (digit) sizes.back() = 10 * sizes.back() + (c - '0');
    number = digit;
  }
  return sizes;
}

// Of every scope, the last call that wrote something.
std::unordered_map<std::uint32_t, std::uint32_t> last_writes(const std::vector<StepCall>& calls) {
  std::unordered_map<std::uint32_t, std::uint32_t> last;
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].outputs.empty()) last[calls[i].scope] = i;
  }
  return last;
}

// A twin that ran all tokens in one prefill: what each module gave of them, sliced to a step's.
class OnePrefill {
 public:
  OnePrefill(const TraceReader& oracle, const TraceReader& twin, const Text& text,
             std::size_t tokens)
      : twin_(twin),
        tokens_(static_cast<std::int64_t>(tokens)),
        oracle_steps_(oracle, names_),
        twin_steps_(twin, names_) {
    for (const Step& step : text.steps) {
      if (!step.rows.empty()) rows_[step.step] = step.rows.front();
    }
  }

  Result<TwinDistances> run() {
    const auto first = twin_steps_.next(theirs_);
    if (!first.ok()) return first.status();
    last_ = last_writes(theirs_.calls);
    TwinDistances distances;
    StepCalls mine;
    while (true) {
      const auto more = oracle_steps_.next(mine);
      if (!more.ok()) return more.status();
      if (!*more) return distances;
      const auto last = last_writes(mine.calls);
      for (std::uint32_t i = 0; i < mine.calls.size(); ++i) {
        const StepCall& call = mine.calls[i];
        const auto found = last.find(call.scope);
        const bool module_output = found != last.end() && found->second == i &&
                                   call.outputs.size() == 1 && !names_.text(call.scope).empty();
        float distance = kNone;
        if (module_output) {
          const auto measured = measure(call, mine.step);
          if (!measured.ok()) return measured.status();
          distance = *measured;
        }
        distances.insert(distances.end(), call.outputs.size(), distance);
      }
    }
  }

 private:
  Result<float> measure(const StepCall& call, std::uint32_t step) const {
    const auto known = rows_.find(step);
    const auto theirs = last_.find(call.scope);
    if (known == rows_.end() || theirs == last_.end()) return kNone;
    const Output& want = call.outputs.front();
    const StepCall& other = theirs_.calls[theirs->second];
    const Output& got = other.outputs.front();
    if (other.op != call.op || other.outputs.size() != 1 || !is_real_float(got.dtype) ||
        !twin_.has_value(got.hash)) {
      return kNone;
    }
    const Sizes sizes = sizes_in(names_.text(want.shape));
    const Sizes whole = sizes_in(names_.text(got.shape));
    const auto offset = offset_of(sizes, whole, known->second);
    const auto bytes = twin_.view_value(got.hash);
    if (!bytes.ok()) return bytes.status();
    if (!offset || bytes->size() != got.elements * item_size(got.dtype)) return kNone;
    Sizes strides(whole.size(), 1);
    for (std::size_t d = whole.size(); d-- > 1;) strides[d - 1] = strides[d] * whole[d];
    const std::byte* const data =
        bytes->data() + static_cast<std::size_t>(*offset) * item_size(got.dtype);
    const Digest digest =
        digest_tensor({data, got.dtype, sizes, strides}, {.stats = true, .sketch = true});
    Output slice = got;
    slice.hash = digest.hash;
    slice.stats = digest.stats;
    slice.sketch = digest.sketch;
    slice.flags = kWriteHashed | kWriteStats | kWriteSketch;
    return digest_distance(want, slice);
  }

  // Where the step's part of a tensor over all tokens begins, in elements; none where it is no
  // part.
  [[nodiscard]] std::optional<std::int64_t> offset_of(const Sizes& sizes, const Sizes& whole,
                                                      const Row& row) const {
    const std::int64_t count = row.count;
    if (sizes.size() != whole.size() || row.position < 0 || row.position > tokens_ - count) {
      return {};
    }
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      offset *= whole[d];
      if (sizes[d] == whole[d]) continue;
      if (whole[d] != tokens_) return {};
      if (sizes[d] == count) {
        offset += row.position;
      } else if (sizes[d] != row.position + count) {  // all that has been seen so far
        return {};
      }
    }
    return offset;
  }

  const TraceReader& twin_;
  const std::int64_t tokens_;
  Names names_;
  StepReader oracle_steps_;
  StepReader twin_steps_;
  StepCalls theirs_;
  std::unordered_map<std::uint32_t, std::uint32_t> last_;
  std::unordered_map<std::uint32_t, Row> rows_;  // by step
};

Result<TwinDistances> same_steps(const TraceReader& oracle, const TraceReader& twin,
                                 const BatchRow& row) {
  MatchedSteps steps(oracle, twin, row);
  TwinDistances distances;
  ProgramReader program(oracle);
  while (true) {
    const auto more = program.next();
    if (!more.ok()) return more.status();
    if (!*more) return distances;
    const ProgramChunk& chunk = program.chunk();
    for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
      const std::uint64_t number = chunk.base.calls + i;
      const auto moved = steps.go_to(number, chunk.calls[i].step);
      if (!moved.ok()) return moved.status();
      const StepCall& want = steps.oracle(number);
      const StepCall* const got = steps.candidate(number);
      for (std::size_t w = 0; w < want.outputs.size(); ++w) {
        if (got == nullptr || w >= got->outputs.size()) {
          distances.push_back(kNone);
          continue;
        }
        const auto alone = output_of_row(twin, want.outputs[w], got->outputs[w], row);
        if (!alone.ok()) return alone.status();
        distances.push_back(digest_distance(want.outputs[w], *alone));
      }
    }
  }
}

}  // namespace

float digest_distance(const Output& want, const Output& got) {
  const unsigned both = want.flags & got.flags;
  if (!is_real_float(want.dtype) || !is_real_float(got.dtype)) return kNone;
  if ((both & kWriteHashed) != 0 && want.hash == got.hash) return 0;
  if ((both & kWriteSketch) == 0 || (both & kWriteStats) == 0) return kNone;
  const Distance bound = distance_from_stats(want.stats, got.stats);
  if (bound.non_finite) return kNone;
  const double relative = distance_from_sketches(want.sketch, got.sketch, bound.norm).relative();
  return std::isfinite(relative) ? static_cast<float>(relative) : kNone;
}

Result<TwinDistances> twin_distances(const TraceReader& oracle, const TraceReader& twin) {
  const auto want = oracle.text();
  if (!want.ok()) return want.status();
  auto got = twin.text();
  if (!got.ok()) return got.status();
  const BatchRow row = keep_row_of(*want, *got);
  if (want->requests.size() == 1 && got->requests.size() == 1) {
    const Request& mine = want->requests.front();
    const Request& theirs = got->requests.front();
    std::vector<std::int64_t> all = mine.prompt_ids;
    all.insert(all.end(), mine.output_ids.begin(), mine.output_ids.end());
    const auto begins = [&](const std::vector<std::int64_t>& ids) {
      return ids.size() <= all.size() && std::equal(ids.begin(), ids.end(), all.begin());
    };
    std::vector<std::int64_t> run = theirs.prompt_ids;
    run.insert(run.end(), theirs.output_ids.begin(), theirs.output_ids.end());
    if (theirs.prompt_ids == mine.prompt_ids && begins(run)) return same_steps(oracle, twin, row);
    if (theirs.prompt_ids.size() > mine.prompt_ids.size() && begins(theirs.prompt_ids)) {
      return OnePrefill(oracle, twin, *want, theirs.prompt_ids.size()).run();
    }
  }
  return Status(Code::kInvalidArgument,
                twin.name() + ": no twin of " + oracle.name() + ": it ran other tokens");
}

}  // namespace goldentrace
