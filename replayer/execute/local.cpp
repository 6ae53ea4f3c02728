#include "replayer/execute/local.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "replayer/align/matched_steps.h"
#include "replayer/align/values_ahead.h"
#include "replayer/band/band.h"
#include "replayer/band/cut.h"
#include "replayer/band/run_dtype.h"
#include "replayer/execute/device.h"
#include "replayer/execute/execution.h"
#include "replayer/execute/weights.h"
#include "replayer/verdict/local_findings.h"
#include "src/base/machine.h"
#include "src/format/trace_reader.h"

namespace goldentrace {
namespace {

// Of one step, more are not told apart.
constexpr std::size_t kMaxTokens = 1u << 20;
// Values closer than so many roundings may be picked in either order.
constexpr double kTie = 8;
constexpr std::uint64_t kProgressEvery = 64;  // calls

c10::ScalarType scalar_type(DType dtype) { return static_cast<c10::ScalarType>(dtype); }

FloatArray array_of(const at::Tensor& dense) {
  return {static_cast<const std::byte*>(dense.const_data_ptr()),
          static_cast<DType>(dense.scalar_type())};
}

using CutKey =
    std::tuple<bool, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // see LocalCut

class LocalRun {
 public:
  LocalRun(const TraceReader& oracle, const TraceReader& candidate, ValuesAhead& values,
           const Checkpoint& checkpoint, const LocalOptions& options, const BatchRow& row,
           c10::Device device, Beside beside, LocalReport& report)
      : oracle_(oracle),
        candidate_(candidate),
        values_(values),
        row_(row),
        options_(options),
        calls_(std::max<std::uint64_t>(1, oracle.summary().calls)),
        beside_(beside),
        report_(report),
        execution_(oracle, checkpoint,
                   {wide_dtypes(options),
                    beside == Beside::kEager ? Promotion::kNone : wide_dtypes(options)},
                   Alignment::kAny, device),
        steps_(oracle, candidate, row) {
    execution_.set_weight_cache(options.weight_cache.value_or(available_memory() / 2));
  }

  [[nodiscard]] const std::map<CutKey, std::set<CutKey>>& inputs() const { return inputs_; }

  // Adds to `cuts`; of the rounded run only to those that are there.
  Status run(std::map<CutKey, LocalCut>& cuts) {
    cuts_ = &cuts;
    GOLDENTRACE_RETURN_IF_ERROR(execution_.open());
    GOLDENTRACE_RETURN_IF_ERROR(learn_positions());
    while (true) {
      const auto more = execution_.next();
      if (!more.ok()) return more.status();
      if (!*more || execution_.call().step > options_.last_step) break;
      if (options_.progress && execution_.number() % kProgressEvery == 0) {
        options_.progress(static_cast<double>(execution_.number()) / static_cast<double>(calls_));
      }
      const auto moved = steps_.go_to(execution_.number(), execution_.call().step);
      if (!moved.ok()) return moved.status();
      if (*moved) ask_for_values();
      GOLDENTRACE_RETURN_IF_ERROR(run_call());
    }
    report_.wrong_parameters = execution_.inputs().wrong_parameters();
    return {};
  }

 private:
  static constexpr std::size_t kWide = 0;
  static constexpr std::size_t kBeside = 1;

  static Promotion wide_dtypes(const LocalOptions& options) {
    return options.float64 ? Promotion::kFloat64 : Promotion::kNextWider;
  }
  [[nodiscard]] bool first_pass() const { return beside_ == Beside::kEager; }
  [[nodiscard]] const Dictionary& dictionary() const { return execution_.dictionary(); }

  Status learn_positions() {
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
    return {};
  }

  // Of the step that begins, all values that will be compared, in the order of the calls.
  void ask_for_values() {
    tickets_.clear();
    for (const StepCall& want : steps_.calls()) {
      const StepCall* const got = steps_.candidate(want.number);
      const std::size_t outputs = got == nullptr ? 0 : got->outputs.size();
      for (std::size_t i = 0; i < std::min(outputs, want.outputs.size()); ++i) {
        const Output& output = got->outputs[i];
        if (!is_real_float(output.dtype) || !candidate_.has_value(output.hash)) continue;
        tickets_[{want.number, static_cast<std::uint32_t>(i)}] = values_.ask(output.hash);
      }
    }
  }

