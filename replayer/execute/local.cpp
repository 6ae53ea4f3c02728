#include "replayer/execute/local.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "replayer/align/align.h"
#include "replayer/align/step_reader.h"
#include "replayer/band/band.h"
#include "replayer/band/run_dtype.h"
#include "replayer/execute/interpreter.h"
#include "replayer/execute/lifetimes.h"
#include "replayer/execute/program_inputs.h"
#include "replayer/execute/weights.h"
#include "replayer/verdict/local_findings.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

// Family-wise: the chance that rounding alone is called out anywhere in a replay.
constexpr double kAlarmRate = 1e-3;
// Of one step, more are not told apart.
constexpr std::size_t kMaxTokens = 1u << 20;
constexpr std::uint64_t kProgressEvery = 64;  // calls

c10::ScalarType scalar_type(DType dtype) { return static_cast<c10::ScalarType>(dtype); }

// They move numbers and compute none.
constexpr std::array<std::string_view, 34> kMoving = {"aten::copy_",
                                                      "aten::clone",
                                                      "aten::contiguous",
                                                      "aten::cat",
                                                      "aten::stack",
                                                      "aten::index_select",
                                                      "aten::index",
                                                      "aten::gather",
                                                      "aten::embedding",
                                                      "aten::repeat",
                                                      "aten::pad",
                                                      "aten::constant_pad_nd",
                                                      "aten::triu",
                                                      "aten::tril",
                                                      "aten::flip",
                                                      "aten::roll",
                                                      "aten::neg",
                                                      "aten::abs",
                                                      "aten::masked_fill",
                                                      "aten::masked_fill_",
                                                      "aten::fill_",
                                                      "aten::zero_",
                                                      "aten::zeros",
                                                      "aten::zeros_like",
                                                      "aten::ones",
                                                      "aten::ones_like",
                                                      "aten::full",
                                                      "aten::full_like",
                                                      "aten::select_copy",
                                                      "aten::slice_scatter",
                                                      "aten::repeat_interleave",
                                                      "aten::index_put_",
                                                      "aten::scatter",
                                                      "aten::to"};

bool moves_numbers(const std::string& op) {
  const std::string_view name = std::string_view(op).substr(0, op.find('.'));
  return std::ranges::find(kMoving, name) != kMoving.end();
}

// Dense, in float64.
at::Tensor in_double(const at::Tensor& tensor) { return tensor.to(at::kDouble).contiguous(); }

std::span<const double> numbers(const at::Tensor& dense) {
  return {dense.const_data_ptr<double>(), static_cast<std::size_t>(dense.numel())};
}

using CutKey =
    std::tuple<bool, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // see LocalCut

// Both sides' calls of one step, and which is which.
class Steps {
 public:
  Steps(const TraceReader& oracle, const TraceReader& candidate)
      : oracle_(oracle, names_, StepReader::Floats::kAlike),
        candidate_(candidate, names_, StepReader::Floats::kAlike) {}

  // Goes to the run of calls that holds the oracle's call `number` of `step`.
  Status go_to(std::uint64_t number, std::uint32_t step) {
    if (!want_.calls.empty() && number <= want_.calls.back().number) return {};
    const auto more = oracle_.next(want_);
    if (!more.ok()) return more.status();
    match_.clear();
    ordinals_.clear();
    while (!ended_ && (!started_ || got_.step < step)) {
      const auto another = candidate_.next(got_);
      if (!another.ok()) return another.status();
      started_ = true;
      ended_ = !*another;
    }
    if (ended_ || got_.step != step) return {};
    const Alignment alignment = align(want_.calls, got_.calls);
    std::set<std::uint32_t> taken;  // of the candidate's calls
    for (const auto& [left, right] : alignment.matched) {
      if (std::ranges::binary_search(alignment.uncertain, left)) continue;
      match_[want_.calls[left].number] = right;
      taken.insert(right);
    }
    match_module_outputs(taken);
    return {};
  }

