#include "replayer/tools/load_tensor.h"

#include <utility>

#include "replayer/tools/npy.h"
#include "src/format/safetensors.h"

namespace goldentrace {
namespace {

Result<DenseTensor> load_npy(const std::string& path, DType recorded) {
  auto array = read_npy(path);
  if (!array.ok()) return array.status();
  DenseTensor& tensor = array->tensor;
  if (tensor.dtype == DType::kUInt16 && recorded == DType::kBFloat16) {
    tensor.dtype = DType::kBFloat16;
  } else if (array->opaque) {
    return Status(Code::kInvalidArgument,
                  path +
                      ": elements of two bytes without meaning (V2), and the "
                      "oracle's tensor is no bfloat16 but " +
                      std::string(dtype_name(recorded)));
  }
  return std::move(tensor);
}

Result<DenseTensor> load_safetensors(const std::string& path, const std::string& name) {
  const auto file = Checkpoint::open(path);
  if (!file.ok()) return file.status();
  const Checkpoint::Entry* entry = file->find(name);
  if (entry == nullptr && file->entries().size() != 1) {
    return Status(Code::kInvalidArgument,
                  path + ": holds " + std::to_string(file->entries().size()) +
                      " tensors and none of the name '" + name + "': one is judged");
  }
  if (entry == nullptr) entry = &file->entries().begin()->second;
  DenseTensor tensor{entry->dtype, entry->sizes, std::vector<std::byte>(entry->bytes)};
  GOLDENTRACE_RETURN_IF_ERROR(file->read(*entry, tensor.bytes));
  return tensor;
}

}  // namespace

bool is_tensor_file(const std::string& path) {
  return path.ends_with(".npy") || path.ends_with(".safetensors");
}

Result<DenseTensor> load_tensor(const std::string& path, const std::string& name, DType recorded) {
  if (path.ends_with(".npy")) return load_npy(path, recorded);
  if (path.ends_with(".safetensors")) return load_safetensors(path, name);
  return Status(Code::kInvalidArgument,
                path + ": with --at the candidate is one tensor: a .npy or .safetensors file");
}

}  // namespace goldentrace