  Status run_call() {
    const Call& call = execution_.call();
    const StepCall& want = steps_.oracle(execution_.number());
    const std::uint32_t ordinal = steps_.ordinal(want);
    if ((call.flags & kCallFailed) != 0) return {};
    if (first_pass()) ++report_.calls;
    const StepCall* got = steps_.candidate(execution_.number());
    const auto output_of = [&](std::size_t output) {
      return got != nullptr && output < got->outputs.size() ? &got->outputs[output] : nullptr;
    };
    const auto ran = execution_.run([&](const Write& write, std::size_t output) {
      return control(call, write, output, output_of(output));
    });
    if (!ran.ok()) return ran.status();
    if (!*ran) {
      if (first_pass()) ++report_.lost[steps_.names().text(want.op)];
      return {};
    }
    if (first_pass()) note_sources();
    for (std::size_t w = 0; w < call.writes; ++w) {
      const Write& write = execution_.chunk().writes[call.first_write + w];
      GOLDENTRACE_RETURN_IF_ERROR(
          take(write, want, static_cast<std::uint32_t>(w), ordinal, got, output_of(w)));
    }
    return {};
  }

  // The bytes that stand for this output's control: the candidate's where it has them, else the
  // oracle's. Empty when neither keeps any.
  Result<Bytes> control(const Call& call, const Write& write, std::size_t output,
                        const Output* got) const {
    // What was chosen outside every module is the next token, and both were given the same.
    if (dictionary().scope(call.scope).empty()) got = nullptr;
    if (got == nullptr || !candidate_.has_value(got->hash)) {
      return execution_.recorded_control(write);
    }
    const auto whole = candidate_.view_value(got->hash);
    if (!whole.ok()) return whole.status();
    const StepCall& want = steps_.oracle(execution_.number());
    const std::span<const std::byte> mine = row_of(*whole, want.outputs[output], *got, row_);
    return Bytes(mine.begin(), mine.end());
  }

  // Compares one output, and puts what stands for it from now on into both memories.
  Status take(const Write& write, const StepCall& want, std::uint32_t output, std::uint32_t ordinal,
              const StepCall* call_got, const Output* got) {
    const Call& call = execution_.call();
    const DType dtype = dictionary().tensor(write.tensor).dtype;
    if ((write.flags & kWriteUndefined) != 0 || !execution_.has(write)) return {};
    const bool random = (call.flags & kCallRandom) != 0;
    if (!is_real_float(dtype) || random) {
      if (!random && (write.flags & kWriteDecision) == 0) return {};
      return take_control(call, write, output, got);
    }
    if (first_pass()) ++report_.outputs;
    const bool judged = !is_rerouted(call);
    if (!judged && first_pass()) ++report_.rerouted_outputs;
    // As an engine that keeps everything in the working dtype would have it.
    if (!first_pass()) execution_.round(write, kBeside, report_.working_dtype);
    const std::uint64_t elements = want.outputs[output].elements;
    if (got == nullptr || !is_real_float(got->dtype) || !candidate_.has_value(got->hash)) return {};
    const auto asked_for = tickets_.find({want.number, output});
    if (asked_for == tickets_.end()) return {};
    const auto whole = values_.get(asked_for->second);
    if (!whole.ok()) return whole.status();
    const std::span<const std::byte> value = row_of(*whole, want.outputs[output], *got, row_);
    if (value.size() != elements * item_size(got->dtype)) {
      return {Code::kCorrupt,
              candidate_.name() + ": a stored value has another size than its tensor"};
    }

    const bool same = is_eagers(write, value, got->dtype);
    const bool asked = judged && call.step >= options_.first_step;
    const CutKey key{call.step == 0, want.scope, want.op, ordinal, output};
    if (asked && (first_pass() || cuts_->contains(key))) {
      LocalCut& cut = (*cuts_)[key];
      if (cut.steps == 0) {
        describe(cut, write, want, *call_got);
        cut.ordinal = ordinal;
        cut.output = output;
      }
      measure(cut, write, {value.data(), got->dtype});
      if (first_pass()) {
        inputs_[key].insert(read_.begin(), read_.end());
        sources_[dictionary().tensor(write.tensor).storage] = {key};
      }
    }
    const at::Tensor taken = at::from_blob(const_cast<std::byte*>(value.data()),
                                           dictionary().geometry_of(write.tensor).sizes,
                                           at::TensorOptions().dtype(scalar_type(got->dtype)));
    execution_.memory(kWide).tensor(write.tensor).copy_(taken);
    if (!same) execution_.memory(kBeside).tensor(write.tensor).copy_(taken);
    return {};
  }

