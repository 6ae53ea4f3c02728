#include "replayer/tools/export_slice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "replayer/report/format.h"
#include "replayer/tools/safetensors_header.h"
#include "replayer/tools/slice_plan.h"
#include "replayer/verdict/doubts.h"
#include "replayer/verdict/place_verdict.h"
#include "src/base/output_file.h"
#include "src/digest/hash.h"

namespace goldentrace {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* kDescription = "slice.json";
constexpr std::uint64_t kMaxDescription = 256u << 20;

constexpr const char* kHowToJudge =
    "e = relative L2 distance to float32.safetensors. In band: e / eager <= limit. Rounding "
    "policy: "
    "e / max(eager, rounded) <= rounded_limit. replay X --against T --at PLACE also looks at bias "
    "and at single rows and channels.";

json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

// Not to be written into: somebody else's folder.
Status check_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return {};
  if (!fs::is_directory(folder, error)) {
    return {Code::kInvalidArgument, folder.string() + ": is no folder"};
  }
  if (fs::is_empty(folder, error) && !error) return {};
  const auto text = read_text_file(folder / kDescription, kMaxDescription);
  const json known = text.ok() ? json::parse(*text, nullptr, false) : json();
  if (known.is_object() && known.value("report", json()) == "slice") return {};
  return {Code::kInvalidArgument,
          folder.string() + ": holds other files: name an empty folder or a new one"};
}

struct NamedTensor {
  const std::string* name = nullptr;
  const DenseTensor* tensor = nullptr;
};

Status write_tensors(const fs::path& path, const std::string& trace,
                     std::vector<NamedTensor> tensors, std::uint64_t& bytes) {
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [](const NamedTensor& named) { return item_size(named.tensor->dtype); });
  std::vector<SafetensorsEntry> entries;
  for (const NamedTensor& named : tensors) {
    entries.push_back(
        {*named.name, named.tensor->dtype, named.tensor->sizes, named.tensor->bytes.size()});
  }
  const auto header = safetensors_header(entries);
  if (!header.ok()) return header.status();
  auto file = OutputFile::create(path.string(), trace);
  if (!file.ok()) return file.status();
  GOLDENTRACE_RETURN_IF_ERROR(file->sink().write(std::as_bytes(std::span(*header))));
  for (const NamedTensor& named : tensors) {
    GOLDENTRACE_RETURN_IF_ERROR(file->sink().write(named.tensor->bytes));
    bytes += named.tensor->bytes.size();
  }
  return file->commit();
}

DenseTensor to_float32(const DenseTensor& tensor) {
  if (tensor.dtype == DType::kFloat32 || !is_real_float(tensor.dtype)) return tensor;
  DenseTensor narrow{DType::kFloat32, tensor.sizes, {}};
  const std::size_t count = tensor.bytes.size() / item_size(tensor.dtype);
  narrow.bytes.resize(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(load_real(tensor.dtype, tensor.bytes.data(), i));
    std::memcpy(&narrow.bytes[i * sizeof(float)], &value, sizeof(float));
  }
  return narrow;
}

// Eager held against the wide run.
json band_of(const SliceOutput& output, bool moves, DType working_dtype) {
  if (!is_real_float(output.eager.dtype) || output.eager.bytes.empty()) return nullptr;
  const TensorVerdict eager = judge_tensor(output.eager, output, moves, working_dtype);
  const ErrorSums& own =
      eager.sums.eager.squares >= eager.sums.result.squares ? eager.sums.eager : eager.sums.result;
  return {{"eager", finite(eager.relative(own))},
          {"rounded", finite(eager.relative(eager.sums.rounded))},
          {"one_rounding", finite(eager.relative(eager.sums.result))},
          {"degrees_of_freedom", finite(own.degrees_of_freedom())},
          {"limit", finite(eager.zone.band)},
          {"rounded_limit", finite(eager.zone.rounded_band)},
          {"exact", moves}};
}

json tensor_json(const SliceTensor& tensor) {
  return {{"name", tensor.name},
          {"tensor", "%" + std::to_string(tensor.tensor)},
          {"dtype", dtype_name(tensor.dtype)},
          {"shape", tensor.sizes},
          {"call", tensor.call}};
}

class SliceExport {
 public:
  explicit SliceExport(const SliceExportOptions& options) : options_(options) {}

