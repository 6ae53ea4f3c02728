// Reads safetensors files: an 8-byte little-endian header length, a JSON header, then tensor bytes.
// A model folder holds model.safetensors, or shards named by model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/io.h"
#include "src/base/status.h"

namespace goldentrace {

// "BF16"; "" for a dtype that safetensors has no name for.
std::string_view safetensors_dtype(DType dtype);

// The tensors of one checkpoint. Bytes are read when asked for.
class Checkpoint {
 public:
  struct Entry {
    DType dtype = DType::kFloat32;
    std::vector<std::int64_t> sizes;
    std::uint64_t offset = 0;  // of the first byte, in the file
    std::uint64_t bytes = 0;
    std::size_t file = 0;
  };

  // `path` is a folder or one .safetensors file. kNotFound when a folder holds no safetensors;
  // kCorrupt (with file and offset) when a header breaks the format's rules: length beyond the
  // file, not JSON, unknown dtype, ranges outside the file or of another length than dtype and
  // shape give.
  static Result<Checkpoint> open(const std::string& path);
  // One file.
  static Result<Checkpoint> open(std::unique_ptr<ByteSource> file);

  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }
  // nullptr when there is no tensor of that name.
  [[nodiscard]] const Entry* find(const std::string& name) const;
  // Fills `out` (entry.bytes long) with the tensor's dense bytes.
  Status read(const Entry& entry, std::span<std::byte> out) const;
  // The same bytes in the file's memory (ByteSource::map), at any alignment, while this lives.
  [[nodiscard]] std::span<std::byte> map(const Entry& entry) const;

 private:
  Status add_file(std::unique_ptr<ByteSource> opened);

  std::vector<std::unique_ptr<ByteSource>> files_;
  std::map<std::string, Entry> entries_;
};

// Names of the files beside it that an index's JSON tells, each once, in order. Messages begin with
// `path`.
Result<std::vector<std::string>> shard_names(const std::string& path, std::string_view index);

}  // namespace goldentrace