  [[nodiscard]] const StepCall& oracle(std::uint64_t number) const {
    return want_.calls[static_cast<std::size_t>(number - want_.calls.front().number)];
  }
  // Null where the candidate has no such call.
  [[nodiscard]] const StepCall* candidate(std::uint64_t number) const {
    const auto found = match_.find(number);
    return found != match_.end() ? &got_.calls[found->second] : nullptr;
  }
  // How many calls of its kind its scope made before; to be asked once a call, in order.
  std::uint32_t ordinal(const StepCall& call) { return ordinals_[{call.scope, call.op}]++; }
  [[nodiscard]] const Names& names() const { return names_; }

 private:
  // "[1, 96, 128]" of "bfloat16 [1, 96, 128]".
  [[nodiscard]] std::string_view sizes_of(const Output& output) const {
    const std::string_view shape = names_.text(output.shape);
    return shape.substr(shape.find(' '));
  }

  // A module that computes the same by other calls, or by one more: what each side wrote last in it
  // is its result, whatever else matches.
  void match_module_outputs(const std::set<std::uint32_t>& taken) {
    const auto last_of = [](const std::vector<StepCall>& calls) {
      std::unordered_map<std::uint32_t, std::uint32_t> last;  // by scope
      for (std::uint32_t i = 0; i < calls.size(); ++i) {
        if (!calls[i].outputs.empty()) last[calls[i].scope] = i;
      }
      return last;
    };
    const auto of_candidate = last_of(got_.calls);
    for (const auto& [scope, left] : last_of(want_.calls)) {
      const auto right = of_candidate.find(scope);
      if (right == of_candidate.end() || names_.text(scope).empty()) continue;
      const StepCall& want = want_.calls[left];
      const StepCall& got = got_.calls[right->second];
      if (taken.contains(right->second)) continue;
      if (want.outputs.size() == 1 && got.outputs.size() == 1 &&
          is_real_float(want.outputs[0].dtype) && is_real_float(got.outputs[0].dtype) &&
          sizes_of(want.outputs[0]) == sizes_of(got.outputs[0])) {
        match_[want.number] = right->second;
      }
    }
  }

  Names names_;
  StepReader oracle_;
  StepReader candidate_;
  StepCalls want_;
  StepCalls got_;
  bool started_ = false;
  bool ended_ = false;
  std::unordered_map<std::uint64_t, std::uint32_t> match_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ordinals_;
};

// What is executed beside the wide run.
enum class Beside : std::uint8_t {
  kEager,    // in the recorded dtypes
  kRounded,  // wide, every float result rounded to the working dtype
};

class LocalRun {
 public:
  LocalRun(const TraceReader& oracle, const TraceReader& candidate, const Checkpoint& checkpoint,
           const LocalOptions& options, Beside beside, LocalReport& report)
      : oracle_(oracle),
        candidate_(candidate),
        options_(options),
        calls_(oracle.summary().calls),
        beside_(beside),
        report_(report),
        program_(oracle),
        wide_(program_.dictionary(), Promotion::kNextWider, environment_),
        other_(program_.dictionary(),
               beside == Beside::kEager ? Promotion::kNone : Promotion::kNextWider, environment_),
        inputs_(oracle, checkpoint, program_.dictionary(), {&wide_.memory(), &other_.memory()}),
        steps_(oracle, candidate) {}

  // Adds to `cuts`; of the rounded run only to those that are there.
  Status run(std::map<CutKey, LocalCut>& cuts) {
    cuts_ = &cuts;
    auto lifetimes = Lifetimes::read(oracle_);
    if (!lifetimes.ok()) return lifetimes.status();
    GOLDENTRACE_RETURN_IF_ERROR(inputs_.open());
    const auto text = oracle_.text();
    if (!text.ok()) return text.status();
    for (const Step& step : text->steps) {
      for (const Row& row : step.rows) {
        std::vector<std::int64_t>& positions = positions_[step.step];
        for (std::uint32_t i = 0; i < row.count && positions.size() < kMaxTokens; ++i) {
          positions.push_back(row.position + i);
        }
      }
    }
    while (true) {
      const auto more = program_.next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      const ProgramChunk& chunk = program_.chunk();
      wide_.memory().learn(chunk);
      other_.memory().learn(chunk);
      for (std::size_t i = 0; i < chunk.calls.size(); ++i) {
        const std::uint64_t number = chunk.base.calls + i;
        const Call& call = chunk.calls[i];
        if (call.step > options_.last_step) return {};
        if (options_.progress && number % kProgressEvery == 0) {
          options_.progress(static_cast<double>(number) /
                            static_cast<double>(std::max<std::uint64_t>(1, calls_)));
        }
        GOLDENTRACE_RETURN_IF_ERROR(inputs_.put_before(chunk, number));
        if (!inputs_.wrong_parameters().empty()) {
          report_.wrong_parameters = inputs_.wrong_parameters();
          return {};
        }
        GOLDENTRACE_RETURN_IF_ERROR(steps_.go_to(number, call.step));
        GOLDENTRACE_RETURN_IF_ERROR(run_call(chunk, call, number));
        lifetimes->release_after(number, [&](std::uint32_t storage) {
          wide_.memory().release(storage);
          other_.memory().release(storage);
        });
      }
    }
    return {};
  }

