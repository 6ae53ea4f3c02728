#include "recorder/op_info.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

namespace goldentrace {
namespace {

// In-place operators that replace their target's content without reading it. Their schemas say
// "written" only.
constexpr std::array<std::string_view, 11> kOverwriting = {
    "aten::copy_",    "aten::fill_",      "aten::zero_",      "aten::normal_",
    "aten::uniform_", "aten::random_",    "aten::bernoulli_", "aten::exponential_",
    "aten::cauchy_",  "aten::geometric_", "aten::log_normal_"};

// These move their target to other memory, or look at it in another shape; its bytes they neither
// read nor write, whatever their schemas say.
constexpr std::array<std::string_view, 5> kRebinding = {
    "aten::set_", "aten::set_data", "aten::resize_", "aten::resize_as_", "aten::_resize_output_"};

constexpr std::array<std::string_view, 9> kUndefinedResults = {
    "aten::empty",     "aten::empty_like",        "aten::empty_strided",
    "aten::new_empty", "aten::new_empty_strided", "aten::empty_permuted",
    "aten::resize_",   "aten::resize_as_",        "aten::_resize_output_"};

// Of operators that libtorch_cpu itself defines.
constexpr std::array<std::string_view, 11> kBuiltinNamespaces = {
    "aten",   "prim",   "quantized", "_quantized", "mkldnn",          "mkl",
    "onednn", "sparse", "inductor",  "c10d",       "_c10d_functional"};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const OpInfo* OpTable::find(const at::RecordFunction& function) {
  const char* const pointer = function.name();
  const char* const overload = function.overload_name();
  const std::uint64_t hash = mix_hash(0, std::bit_cast<std::uintptr_t>(pointer));
  const std::uint32_t known = by_pointer_.find(hash, [&](std::uint32_t i) {
    const OpInfo& info = ops_[i];
    return info.name_pointer == pointer && info.overload == overload && info.name == pointer;
  });
  if (known != FlatIndex::kNone) return &ops_[known];
  const auto name = function.operator_name();
  if (!name) return nullptr;
  const auto op = c10::Dispatcher::singleton().findSchema(*name);
  if (!op) return nullptr;

  OpInfo& info = ops_.emplace_back();
  info.name_pointer = pointer;
  info.id = builder_.op(name->name, name->overload_name);
  info.name = name->name;
  info.qualified =
      name->overload_name.empty() ? name->name : name->name + "." + name->overload_name;
  info.overload = overload;
  info.random = op->hasTag(at::Tag::nondeterministic_seeded);
  info.undefined_results = contains(kUndefinedResults, name->name);
  const c10::FunctionSchema& schema = op->schema();
  info.returns = schema.returns().size();
  const bool view =
      info.returns > 0 && std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
        return result.alias_info() != nullptr && !result.alias_info()->isWrite();
      });
  info.multiplies_matrices = !view && !op->hasTag(at::Tag::pointwise);
  // "registered at PATH:LINE", of the definition.
  const bool from_python = op->debug().find(".py:") != std::string::npos;
  info.builtin =
      !from_python &&
      contains(kBuiltinNamespaces, std::string_view(name->name).substr(0, name->name.find(':')));
  const bool overwrites = contains(kOverwriting, name->name);
  const bool rebinds = contains(kRebinding, name->name);
  info.dropout = schema.argumentIndexWithName("dropout_p").value_or(-1);
  if (name->name.find("dropout") != std::string::npos) {
    info.dropout = schema.argumentIndexWithName("p").value_or(info.dropout);
    info.train = schema.argumentIndexWithName("train").value_or(-1);
  }
  for (const c10::Argument& argument : schema.arguments()) {
    ArgumentRole role = ArgumentRole::kRead;
    if (!rebinds && argument.alias_info() != nullptr && argument.alias_info()->isWrite()) {
      role = overwrites || argument.kwarg_only() ? ArgumentRole::kOverwrite : ArgumentRole::kUpdate;
    }
    info.roles.push_back(role);
  }
  by_pointer_.insert(hash, static_cast<std::uint32_t>(ops_.size() - 1));
  return &info;
}

}  // namespace goldentrace
