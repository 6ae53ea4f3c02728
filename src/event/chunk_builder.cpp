#include "src/event/chunk_builder.h"

#include <algorithm>
#include <utility>

namespace goldentrace {

ChunkBuilder::ChunkBuilder() : extents_begin_{0} { scope(""); }

std::uint32_t ChunkBuilder::string(std::string_view text) {
  if (const auto found = string_ids_.find(text); found != string_ids_.end()) return found->second;
  const auto id = chunk_.base.strings + static_cast<std::uint32_t>(chunk_.strings.size());
  chunk_.strings.emplace_back(text);
  definition_bytes_ += text.size() + 12;
  string_ids_.emplace(text, id);
  return id;
}

std::uint32_t ChunkBuilder::op(const std::string& name, const std::string& overload) {
  const std::string key = name + '.' + overload;
  if (const auto found = op_ids_.find(key); found != op_ids_.end()) return found->second;
  const auto id = chunk_.base.operators + static_cast<std::uint32_t>(chunk_.operators.size());
  chunk_.operators.push_back({name, overload});
  definition_bytes_ += key.size() + 32;
  op_ids_.emplace(key, id);
  return id;
}

std::uint32_t ChunkBuilder::scope(std::string_view path) {
  if (const auto found = scope_ids_.find(path); found != scope_ids_.end()) return found->second;
  const auto id = chunk_.base.scopes + static_cast<std::uint32_t>(chunk_.scopes.size());
  chunk_.scopes.emplace_back(path);
  definition_bytes_ += path.size() + 12;
  scope_paths_.emplace_back(path);
  scope_ids_.emplace(path, id);
  return id;
}

std::uint32_t ChunkBuilder::geometry(std::span<const std::int64_t> sizes,
                                     std::span<const std::int64_t> strides) {
  std::uint64_t hash = sizes.size();
  for (const std::int64_t size : sizes) hash = mix_hash(hash, static_cast<std::uint64_t>(size));
  for (const std::int64_t stride : strides) {
    hash = mix_hash(hash, static_cast<std::uint64_t>(stride));
  }
  const std::uint32_t known = geometry_ids_.find(hash, [&](std::uint32_t id) {
    const std::span<const std::int64_t> extents(extents_.data() + extents_begin_[id],
                                                extents_begin_[id + 1] - extents_begin_[id]);
    return extents.size() == 2 * sizes.size() &&
           std::ranges::equal(extents.first(sizes.size()), sizes) &&
           std::ranges::equal(extents.last(sizes.size()), strides);
  });
  if (known != FlatIndex::kNone) return known;
  const auto id = static_cast<std::uint32_t>(extents_begin_.size() - 1);
  extents_.insert(extents_.end(), sizes.begin(), sizes.end());
  extents_.insert(extents_.end(), strides.begin(), strides.end());
  extents_begin_.push_back(extents_.size());
  chunk_.geometries.push_back({{sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}});
  definition_bytes_ += 1 + 16 * sizes.size();
  geometry_ids_.insert(hash, id);
  return id;
}

std::uint32_t ChunkBuilder::ambient(const Ambient& ambient) {
  const auto found = std::ranges::find(ambients_, ambient);
  if (found != ambients_.end()) return static_cast<std::uint32_t>(found - ambients_.begin());
  ambients_.push_back(ambient);
  chunk_.ambients.push_back(ambient);
  return static_cast<std::uint32_t>(ambients_.size() - 1);
}

std::uint32_t ChunkBuilder::storage(std::uint64_t bytes, std::uint32_t device) {
  chunk_.storages.push_back({bytes, device});
  return chunk_.base.storages + static_cast<std::uint32_t>(chunk_.storages.size()) - 1;
}

std::uint32_t ChunkBuilder::tensor(const Tensor& tensor) {
  chunk_.tensors.push_back(tensor);
  return chunk_.base.tensors + static_cast<std::uint32_t>(chunk_.tensors.size()) - 1;
}

bool ChunkBuilder::calls_or_bytes_reach(std::size_t calls, std::size_t bytes) const {
  const std::size_t reached =
      chunk_.calls.size() * 32 + chunk_.nodes.size() * 13 + chunk_.writes.size() * 120 +
      chunk_.sketches.size() * sizeof(Sketch) + chunk_.storages.size() * 12 +
      chunk_.tensors.size() * 18 + chunk_.externals.size() * 29 + chunk_.placements.size() * 20 +
      chunk_.layouts.size() * 8 + chunk_.rows.size() * 32 + definition_bytes_;
  return chunk_.calls.size() >= calls || reached >= bytes;
}

ProgramChunk ChunkBuilder::take() {
  ProgramChunk full;
  take_into(full);
  return full;
}

void ChunkBuilder::take_into(ProgramChunk& chunk) {
  chunk.clear();
  chunk.base = chunk_.next_base();
  definition_bytes_ = 0;
  std::swap(chunk, chunk_);
}

}  // namespace goldentrace