  // The candidate's bytes are eager's.
  bool is_eagers(const Write& write, std::span<const std::byte> value, DType dtype) {
    if (!first_pass()) return false;
    const at::Tensor eager = execution_.memory(kBeside).tensor(write.tensor);
    return eager.is_cpu() && static_cast<DType>(eager.scalar_type()) == dtype &&
           eager.is_contiguous() && eager.nbytes() == value.size() &&
           (value.empty() || std::memcmp(eager.const_data_ptr(), value.data(), value.size()) == 0);
  }

  // From which cuts the call's results come.
  void note_sources() {
    constexpr std::size_t kMost = 16;
    const Call& call = execution_.call();
    read_.clear();
    const auto storage_of = [&](std::int64_t tensor) {
      return dictionary().tensor(static_cast<std::uint32_t>(tensor)).storage;
    };
    for (std::size_t n = call.first_node; n < call.first_result; ++n) {
      const Node& node = execution_.chunk().nodes[n];
      if (node.kind != NodeKind::kTensor) continue;
      const auto found = sources_.find(storage_of(node.value));
      if (found == sources_.end()) continue;
      for (const CutKey& key : found->second) {
        if (read_.size() < kMost) read_.insert(key);
      }
    }
    for (std::size_t w = 0; w < call.writes; ++w) {
      sources_[storage_of(execution_.chunk().writes[call.first_write + w].tensor)] = read_;
    }
  }

  void describe(LocalCut& cut, const Write& write, const StepCall& want,
                const StepCall& got) const {
    cut.prefill = execution_.call().step == 0;
    cut.scope = steps_.names().text(want.scope);
    cut.op = steps_.names().text(want.op);
    cut.tensor = dictionary().describe_tensor(write.tensor);
    cut.oracle_call = want.number;
    cut.candidate_call = got.number;
    cut.step = execution_.call().step;
    cut.exact = moves_numbers(cut.op);
  }

  void measure(LocalCut& cut, const Write& write, const FloatArray& candidate) {
    const at::Tensor wide = execution_.memory(kWide).tensor(write.tensor).cpu().contiguous();
    const at::Tensor beside = execution_.memory(kBeside).tensor(write.tensor).cpu().contiguous();
    CutValues values;
    values.wide = array_of(wide);
    values.candidate = candidate;
    values.beside = array_of(beside);
    values.recorded = dictionary().tensor(write.tensor).dtype;
    const double floor = one_rounding(unit_roundoff(values.recorded));
    // The chance is shared by all calls.
    const double rate = kAlarmRate / static_cast<double>(calls_);
    const CutOptions options{beside_, cut.exact, report_.working_dtype, rate};
    meter_.add(values, wide.sizes(), options, cut.sums,
               [&](std::size_t dimension, const SliceSums& slices, double elements) {
                 if (first_pass()) return;
                 note_tokens(cut, wide.sizes(), dimension, slices, elements, floor,
                             rate / static_cast<double>(wide.dim()));
               });
    if (!first_pass()) {
      note_only_token(cut, floor);
      values.channels = static_cast<std::size_t>(std::max<std::int64_t>(1, wide.numel()));
      values.rows = 1;
      add_magnitude(values, cut.magnitude);
      return;
    }
    ++cut.steps;
    ++report_.compared;
  }

  // A decode step's: the whole output is about it.
  void note_only_token(LocalCut& cut, double floor) const {
    const auto known = positions_.find(execution_.call().step);
    if (known == positions_.end() || known->second.size() != 1) return;
    const OutputErrors& errors = meter_.errors();
    const auto elements = static_cast<double>(errors.elements);
    const double noise = std::max(errors.beside.squares, floor * errors.wide);
    cut.tokens.push_back(known->second.front());
    if (errors.candidate.squares > f_quantile(elements, elements, report_.alarm_rate) * noise) {
      cut.dirty_tokens.push_back(known->second.front());
    }
  }

