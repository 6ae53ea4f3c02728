// Interns definitions and gathers calls into the program chunk that is being filled.
// Not thread-safe: one thread at a time, or a lock around it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/flat_index.h"
#include "src/event/program.h"

namespace goldentrace {

class ChunkBuilder {
 public:
  ChunkBuilder();

  // Each returns the dense id of a definition, adding it to the current chunk when it is new.
  std::uint32_t string(std::string_view text);
  std::uint32_t op(const std::string& name, const std::string& overload);
  std::uint32_t scope(std::string_view path);
  std::uint32_t geometry(std::span<const std::int64_t> sizes,
                         std::span<const std::int64_t> strides);
  std::uint32_t ambient(const Ambient& ambient);
  // These are new by definition.
  std::uint32_t storage(std::uint64_t bytes, std::uint32_t device);
  std::uint32_t tensor(const Tensor& tensor);

  [[nodiscard]] const std::string& scope_path(std::uint32_t id) const { return scope_paths_[id]; }
  // The number that the next call will get.
  [[nodiscard]] std::uint64_t next_call() const { return chunk_.base.calls + chunk_.calls.size(); }
  // Where calls, nodes, writes, stats, externals and timings are appended.
  ProgramChunk& chunk() { return chunk_; }
  // Cut points depend on content only, so that equal programs are cut alike.
  [[nodiscard]] bool full() const { return calls_or_bytes_reach(kMaxCalls, kSoftBytes); }
  // Of a chunk that is going to shrink.
  [[nodiscard]] bool much_too_full() const {
    return calls_or_bytes_reach(8 * kMaxCalls, 32 * kSoftBytes);
  }
  // Hands over the filled chunk and begins the next one.
  ProgramChunk take();
  // The same; the next one begins in the memory of `chunk`, which receives the filled one.
  void take_into(ProgramChunk& chunk);

 private:
  static constexpr std::size_t kMaxCalls = 8192;
  // Of the columns, at about 32 bytes a call, 13 a node, 120 a write with stats, and so on.
  static constexpr std::size_t kSoftBytes = 1u << 20;
  [[nodiscard]] bool calls_or_bytes_reach(std::size_t calls, std::size_t bytes) const;

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  using TextIds = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;

  ProgramChunk chunk_;
  std::size_t definition_bytes_ = 0;  // of its strings, operators, scopes and geometries
  TextIds string_ids_;
  TextIds scope_ids_;
  TextIds op_ids_;  // name, '.', overload
  std::vector<std::string> scope_paths_;
  FlatIndex geometry_ids_;
  std::vector<std::int64_t> extents_;       // of every geometry: its sizes, its strides
  std::vector<std::size_t> extents_begin_;  // by geometry id, and where the last one ends
  std::vector<Ambient> ambients_;
};

}  // namespace goldentrace
