#include "replayer/execute/weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <utility>

#include "src/digest/digest.h"

namespace goldentrace {
namespace {

// What LibTorch's own allocator gives.
constexpr std::size_t kAligned = 64;

Result<at::Tensor> read_source(const Checkpoint& checkpoint, const std::string& name,
                               Alignment alignment) {
  const Checkpoint::Entry* entry = checkpoint.find(name);
  if (entry == nullptr) {
    return Status(Code::kNotFound, "the checkpoint has no tensor '" + name + "'");
  }
  const auto options = at::TensorOptions().dtype(static_cast<c10::ScalarType>(entry->dtype));
  const std::span<std::byte> mapped = checkpoint.map(*entry);
  const std::size_t step = alignment == Alignment::kAny ? item_size(entry->dtype) : kAligned;
  if (!mapped.empty() && reinterpret_cast<std::uintptr_t>(mapped.data()) % step == 0) {
    return at::from_blob(mapped.data(), entry->sizes, options);
  }
  at::Tensor tensor = at::empty(entry->sizes, options);
  GOLDENTRACE_RETURN_IF_ERROR(
      checkpoint.read(*entry, {static_cast<std::byte*>(tensor.mutable_data_ptr()), entry->bytes}));
  return tensor;
}

// The parameter's elements as the recipe makes them, dense.
Result<at::Tensor> follow_recipe(const TraceReader& trace, const Parameter& parameter,
                                 const Checkpoint& checkpoint, const Dictionary& dictionary,
                                 Alignment alignment) {
  const Tensor& view = dictionary.tensor(parameter.tensor);
  const auto dtype = static_cast<c10::ScalarType>(view.dtype);
  if (parameter.recipe == Recipe::kValue) {
    const auto bytes = trace.value(parameter.hash);
    if (!bytes.ok()) return bytes.status();
    at::Tensor tensor =
        at::empty(dictionary.geometry(view.geometry).sizes, at::TensorOptions().dtype(dtype));
    if (tensor.nbytes() != bytes->size()) {
      return Status(Code::kCorrupt, "stored value of '" + parameter.name + "' has another size");
    }
    if (!bytes->empty()) std::memcpy(tensor.mutable_data_ptr(), bytes->data(), bytes->size());
    return tensor;
  }
  std::vector<at::Tensor> sources;
  for (const std::string& name : parameter.sources) {
    auto source = read_source(checkpoint, name, alignment);
    if (!source.ok()) {
      return Status(source.status().code(),
                    source.status().message() + ", which parameter '" + parameter.name + "' needs");
    }
    sources.push_back(parameter.recipe == Recipe::kSame ? *source : source->to(dtype));
  }
  if (parameter.recipe == Recipe::kStack) return at::stack(sources);
  if (parameter.recipe == Recipe::kConcat) {
    for (at::Tensor& source : sources) source = source.flatten();
    const at::Tensor joined = at::cat(sources);
    const std::vector<std::int64_t>& sizes = dictionary.geometry(view.geometry).sizes;
    // A tensor that does not fit is told by its shape.
    return joined.numel() == c10::multiply_integers(sizes) ? joined.view(sizes) : joined;
  }
  return sources[0];
}

// Elements that lie in the same place, as in an expanded buffer, are copied once.
void copy_elements(at::Tensor from, at::Tensor to) {
  for (std::int64_t d = 0; d < to.dim(); ++d) {
    if (to.stride(d) != 0 || to.size(d) < 2) continue;
    to = to.narrow(d, 0, 1);
    from = from.narrow(d, 0, 1);
  }
  to.copy_(from);
}

// Why this is not where the parameters are from; "" when it is, as far as a look tells.
Result<std::string> what_lacks(const Checkpoint& checkpoint,
                               const std::vector<Parameter>& parameters) {
  constexpr std::size_t kHashed = 8;
  std::vector<std::pair<std::uint64_t, const Parameter*>> same;  // by size
  for (const Parameter& parameter : parameters) {
    for (const std::string& source : parameter.sources) {
      if (parameter.recipe == Recipe::kTied || checkpoint.find(source) != nullptr) continue;
      return "has no tensor '" + source + "'";
    }
    if (parameter.recipe == Recipe::kSame && parameter.sources.size() == 1) {
      same.emplace_back(checkpoint.find(parameter.sources[0])->bytes, &parameter);
    }
  }
  std::ranges::sort(same);
  for (const auto& [bytes, parameter] : std::span(same).first(std::min(kHashed, same.size()))) {
    const auto tensor = read_source(checkpoint, parameter->sources[0], Alignment::kAny);
    if (!tensor.ok()) return tensor.status();
    if (hash_bytes({static_cast<const std::byte*>(tensor->const_data_ptr()), bytes}) !=
        parameter->hash) {
      return "'" + parameter->sources[0] + "' is another";
    }
  }
  return std::string();
}

}  // namespace

Result<Checkpoint> find_weights(const std::string& path, const TraceReader& trace) {
  if (path.find(':') == path.npos || std::filesystem::exists(path)) return Checkpoint::open(path);
  const auto parameters = trace.parameters();
  if (!parameters.ok()) return parameters.status();
  std::string lacks;
  for (const auto part : std::views::split(path, ':')) {
    const std::string folder(part.begin(), part.end());
    if (folder.empty()) continue;
    auto checkpoint = Checkpoint::open(folder);
    if (checkpoint.ok()) {
      const auto what = what_lacks(*checkpoint, *parameters);
      if (!what.ok()) return what.status();
      if (what->empty()) return checkpoint;
      lacks += "; " + folder + " " + *what;
    } else {
      lacks += "; " + checkpoint.status().message();
    }
  }
  return Status(Code::kNotFound, "none of these holds the trace's parameters" + lacks);
}

Result<bool> load_parameter(const TraceReader& trace, const Parameter& parameter,
                            const Checkpoint& checkpoint, const Dictionary& dictionary,
                            std::span<Memory* const> memories, Alignment alignment) {
  if (parameter.tensor >= dictionary.tensors()) {
    return Status(Code::kCorrupt, "parameter '" + parameter.name + "' is an undefined tensor");
  }
  // Tied: the owner of the memory is in the list too. Computed: recorded calls have made it.
  if (parameter.recipe == Recipe::kTied || parameter.recipe == Recipe::kComputed) return true;
  const auto made = follow_recipe(trace, parameter, checkpoint, dictionary, alignment);
  if (!made.ok()) return made.status();
  const Tensor& view = dictionary.tensor(parameter.tensor);
  const Geometry& geometry = dictionary.geometry(view.geometry);
  if (made->sizes() != c10::IntArrayRef(geometry.sizes) ||
      static_cast<DType>(made->scalar_type()) != view.dtype) {
    return false;
  }
  const at::Tensor dense = made->contiguous();
  const bool whole = view.offset == 0 && dense.strides() == c10::IntArrayRef(geometry.strides) &&
                     dense.nbytes() == dictionary.storage(view.storage).bytes;
  for (Memory* const memory : memories) {
    if (whole && dense.storage_offset() == 0) {
      memory->lend(view.storage, dense.storage());
    } else {
      memory->own(view.storage);
      copy_elements(*made, memory->tensor(parameter.tensor));
    }
  }
  return hash_bytes({static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}) ==
         parameter.hash;
}

}  // namespace goldentrace