  // Which tokens are out, where this dimension is theirs.
  void note_tokens(LocalCut& cut, c10::IntArrayRef sizes, std::size_t dimension,
                   const SliceSums& slices, double elements, double floor, double rate) const {
    const auto known = positions_.find(execution_.call().step);
    if (known == positions_.end() || slices.wide.size() != known->second.size()) return;
    const auto size = static_cast<std::int64_t>(known->second.size());
    if (std::ranges::find(sizes, size) - sizes.begin() != static_cast<std::ptrdiff_t>(dimension)) {
      return;
    }
    const std::vector<std::int64_t>& positions = known->second;
    cut.tokens.insert(cut.tokens.end(), positions.begin(), positions.end());
    for (const std::size_t i : slices_in_excess(slices, elements, floor, rate)) {
      cut.dirty_tokens.push_back(positions[i]);
    }
  }

  // The module around the one that decides: a router and its experts are parts of one.
  static std::string_view around(std::string_view scope) {
    return scope.substr(0, std::min(scope.rfind('.'), scope.size()));
  }

  // Whether the candidate's own decision, in this step and in or beside this module, was another.
  [[nodiscard]] bool is_rerouted(const Call& call) const {
    if (rerouted_.empty() || rerouted_step_ != call.step) return false;
    const std::string& scope = dictionary().scope(call.scope);
    return std::ranges::any_of(rerouted_, [&](const std::string& module) {
      return scope.starts_with(module) &&
             (scope.size() == module.size() || scope[module.size()] == '.');
    });
  }

  // Which experts a token goes to, say: from there on the candidate's module runs other calls than
  // the oracle's program, and what it gives is taken as it is.
  Status note_decision(const Call& call, const Write& write, std::size_t output,
                       const Output* got) {
    const std::string& scope = dictionary().scope(call.scope);
    if (got == nullptr || scope.empty() || (write.flags & kWriteHashed) == 0 ||
        !candidate_.has_value(got->hash)) {
      return {};
    }
    const StepCall& want = steps_.oracle(execution_.number());
    const auto mine = output_of_row(candidate_, want.outputs[output], *got, row_);
    if (!mine.ok()) return mine.status();
    if (mine->hash == write.hash) return {};
    if (rerouted_step_ != call.step) rerouted_.clear();
    rerouted_step_ = call.step;
    if (rerouted_.emplace(around(scope)).second && first_pass()) {
      report_.rerouted.emplace(std::string(around(scope)), call.step);
    }
    return {};
  }

  Status take_control(const Call& call, const Write& write, std::size_t output, const Output* got) {
    const bool explained = is_rerouted(call);  // its inputs are then not the oracle's calls'
    GOLDENTRACE_RETURN_IF_ERROR(note_decision(call, write, output, got));
    const auto bytes = control(call, write, output, got);
    if (!bytes.ok()) return bytes.status();
    if (bytes->empty()) return {};
    const DType dtype = dictionary().tensor(write.tensor).dtype;
    if (first_pass()) ++report_.decisions;
    bool differs = false;
    for (const std::size_t side : {kWide, kBeside}) {
      const at::Tensor place = execution_.memory(side).tensor(write.tensor);
      if (static_cast<std::size_t>(place.numel()) * item_size(dtype) != bytes->size()) return {};
      const at::Tensor before = place.clone();
      GOLDENTRACE_RETURN_IF_ERROR(put_elements(*bytes, dtype, place));
      differs = side == kBeside && !before.equal(place);
    }
    if (!first_pass() || !differs || explained) return {};
    ++report_.decisions_differing;
    const std::string& scope = dictionary().scope(call.scope);
    if (output == 1 && !scope.empty() &&
        execution_.margin() > kTie * unit_roundoff(report_.working_dtype)) {
      double& worst = report_.misrouted[scope];
      worst = std::max(worst, execution_.margin());
    }
    return {};
  }

