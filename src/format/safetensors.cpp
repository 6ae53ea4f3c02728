#include "src/format/safetensors.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace goldentrace {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLengthSize = 8;               // of the header length
constexpr std::uint64_t kMaxHeaderSize = 100'000'000;  // the reference implementation's limit
constexpr std::uint64_t kMaxExtent = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";

struct Row {
  std::string_view name;
  DType dtype;
};

constexpr Row kRows[] = {
    {"BF16", DType::kBFloat16},
    {"F32", DType::kFloat32},
    {"F16", DType::kFloat16},
    {"F64", DType::kFloat64},
    {"I64", DType::kInt64},
    {"I32", DType::kInt32},
    {"I16", DType::kInt16},
    {"I8", DType::kInt8},
    {"U8", DType::kUInt8},
    {"BOOL", DType::kBool},
    {"F8_E4M3", DType::kFloat8E4M3FN},
    {"F8_E5M2", DType::kFloat8E5M2},
    {"U16", DType::kUInt16},
    {"U32", DType::kUInt32},
    {"U64", DType::kUInt64},
    {"C64", DType::kComplex64},
};

// Deeper levels than a header has are dropped: a byte of nested lists would take many in memory.
Json parse_header(std::string_view text) {
  constexpr int kMaxDepth = 4;
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  return Json::parse(text, keep, /*allow_exceptions=*/false);
}

Status corrupt(const std::string& path, std::uint64_t offset, const std::string& what) {
  return {Code::kCorrupt, path + ": at offset " + std::to_string(offset) + ": " + what};
}

// The member `key` of `object` when it is an array, else null.
const Json* array_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_array() ? nullptr : &*found;
}

bool to_uint64(const Json& value, std::uint64_t& out) {
  if (!value.is_number_unsigned()) return false;
  out = value.get<std::uint64_t>();
  return true;
}

// Fills `entry` from one member of the header; returns what is wrong with it, or nothing.
// `data` is the offset of the first tensor byte in a file of `size` bytes.
std::string read_entry(const Json& json, std::uint64_t data, std::uint64_t size,
                       Checkpoint::Entry& entry) {
  if (!json.is_object()) return "is not described by a JSON object";
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) return "has no dtype";
  const auto& dtype_text = dtype->get_ref<const std::string&>();
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const Row& r) { return r.name == dtype_text; });
  if (row == std::end(kRows)) return "has unknown dtype '" + dtype_text + "'";
  entry.dtype = row->dtype;

  const Json* shape = array_member(json, "shape");
  if (shape == nullptr) return "has no shape";
  std::int64_t bytes = static_cast<std::int64_t>(item_size(entry.dtype));
  for (const Json& extent : *shape) {
    std::uint64_t extent_size = 0;
    if (!to_uint64(extent, extent_size) || extent_size > kMaxExtent ||
        __builtin_mul_overflow(bytes, extent_size, &bytes)) {
      return "has a shape that is no list of sizes, or too large a one";
    }
    entry.sizes.push_back(static_cast<std::int64_t>(extent_size));
  }

  const Json* range = array_member(json, "data_offsets");
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  if (range == nullptr || range->size() != 2 || !to_uint64((*range)[0], begin) ||
      !to_uint64((*range)[1], end)) {
    return "has no pair of data offsets";
  }
  if (begin > end || end > size - data) {
    return "reaches from " + std::to_string(begin) + " to " + std::to_string(end) + " of " +
           std::to_string(size - data) + " data bytes";
  }
  entry.offset = data + begin;
  entry.bytes = end - begin;
  if (entry.bytes != static_cast<std::uint64_t>(bytes)) {
    return "has " + std::to_string(entry.bytes) + " bytes, its dtype and shape ask for " +
           std::to_string(bytes);
  }
  return {};
}

Result<std::vector<std::string>> shards_of_index(const std::filesystem::path& folder) {
  const std::string path = folder / kIndexName;
  const auto text = read_text_file(path, kMaxHeaderSize);
  if (!text.ok()) return text.status();
  auto names = shard_names(path, *text);
  if (!names.ok()) return names.status();
  for (std::string& name : *names) name = folder / name;
  return names;
}

