#include "src/event/dictionary.h"

#include <algorithm>
#include <limits>

namespace goldentrace {
namespace {

Status corrupt(const std::string& what) { return {Code::kCorrupt, what}; }

template <typename Item>
void append(std::vector<Item>& to, const std::vector<Item>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::int64_t element_count(const Geometry& geometry) {
  if (std::ranges::any_of(geometry.sizes, [](std::int64_t size) { return size < 0; })) return -1;
  if (std::ranges::find(geometry.sizes, 0) != geometry.sizes.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : geometry.sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return -1;
  }
  return count;
}

std::int64_t storage_reach(const Geometry& geometry, std::int64_t offset) {
  if (std::ranges::any_of(geometry.strides, [](std::int64_t stride) { return stride < 0; })) {
    return -1;
  }
  const std::int64_t count = element_count(geometry);
  if (count <= 0) return count;
  std::int64_t last = offset;
  for (std::size_t d = 0; d < geometry.sizes.size(); ++d) {
    std::int64_t step = 0;
    if (__builtin_mul_overflow(geometry.sizes[d] - 1, geometry.strides[d], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return -1;
    }
  }
  return last == std::numeric_limits<std::int64_t>::max() ? -1 : last + 1;
}

bool is_dense(const Geometry& geometry) {
  const std::int64_t count = element_count(geometry);
  if (count <= 0) return count == 0;
  std::int64_t expected = 1;
  for (std::size_t d = geometry.sizes.size(); d-- > 0;) {
    if (geometry.sizes[d] == 1) continue;
    if (geometry.strides[d] != expected) return false;
    expected *= geometry.sizes[d];
  }
  return true;
}

std::size_t skip_node(const std::vector<Node>& nodes, std::size_t index) {
  std::size_t open = 1;  // nodes still owed
  while (open > 0) {
    const Node& node = nodes[index++];
    --open;
    if (node.kind == NodeKind::kList || node.kind == NodeKind::kTuple) {
      open += static_cast<std::size_t>(node.value);
    } else if (node.kind == NodeKind::kComplex) {
      open += 2;
    }
  }
  return index;
}

Status Dictionary::absorb(const ProgramChunk& chunk) {
  if (!(chunk.base == next_)) {
    return corrupt("program chunk does not continue the one before it (a chunk is missing)");
  }
  append(strings_, chunk.strings);
  append(operators_, chunk.operators);
  append(scopes_, chunk.scopes);
  append(geometries_, chunk.geometries);
  append(storages_, chunk.storages);
  append(tensors_, chunk.tensors);
  append(ambients_, chunk.ambients);
  Status status = check_definitions(chunk);
  if (status.ok()) status = check_calls(chunk);
  if (status.ok()) {
    next_ = chunk.next_base();
  } else {
    truncate(next_);
  }
  return status;
}

void Dictionary::truncate(const ProgramBase& end) {
  strings_.resize(end.strings);
  operators_.resize(end.operators);
  scopes_.resize(end.scopes);
  geometries_.resize(end.geometries);
  storages_.resize(end.storages);
  tensors_.resize(end.tensors);
  ambients_.resize(end.ambients);
}

Status Dictionary::check_definitions(const ProgramChunk& chunk) const {
  for (const Storage& storage : chunk.storages) {
    if (storage.device >= strings_.size()) return corrupt("storage names an undefined device");
  }
  for (const Tensor& tensor : chunk.tensors) {
    if (tensor.storage >= storages_.size() || tensor.geometry >= geometries_.size()) {
      return corrupt("tensor names an undefined storage or geometry");
    }
    const std::int64_t elements = storage_reach(geometries_[tensor.geometry], tensor.offset);
    std::int64_t bytes = 0;
    if (tensor.offset < 0 || elements < 0 ||
        __builtin_mul_overflow(elements, static_cast<std::int64_t>(item_size(tensor.dtype)),
                               &bytes) ||
        static_cast<std::uint64_t>(bytes) > storages_[tensor.storage].bytes) {
      return corrupt("tensor reaches outside its storage");
    }
  }
  return {};
}

Status Dictionary::check_calls(const ProgramChunk& chunk) const {
  for (const External& external : chunk.externals) {
    if (external.storage >= storages_.size()) return corrupt("external input of no storage");
  }
  for (const Call& call : chunk.calls) {
    if (call.op >= operators_.size() || call.scope >= scopes_.size() ||
        call.ambient >= ambients_.size()) {
      return corrupt("call names an undefined operator, scope or ambient state");
    }
  }
  for (const Node& node : chunk.nodes) {
    switch (node.kind) {
      case NodeKind::kTensor:
        if (static_cast<std::uint64_t>(node.value) >= tensors_.size()) {
          return corrupt("argument is an undefined tensor");
        }
        break;
      case NodeKind::kString:
      case NodeKind::kDevice:
      case NodeKind::kGenerator:
      case NodeKind::kUnstorable:
        if (static_cast<std::uint64_t>(node.value) >= strings_.size()) {
          return corrupt("argument is an undefined string");
        }
        break;
      case NodeKind::kStorage:
        if (static_cast<std::uint64_t>(node.value) >= storages_.size()) {
          return corrupt("argument is an undefined storage");
        }
        break;
      default:
        break;
    }
  }
  for (const Write& write : chunk.writes) {
    if (write.tensor >= tensors_.size()) return corrupt("write to an undefined tensor");
  }
  const auto undefined = [&](const auto& entry) { return entry.tensor >= tensors_.size(); };
  if (std::ranges::any_of(chunk.placements, undefined) ||
      std::ranges::any_of(chunk.rows, undefined) || std::ranges::any_of(chunk.layouts, undefined)) {
    return corrupt("placement, layout or rows of an undefined tensor");
  }
  for (const TensorLayout& layout : chunk.layouts) {
    if (layout.text >= strings_.size()) return corrupt("layout is an undefined string");
  }
  return {};
}

std::string Dictionary::describe_tensor(std::uint32_t id) const {
  std::string text(dtype_name(tensors_[id].dtype));
  text += " [";
  const char* separator = "";
  for (const std::int64_t size : geometry_of(id).sizes) {
    text += separator + std::to_string(size);
    separator = ", ";
  }
  return text + "]";
}

std::string Dictionary::describe_op(std::uint32_t id) const {
  const Operator& op = operators_[id];
  return op.overload.empty() ? op.name : op.name + "." + op.overload;
}

}  // namespace goldentrace
