#include "replayer/tools/safetensors_header.h"

#include <nlohmann/json.hpp>

#include "replayer/report/format.h"
#include "src/format/safetensors.h"

namespace goldentrace {
namespace {

constexpr std::size_t kMaxHeader = 100'000'000;  // the reference implementation's limit

}  // namespace

Result<std::string> safetensors_header(std::span<const SafetensorsEntry> tensors) {
  std::string text = "{";
  std::uint64_t offset = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    const std::string dtype(safetensors_dtype(tensor.dtype));
    if (dtype.empty()) {
      return Status(Code::kUnsupported, "'" + tensor.name + "': safetensors has no " +
                                            std::string(dtype_name(tensor.dtype)));
    }
    const nlohmann::ordered_json entry = {{"dtype", dtype},
                                          {"shape", tensor.shape},
                                          {"data_offsets", {offset, offset + tensor.bytes}}};
    text += (text.size() > 1 ? "," : "") + nlohmann::ordered_json(tensor.name).dump() + ":" +
            entry.dump();
    offset += tensor.bytes;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeader) {
    return Status(Code::kInvalidArgument,
                  grouped(tensors.size()) +
                      " tensors are more than one safetensors header holds: "
                      "select fewer");
  }
  std::string size(8, '\0');
  for (std::size_t i = 0; i < size.size(); ++i) {
    size[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  }
  return size + text;
}

}  // namespace goldentrace