 private:
  [[nodiscard]] bool first_pass() const { return beside_ == Beside::kEager; }
  std::array<Interpreter*, 2> both() { return {&wide_, &other_}; }

  Status run_call(const ProgramChunk& chunk, const Call& call, std::uint64_t number) {
    const StepCall& want = steps_.oracle(number);
    const std::uint32_t ordinal = steps_.ordinal(want);
    if ((call.flags & kCallFailed) != 0) return {};
    if (first_pass()) ++report_.calls;
    const StepCall* got = steps_.candidate(number);
    for (Interpreter* interpreter : both()) {
      std::vector<c10::IValue> results;
      try {
        results = interpreter->run(chunk, call);
        GOLDENTRACE_RETURN_IF_ERROR(force_picked(chunk, call, got, *interpreter, results));
        std::size_t node = call.first_result;
        for (const c10::IValue& result : results) {
          if (node < call.end_node) place(chunk, node, result, *interpreter);
        }
      } catch (const std::exception&) {
        lose(chunk, call, want);
        return {};
      } catch (const CannotRun&) {
        lose(chunk, call, want);
        return {};
      }
    }
    for (std::size_t w = 0; w < call.writes; ++w) {
      const Write& write = chunk.writes[call.first_write + w];
      const Output* found = got != nullptr && w < got->outputs.size() ? &got->outputs[w] : nullptr;
      GOLDENTRACE_RETURN_IF_ERROR(
          take(call, write, want, static_cast<std::uint32_t>(w), ordinal, got, found));
    }
    return {};
  }

  void lose(const ProgramChunk& chunk, const Call& call, const StepCall& want) {
    for (Interpreter* interpreter : both()) interpreter->lose_results(chunk, call);
    if (first_pass()) ++report_.lost[steps_.names().text(want.op)];
  }

  static void place(const ProgramChunk& chunk, std::size_t& node, const c10::IValue& result,
                    Interpreter& interpreter) {
    const Node& want = chunk.nodes[node];
    if (want.kind == NodeKind::kList && result.isList() &&
        result.toListRef().size() == static_cast<std::size_t>(want.value)) {
      ++node;
      for (const c10::IValue& item : result.toListRef()) place(chunk, node, item, interpreter);
      return;
    }
    if (want.kind == NodeKind::kTensor && result.isTensor() && result.toTensor().defined() &&
        result.toTensor().has_storage()) {
      interpreter.place(static_cast<std::uint32_t>(want.value), result.toTensor());
    }
    node = skip_node(chunk.nodes, node);
  }

  // The bytes that stand for this output's control: the candidate's where it has them, else the
  // oracle's. Empty when neither keeps any.
  Result<Bytes> control(const Call& call, const Write& write, const Output* got) const {
    // What was chosen outside every module is the next token, and both were given the same.
    if (program_.dictionary().scope(call.scope).empty()) got = nullptr;
    if (got != nullptr && candidate_.has_value(got->hash)) return candidate_.value(got->hash);
    if ((write.flags & kWriteValue) != 0) return oracle_.value(write.hash);
    return Bytes();
  }