  const TraceReader& oracle_;
  const TraceReader& candidate_;
  ValuesAhead& values_;
  const BatchRow row_;
  const LocalOptions& options_;
  const std::uint64_t calls_;
  const Beside beside_;
  LocalReport& report_;
  Execution execution_;
  MatchedSteps steps_;
  std::map<CutKey, LocalCut>* cuts_ = nullptr;
  std::map<CutKey, std::set<CutKey>> inputs_;                    // of each cut
  std::unordered_map<std::uint32_t, std::set<CutKey>> sources_;  // by storage
  std::set<CutKey> read_;                                        // by the call that runs
  CutMeter meter_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> tickets_;  // by call and output
  std::uint32_t rerouted_step_ = 0;
  std::set<std::string> rerouted_;                                          // modules, in that step
  std::unordered_map<std::uint32_t, std::vector<std::int64_t>> positions_;  // by step
};

void judge_all(std::map<CutKey, LocalCut>& cuts, const LocalReport& report) {
  std::vector<LocalCut*> pointers;
  for (auto& [key, cut] : cuts) pointers.push_back(&cut);
  judge_cuts(pointers, report);
}

bool in_band(const LocalCut& cut) {
  return cut.zone.zone == Zone::kInBand || cut.zone.zone == Zone::kTooSmall;
}

// In the order of their calls, each with the places of its inputs.
void list_cuts(std::map<CutKey, LocalCut>& cuts, const std::map<CutKey, std::set<CutKey>>& inputs,
               LocalReport& report) {
  std::vector<const CutKey*> order;
  for (const auto& [key, cut] : cuts) order.push_back(&key);
  std::ranges::sort(order, {}, [&](const CutKey* key) {
    const LocalCut& cut = cuts.at(*key);
    return std::pair(cut.oracle_call, cut.output);
  });
  std::map<CutKey, std::size_t> places;
  for (std::size_t i = 0; i < order.size(); ++i) places[*order[i]] = i;
  for (const CutKey* const key : order) {
    LocalCut& cut = cuts.at(*key);
    const auto known = inputs.find(*key);
    if (known != inputs.end()) {
      for (const CutKey& input : known->second) {
        if (input != *key) cut.inputs.push_back(places.at(input));
      }
    }
    report.cuts.push_back(std::move(cut));
  }
  for (LocalCut& cut : report.cuts) {
    cut.inputs_in_band = static_cast<std::size_t>(
        std::ranges::count_if(cut.inputs, [&](std::size_t i) { return in_band(report.cuts[i]); }));
  }
}

Result<LocalReport> measure(const TraceReader& oracle, const TraceReader& candidate,
                            const Checkpoint& checkpoint, const LocalOptions& options) {
  LocalReport report;
  report.working_dtype = run_dtype(oracle);
  const auto want = oracle.text();
  if (!want.ok()) return want.status();
  auto got = candidate.text();
  if (!got.ok()) return got.status();
  const BatchRow row = keep_row_of(*want, *got);
  const auto device = open_device(options.device);
  if (!device.ok()) return device.status();
  const auto values = ValuesAhead::open(options.candidate);
  if (!values.ok()) return values.status();
  std::map<CutKey, LocalCut> cuts;
  std::map<CutKey, std::set<CutKey>> inputs;
  {
    LocalRun run(oracle, candidate, **values, checkpoint, options, row, *device, Beside::kEager,
                 report);
    GOLDENTRACE_RETURN_IF_ERROR(run.run(cuts));
    inputs = run.inputs();
  }
  report.alarm_rate = kAlarmRate / static_cast<double>(std::max<std::size_t>(1, cuts.size()));
  for (auto& [key, cut] : cuts) {
    // One rounding of each element, of which eager may by luck have made none.
    const double roundoff =
        unit_roundoff(*dtype_from_name(cut.tensor.substr(0, cut.tensor.find(' '))));
    cut.noise_floor = cut.exact ? 0 : one_rounding(roundoff) * cut.sums.wide;
  }
  judge_all(cuts, report);
  std::map<CutKey, LocalCut> flagged;
  for (const auto& [key, cut] : cuts) {
    if (cut.zone.zone == Zone::kFault && cut.sums.one_sided == 0) flagged.emplace(key, cut);
  }
  if (!flagged.empty()) {
    GOLDENTRACE_RETURN_IF_ERROR(LocalRun(oracle, candidate, **values, checkpoint, options, row,
                                         *device, Beside::kRounded, report)
                                    .run(flagged));
    judge_all(flagged, report);
    for (auto& [key, cut] : flagged) cuts[key] = cut;
  }
  list_cuts(cuts, inputs, report);
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
