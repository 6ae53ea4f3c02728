#include "src/capi/text_view.h"

#include <string>
#include <utility>

namespace goldentrace::capi {
namespace {

goldentrace_bytes to_c(const std::string& text) { return {text.data(), text.size()}; }

// NULL for nothing.
template <typename Item>
const Item* data_of(const std::vector<Item>& items) {
  return items.empty() ? nullptr : items.data();
}

}  // namespace

TextView::TextView(Text text) : text_(std::move(text)) {
  for (const Request& request : text_.requests) add(request);
  for (const Step& step : text_.steps) add(step);
}

const goldentrace_bytes* TextView::pieces(const std::vector<std::string>& texts) {
  auto& pieces = pieces_.emplace_back();
  for (const std::string& text : texts) pieces.push_back(to_c(text));
  return data_of(pieces);
}

void TextView::add(const Request& request) {
  auto& settings = settings_.emplace_back();
  for (const Setting& setting : request.sampling) {
    settings.push_back({setting.name.c_str(), setting.value.c_str(), setting.origin.c_str()});
  }
  goldentrace_request out;
  goldentrace_request_init(&out);
  out.id = request.id;
  out.prompt = to_c(request.prompt);
  out.prompt_ids = data_of(request.prompt_ids);
  out.prompt_count = request.prompt_ids.size();
  // The decoder has checked that there are as many pieces as ids, or none.
  out.prompt_pieces = pieces(request.prompt_pieces);
  out.sampling = data_of(settings);
  out.sampling_count = settings.size();
  out.stop_ids = data_of(request.stop_ids);
  out.stop_count = request.stop_ids.size();
  out.output_ids = data_of(request.output_ids);
  out.output_count = request.output_ids.size();
  out.output_pieces = pieces(request.output_pieces);
  out.output = to_c(request.output);
  out.finish_reason = request.finish_reason.c_str();
  requests_.push_back(out);
}

void TextView::add(const Step& step) {
  auto& rows = rows_.emplace_back();
  for (const Row& row : step.rows) rows.push_back(capi::to_c(row));
  goldentrace_result out;
  goldentrace_result_init(&out);
  out.step = step.step;
  out.rows = data_of(rows);
  out.rows_count = rows.size();
  out.chosen = step.chosen;
  out.top_ids = data_of(step.top_ids);
  out.top_count = step.top_ids.size();
  // The decoder has checked that each is as long as top_ids, or empty.
  out.top_logits = data_of(step.top_logits);
  out.top_logprobs = data_of(step.top_logprobs);
  out.top_pieces = pieces(step.top_pieces);
  out.gap_ulp = step.gap_ulp;
  out.logprob = step.logprob;
  out.logits_rms = step.logits_rms;
  out.logprob_kind = static_cast<std::uint32_t>(step.logprob_kind);
  results_.push_back(out);
}

Result<std::unique_ptr<ParameterView>> ParameterView::load(const TraceReader& trace) {
  std::unique_ptr<ParameterView> view(new ParameterView);
  auto parameters = trace.parameters();
  if (!parameters.ok()) return parameters.status();
  view->parameters_ = std::move(*parameters);
  ProgramReader program(trace);
  for (const Parameter& parameter : view->parameters_) {
    while (parameter.tensor >= program.dictionary().tensors()) {
      const auto more = program.next();
      if (!more.ok()) return more.status();
      if (!*more) {
        return Status(Code::kCorrupt, trace.name() + ": parameter of an undefined tensor");
      }
    }
    GOLDENTRACE_RETURN_IF_ERROR(view->add(trace, program.dictionary(), parameter));
  }
  return view;
}

Result<std::uint64_t> kept_bytes(const TraceReader& trace, const Dictionary& dictionary,
                                 std::uint32_t tensor, const Hash128& hash) {
  const auto size = trace.value_size(hash);
  if (!size) return GOLDENTRACE_NO_VALUE;
  const auto elements = static_cast<std::uint64_t>(element_count(dictionary.geometry_of(tensor)));
  if (*size != elements * item_size(dictionary.tensor(tensor).dtype)) {
    return Status(Code::kCorrupt, trace.name() + ": value " + to_hex(hash) + " of a " +
                                      dictionary.describe_tensor(tensor) + " has " +
                                      std::to_string(*size) + " bytes");
  }
  return *size;
}

Status ParameterView::add(const TraceReader& trace, const Dictionary& dictionary,
                          const Parameter& parameter) {
  const auto value_size = kept_bytes(trace, dictionary, parameter.tensor, parameter.hash);
  if (!value_size.ok()) return value_size.status();
  auto& sizes = sizes_.emplace_back(dictionary.geometry_of(parameter.tensor).sizes);
  auto& sources = sources_.emplace_back();
  for (const std::string& source : parameter.sources) sources.push_back(source.c_str());
  goldentrace_parameter_record out{};
  out.name = parameter.name.c_str();
  out.kind = static_cast<std::uint32_t>(parameter.kind);
  out.dtype = static_cast<std::uint32_t>(dictionary.tensor(parameter.tensor).dtype);
  out.rank = static_cast<std::uint32_t>(sizes.size());
  out.recipe = static_cast<std::uint32_t>(parameter.recipe);
  out.sizes = data_of(sizes);
  out.hash = capi::to_c(parameter.hash);
  out.value_size = *value_size;
  out.sources = data_of(sources);
  out.sources_count = sources.size();
  out.placement = capi::to_c(parameter.placement);
  out.id = std::uint64_t{parameter.tensor} + 1;
  entries_.push_back(out);
  return {};
}

}  // namespace goldentrace::capi