  // Values that were picked by an index of this very call are picked by the index that stands.
  Status force_picked(const ProgramChunk& chunk, const Call& call, const StepCall* got,
                      Interpreter& interpreter, std::vector<c10::IValue>& results) const {
    if (call.writes != 2 || results.size() != 2) return {};
    const Write& write = chunk.writes[call.first_write + 1];
    const Dictionary& dictionary = program_.dictionary();
    if ((write.flags & kWriteDecision) == 0 ||
        dictionary.tensor(write.tensor).dtype != DType::kInt64) {
      return {};
    }
    const auto bytes = control(
        call, write, got != nullptr && got->outputs.size() == 2 ? &got->outputs[1] : nullptr);
    if (!bytes.ok()) return bytes.status();
    const at::Tensor index =
        at::empty(dictionary.geometry_of(write.tensor).sizes, at::TensorOptions().dtype(at::kLong));
    if (bytes->size() != index.nbytes()) return {};
    GOLDENTRACE_RETURN_IF_ERROR(put_elements(*bytes, DType::kInt64, index));
    interpreter.gather_picked(call, index, results);
    return {};
  }

  // Compares one output, and puts what stands for it from now on into both memories.
  Status take(const Call& call, const Write& write, const StepCall& want, std::uint32_t output,
              std::uint32_t ordinal, const StepCall* call_got, const Output* got) {
    const Dictionary& dictionary = program_.dictionary();
    const Tensor& tensor = dictionary.tensor(write.tensor);
    if ((write.flags & kWriteUndefined) != 0) return {};
    for (Interpreter* interpreter : both()) {
      if (!interpreter->memory().has(tensor.storage)) return {};
    }
    const bool random = (call.flags & kCallRandom) != 0;
    if (!is_real_float(tensor.dtype) || random) {
      if (!random && (write.flags & kWriteDecision) == 0) return {};
      return take_control(call, write, got);
    }
    if (first_pass()) ++report_.outputs;
    const bool judged = !is_rerouted(call);
    if (!judged && first_pass()) ++report_.rerouted_outputs;
    const Output& mine = want.outputs[output];
    if (got == nullptr || !is_real_float(got->dtype) || got->elements != mine.elements ||
        !candidate_.has_value(got->hash)) {
      if (!first_pass()) round(write);
      return {};
    }
    const auto bytes = candidate_.value(got->hash);
    if (!bytes.ok()) return bytes.status();
    const Geometry& geometry = dictionary.geometry_of(write.tensor);
    const at::Tensor value = at::empty(geometry.sizes, at::TensorOptions().dtype(at::kDouble));
    GOLDENTRACE_RETURN_IF_ERROR(put_elements(*bytes, got->dtype, value));
    if (!first_pass()) round(write);

    const bool asked = judged && call.step >= options_.first_step;
    const CutKey key{call.step == 0, want.scope, want.op, ordinal, output};
    if (asked && (first_pass() || cuts_->contains(key))) {
      LocalCut& cut = (*cuts_)[key];
      const std::string& op = steps_.names().text(want.op);
      if (cut.steps == 0) {
        cut.prefill = call.step == 0;
        cut.scope = steps_.names().text(want.scope);
        cut.op = op;
        cut.ordinal = ordinal;
        cut.output = output;
        cut.tensor = dictionary.describe_tensor(write.tensor);
        cut.oracle_call = want.number;
        cut.candidate_call = call_got->number;
        cut.step = call.step;
        cut.exact = moves_numbers(op);
      }
      measure(cut, write, call.step, value);
    }
    for (Interpreter* interpreter : both()) {
      interpreter->memory().tensor(write.tensor).copy_(value);
    }
    return {};
  }

  void measure(LocalCut& cut, const Write& write, std::uint32_t step, const at::Tensor& value) {
    const DType recorded = program_.dictionary().tensor(write.tensor).dtype;
    const at::Tensor wide = in_double(wide_.memory().tensor(write.tensor));
    const at::Tensor other = in_double(other_.memory().tensor(write.tensor));
    const at::Tensor result = in_double(wide.to(scalar_type(recorded)));
    CutValues values{numbers(wide), numbers(value), {}, numbers(result), {}};
    (first_pass() ? values.eager : values.rounded) = numbers(other);
    if (first_pass()) {
      add_values(values, cut.sums);
      // A matrix a head is one quantity; else a vector a token is.
      const auto inner = [&](std::int64_t dims) {
        std::int64_t product = 1;
        for (std::int64_t d = 1; d <= std::min(dims, value.dim()); ++d) product *= value.size(-d);
        return std::max<std::int64_t>(1, product);
      };
      cut.sums.channels = static_cast<std::uint64_t>(inner(1));
      cut.sums.rows += static_cast<std::uint64_t>(value.numel() / inner(value.dim() >= 4 ? 2 : 1));
      ++cut.steps;
      ++report_.compared;
      return;
    }
    CutSums sums;
    add_values(values, sums);
    cut.sums.rounded.add(sums.rounded);
    cut.sums.has_rounded = true;
    note_tokens(cut, step, wide, value, result, other);
  }