  Result<SliceExportReport> run() {
    const auto name = parse_place(options_.place);
    if (!name.ok()) return name.status();
    GOLDENTRACE_RETURN_IF_ERROR(check_folder(options_.folder));
    if (options_.execute.weights.empty()) {
      return Status(Code::kInvalidArgument, "--slice computes its tensors again: give --weights");
    }
    if (!options_.execute_slice) {
      return Status(Code::kUnsupported, "--slice: this replay was built without LibTorch");
    }
    auto trace = TraceReader::open(options_.trace);
    if (!trace.ok()) return trace.status();
    trace_ = std::move(*trace);
    auto place = find_place(*trace_, *name, options_.step);
    if (!place.ok()) return place.status();
    place_ = std::move(*place);
    auto plan = plan_slice(*trace_, place_);
    if (!plan.ok()) return plan.status();
    plan_ = std::move(*plan);
    GOLDENTRACE_RETURN_IF_ERROR(execute());
    GOLDENTRACE_RETURN_IF_ERROR(write());
    return std::move(report_);
  }

 private:
  Status execute() {
    SliceRequest request;
    request.calls = place_.calls;
    for (const SliceTensor& input : plan_.inputs) {
      request.inputs.push_back({input.call, input.tensor});
    }
    for (const SliceTensor& output : plan_.outputs) {
      request.outputs.push_back({output.call, output.tensor});
    }
    auto values = options_.execute_slice(*trace_, options_.execute, request);
    if (!values.ok()) return values.status();
    values_ = std::move(*values);
    return {};
  }

  Status write() {
    const fs::path folder = options_.folder;
    std::error_code error;
    fs::create_directory(folder, error);
    if (error) return {Code::kIo, folder.string() + ": can't create: " + error.message()};
    std::vector<NamedTensor> inputs;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (values_.inputs[i]) inputs.push_back({&plan_.inputs[i].name, &*values_.inputs[i]});
    }
    std::vector<NamedTensor> eager;
    std::vector<NamedTensor> wide;
    std::vector<DenseTensor> narrowed(plan_.outputs.size());
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      eager.push_back({&plan_.outputs[i].name, &values_.outputs[i].eager});
      narrowed[i] = to_float32(values_.outputs[i].wide);
      wide.push_back({&plan_.outputs[i].name, &narrowed[i]});
    }
    std::uint64_t& bytes = report_.bytes;
    const std::string& trace = options_.trace;
    GOLDENTRACE_RETURN_IF_ERROR(write_tensors(folder / "inputs.safetensors", trace, inputs, bytes));
    GOLDENTRACE_RETURN_IF_ERROR(write_tensors(folder / "outputs.safetensors", trace, eager, bytes));
    GOLDENTRACE_RETURN_IF_ERROR(write_tensors(folder / "float32.safetensors", trace, wide, bytes));
    report_.place = place_.name();
    report_.calls = plan_.calls.size();
    report_.inputs = inputs.size();
    report_.outputs = eager.size();
    return write_description(folder);
  }

  Status write_description(const fs::path& folder) {
    const auto as_recorded =
        place_.hash ? json(hash_bytes(values_.outputs.front().eager.bytes) == *place_.hash)
                    : json(nullptr);
    std::vector<std::string> environment;
    if (as_recorded == false) {
      environment = options_.compare_environment(trace_->header());
      report_.notes.push_back(
          "its output is not what was recorded: " +
          (environment.empty() ? "this machine gives other bits" : environment.front()));
    }
    const std::string incomplete = incompleteness(trace_->summary());
    if (!incomplete.empty()) report_.notes.push_back("not whole: " + incomplete);
    json inputs = json::array();
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      inputs.push_back(tensor_json(plan_.inputs[i]));
      inputs.back()["kept"] = values_.inputs[i].has_value();
    }
    json outputs = json::array();
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      outputs.push_back(tensor_json(plan_.outputs[i]));
      outputs.back()["of_the_place"] = i == 0;
      outputs.back()["band"] = band_of(values_.outputs[i], place_.moves, values_.working_dtype);
    }
    json calls = json::array();
    for (const std::string& call : plan_.calls) {
      calls.push_back(json::parse(call, nullptr, false));
      for (json& write : calls.back()["writes"]) write.erase("sketch");
    }
    const json description = {
        {"report", "slice"},           {"version", 1},
        {"trace", options_.trace},     {"place", place_.name()},
        {"step", place_.step},         {"working_dtype", dtype_name(values_.working_dtype)},
        {"as_recorded", as_recorded},  {"environment", environment},
        {"how_to_judge", kHowToJudge}, {"inputs", inputs},
        {"outputs", outputs},          {"calls", calls}};
    auto file = OutputFile::create((folder / kDescription).string(), options_.trace);
    if (!file.ok()) return file.status();
    const std::string text = description.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
    GOLDENTRACE_RETURN_IF_ERROR(file->sink().write(std::as_bytes(std::span(text))));
    return file->commit();
  }

  const SliceExportOptions& options_;
  std::unique_ptr<TraceReader> trace_;
  Place place_;
  SlicePlan plan_;
  SliceValues values_;
  SliceExportReport report_;
};

}  // namespace

Result<SliceExportReport> export_slice(const SliceExportOptions& options) {
  return SliceExport(options).run();
}

}  // namespace goldentrace