Result<std::vector<std::string>> files_of_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder / kIndexName, error)) return shards_of_index(folder);
  if (std::filesystem::exists(folder / kSingleName, error)) {
    return std::vector<std::string>{folder / kSingleName};
  }
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".safetensors") paths.push_back(it->path());
  }
  if (error) return Status(Code::kIo, folder.string() + ": can't list: " + error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::string_view safetensors_dtype(DType dtype) {
  const auto* row = std::ranges::find(kRows, dtype, &Row::dtype);
  return row == std::end(kRows) ? std::string_view() : row->name;
}

Result<std::vector<std::string>> shard_names(const std::string& path, std::string_view index) {
  const Json json = parse_header(index);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) {
    return corrupt(path, 0, "is not a JSON object with a weight_map");
  }
  std::set<std::string> names;
  for (const auto& item : map->items()) {
    if (!item.value().is_string()) return corrupt(path, 0, "weight_map names no file");
    const auto& name = item.value().get_ref<const std::string&>();
    // A shard lies beside its index; anything else could name any file of the machine.
    if (name.empty() || name.find('/') != std::string::npos) {
      return corrupt(path, 0, "weight_map names '" + name + "', which is no file of this folder");
    }
    names.insert(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<Checkpoint> Checkpoint::open(std::unique_ptr<ByteSource> file) {
  Checkpoint checkpoint;
  GOLDENTRACE_RETURN_IF_ERROR(checkpoint.add_file(std::move(file)));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  std::error_code error;
  std::vector<std::string> paths = {path};
  if (std::filesystem::is_directory(path, error)) {
    auto found = files_of_folder(path);
    if (!found.ok()) return found.status();
    paths = std::move(*found);
    if (paths.empty()) return Status(Code::kNotFound, path + ": holds no .safetensors file");
  }
  Checkpoint checkpoint;
  for (const std::string& file : paths) {
    auto source = open_file(file);
    if (!source.ok()) return source.status();
    GOLDENTRACE_RETURN_IF_ERROR(checkpoint.add_file(std::move(*source)));
  }
  return checkpoint;
}

Status Checkpoint::add_file(std::unique_ptr<ByteSource> opened) {
  const ByteSource& source = *opened;
  const std::string& path = source.name();
  const std::uint64_t size = source.size();

  std::array<std::byte, kLengthSize> length_bytes{};
  GOLDENTRACE_RETURN_IF_ERROR(source.read(0, length_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthSize; ++i) {
    length |= std::to_integer<std::uint64_t>(length_bytes[i]) << (8 * i);
  }
  if (length > kMaxHeaderSize || length > size - kLengthSize) {
    return corrupt(path, 0,
                   "header length " + std::to_string(length) +
                       " is beyond the file or the limit (not a safetensors file?)");
  }
  std::string text(length, '\0');
  GOLDENTRACE_RETURN_IF_ERROR(source.read(kLengthSize, std::as_writable_bytes(std::span(text))));
  const Json json = parse_header(text);
  if (!json.is_object()) return corrupt(path, kLengthSize, "header is not a JSON object");

  const std::size_t file = files_.size();
  for (const auto& item : json.items()) {
    if (item.key() == "__metadata__") continue;
    Entry entry;
    entry.file = file;
    const std::string fault = read_entry(item.value(), kLengthSize + length, size, entry);
    if (!fault.empty()) {
      return corrupt(path, kLengthSize, "tensor '" + item.key() + "' " + fault);
    }
    if (!entries_.emplace(item.key(), std::move(entry)).second) {
      return corrupt(path, kLengthSize, "tensor '" + item.key() + "' is in another file as well");
    }
  }
  files_.push_back(std::move(opened));
  return {};
}

const Checkpoint::Entry* Checkpoint::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

std::span<std::byte> Checkpoint::map(const Entry& entry) const {
  if (entry.file >= files_.size()) return {};
  const std::span<std::byte> file = files_[entry.file]->map();
  const bool inside = entry.offset <= file.size() && entry.bytes <= file.size() - entry.offset;
  return inside ? file.subspan(entry.offset, entry.bytes) : std::span<std::byte>();
}

Status Checkpoint::read(const Entry& entry, std::span<std::byte> out) const {
  if (entry.file >= files_.size() || out.size() != entry.bytes) {
    return {Code::kInvalidArgument, "a tensor of " + std::to_string(entry.bytes) +
                                        " bytes is read into " + std::to_string(out.size()) +
                                        " bytes, or belongs to another checkpoint"};
  }
  return files_[entry.file]->read(entry.offset, out);
}

}  // namespace goldentrace