  // Judges each token's row by itself.
  void note_tokens(LocalCut& cut, std::uint32_t step, const at::Tensor& wide,
                   const at::Tensor& value, const at::Tensor& result, const at::Tensor& rounded) {
    const auto known = positions_.find(step);
    if (known == positions_.end()) return;
    const std::vector<std::int64_t>& positions = known->second;
    const auto count = static_cast<std::int64_t>(positions.size());
    const auto sizes = wide.sizes();
    const auto axis = std::ranges::find(sizes, count) - sizes.begin();
    if (count > 1 && axis == wide.dim()) return;
    const auto squares = [&](const at::Tensor& errors) {
      const at::Tensor of = errors.square().nan_to_num(0, 0, 0);
      return (count > 1 ? of.movedim(axis, 0).reshape({count, -1}) : of.reshape({1, -1})).sum(1);
    };
    const at::Tensor error = squares(value.sub(wide));
    const at::Tensor noise = squares(result.sub(wide)).add(squares(rounded.sub(wide)));
    const at::Tensor size = squares(wide);
    const double elements = static_cast<double>(wide.numel()) / static_cast<double>(count);
    const double limit = f_quantile(elements, elements, report_.alarm_rate);
    const double floor = cut.sums.wide > 0 ? cut.noise_floor / cut.sums.wide : 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = [&](const at::Tensor& rows) { return rows.const_data_ptr<double>()[i]; };
      const auto position = positions[static_cast<std::size_t>(i)];
      cut.tokens.push_back(position);
      if (at(error) > limit * std::max(at(noise), floor * at(size))) {
        cut.dirty_tokens.push_back(position);
      }
    }
  }

  // The module around the one that decides: a router and its experts are parts of one.
  static std::string_view around(std::string_view scope) {
    return scope.substr(0, std::min(scope.rfind('.'), scope.size()));
  }

  // Whether the candidate's own decision, in this step and in or beside this module, was another.
  [[nodiscard]] bool is_rerouted(const Call& call) const {
    if (rerouted_.empty() || rerouted_step_ != call.step) return false;
    const std::string& scope = program_.dictionary().scope(call.scope);
    return std::ranges::any_of(rerouted_, [&](const std::string& module) {
      return scope.starts_with(module) &&
             (scope.size() == module.size() || scope[module.size()] == '.');
    });
  }

  // Which experts a token goes to, say: from there on the candidate's module runs other calls than
  // the oracle's program, and what it gives is taken as it is.
  void note_decision(const Call& call, const Write& write, const Output* got) {
    const std::string& scope = program_.dictionary().scope(call.scope);
    if (got == nullptr || scope.empty() || got->hash == write.hash ||
        (write.flags & kWriteHashed) == 0 || !candidate_.has_value(got->hash)) {
      return;
    }
    if (rerouted_step_ != call.step) rerouted_.clear();
    rerouted_step_ = call.step;
    if (rerouted_.emplace(around(scope)).second && first_pass()) {
      report_.rerouted.emplace(std::string(around(scope)), call.step);
    }
  }

  Status take_control(const Call& call, const Write& write, const Output* got) {
    const bool explained = is_rerouted(call);  // its inputs are then not the oracle's calls'
    note_decision(call, write, got);
    const auto bytes = control(call, write, got);
    if (!bytes.ok()) return bytes.status();
    if (bytes->empty()) return {};
    const DType dtype = program_.dictionary().tensor(write.tensor).dtype;
    if (first_pass()) ++report_.decisions;
    bool differs = false;
    for (Interpreter* interpreter : both()) {
      const at::Tensor place = interpreter->memory().tensor(write.tensor);
      if (static_cast<std::size_t>(place.numel()) * item_size(dtype) != bytes->size()) return {};
      const at::Tensor before = place.clone();
      GOLDENTRACE_RETURN_IF_ERROR(put_elements(*bytes, dtype, place));
      differs = interpreter == &other_ && !before.equal(place);
    }
    if (first_pass() && differs && !explained) ++report_.decisions_differing;
    return {};
  }

  // As an engine that keeps everything in the working dtype would have it.
  void round(const Write& write) {
    const at::Tensor place = other_.memory().tensor(write.tensor);
    place.copy_(place.to(scalar_type(report_.working_dtype)));
  }

  const TraceReader& oracle_;
  const TraceReader& candidate_;
  const LocalOptions& options_;
  const std::uint64_t calls_;
  const Beside beside_;
  LocalReport& report_;
  ProgramReader program_;
  Environment environment_;
  Interpreter wide_;
  Interpreter other_;
  ProgramInputs inputs_;
  Steps steps_;
  std::map<CutKey, LocalCut>* cuts_ = nullptr;
  std::uint32_t rerouted_step_ = 0;
  std::set<std::string> rerouted_;                                          // modules, in that step
  std::unordered_map<std::uint32_t, std::vector<std::int64_t>> positions_;  // by step
};

void judge_all(std::map<CutKey, LocalCut>& cuts, const LocalReport& report) {
  std::vector<LocalCut*> pointers;
  for (auto& [key, cut] : cuts) pointers.push_back(&cut);
  judge_cuts(pointers, report);
}

Result<LocalReport> measure(const TraceReader& oracle, const TraceReader& candidate,
                            const Checkpoint& checkpoint, const LocalOptions& options) {
  LocalReport report;
  report.working_dtype = run_dtype(oracle);
  std::map<CutKey, LocalCut> cuts;
  GOLDENTRACE_RETURN_IF_ERROR(
      LocalRun(oracle, candidate, checkpoint, options, Beside::kEager, report).run(cuts));
  report.alarm_rate = kAlarmRate / static_cast<double>(std::max<std::size_t>(1, cuts.size()));
  for (auto& [key, cut] : cuts) {
    // One rounding of each element, of which eager may by luck have made none.
    const double roundoff =
        unit_roundoff(*dtype_from_name(cut.tensor.substr(0, cut.tensor.find(' '))));
    cut.noise_floor = cut.exact ? 0 : roundoff * roundoff / 6 * cut.sums.wide;
  }
  judge_all(cuts, report);
  std::map<CutKey, LocalCut> flagged;
  for (const auto& [key, cut] : cuts) {
    if (cut.zone.zone == Zone::kFault && cut.sums.one_sided == 0) flagged.emplace(key, cut);
  }
  if (!flagged.empty()) {
    GOLDENTRACE_RETURN_IF_ERROR(
        LocalRun(oracle, candidate, checkpoint, options, Beside::kRounded, report).run(flagged));
    judge_all(flagged, report);
    for (auto& [key, cut] : flagged) cuts[key] = cut;
  }
  for (auto& [key, cut] : cuts) report.cuts.push_back(std::move(cut));
  std::ranges::sort(report.cuts, {}, &LocalCut::oracle_call);
  return report;
}

}  // namespace

Result<LocalReport> measure_local(const LocalOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  auto oracle = TraceReader::open(options.oracle);
  if (!oracle.ok()) return oracle.status();
  auto candidate = TraceReader::open(options.candidate);
  if (!candidate.ok()) return candidate.status();
  if ((*oracle)->summary().counter("calls_trimmed") > 0) {
    return Status(Code::kInvalidArgument,
                  options.oracle +
                      ": calls were trimmed away; what is left is no program that can "
                      "be executed: --weights needs the trace that it was made from");
  }
  const auto checkpoint = find_weights(options.weights, **oracle);
  if (!checkpoint.ok()) return checkpoint.status();
  try {
    auto report = measure(**oracle, **candidate, *checkpoint, options);
    if (!report.ok()) return report.status();
    report->seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return report;
  } catch (const std::exception& error) {  // sizes in a file that no memory can hold
    const std::string what = error.what();
    return Status(Code::kCorrupt, options.oracle + ", " + options.candidate + ": " +
                                      what.substr(0, what.find('\n')));
  }
}

}  // namespace goldentrace
