#include "src/digest/hash.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/digest/leaf_hash.h"
#include "src/digest/leaf_tree.h"

namespace goldentrace {

void hash_leaves(std::span<const std::byte> bytes, std::uint64_t* leaves) {
  static const LeafHash hash = leaf_hash();
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const std::size_t whole = bytes.size() / kHashBlock;
  hash(data, whole, leaves);
  if (const std::size_t rest = bytes.size() % kHashBlock; rest > 0) {
    alignas(64) std::array<unsigned char, kHashBlock> padded;
    std::memcpy(padded.data(), data + whole * kHashBlock, rest);
    std::memset(padded.data() + rest, 0, kHashBlock - rest);
    hash(padded.data(), 1, leaves + whole);
  }
}

std::uint64_t xxh3_64(std::span<const std::byte> bytes) {
  static const Xxh3 hash = xxh3();
  return hash(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

// Whole blocks, but for the last of all.
static void add_blocks(std::span<const std::byte> bytes, LeafTree& tree) {
  std::array<std::uint64_t, 64> leaves;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), leaves.size() * kHashBlock));
    hash_leaves(piece, leaves.data());
    tree.add(std::span(leaves).first(leaf_count(piece.size())));
    bytes = bytes.subspan(piece.size());
  }
}

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  LeafTree tree;
  add_blocks(bytes, tree);
  return tree.finish(bytes.size());
}

struct HashStream::State {
  LeafTree tree;
  std::uint64_t total = 0;
  std::array<std::byte, kHashBlock> block;  // the beginning of one that is not full yet
  std::size_t filled = 0;
};

HashStream::HashStream() : state_(std::make_unique<State>()) {}
HashStream::~HashStream() = default;
HashStream::HashStream(HashStream&&) noexcept = default;
HashStream& HashStream::operator=(HashStream&&) noexcept = default;

void HashStream::add(std::span<const std::byte> bytes) {
  State& state = *state_;
  state.total += bytes.size();
  if (state.filled > 0) {
    const std::size_t taken = std::min(bytes.size(), kHashBlock - state.filled);
    std::copy_n(bytes.begin(), taken,
                state.block.begin() + static_cast<std::ptrdiff_t>(state.filled));
    state.filled += taken;
    bytes = bytes.subspan(taken);
    if (state.filled < kHashBlock) return;
    add_blocks(state.block, state.tree);
    state.filled = 0;
  }
  const std::size_t whole = bytes.size() / kHashBlock * kHashBlock;
  add_blocks(bytes.first(whole), state.tree);
  std::ranges::copy(bytes.subspan(whole), state.block.begin());
  state.filled = bytes.size() - whole;
}

Hash128 HashStream::finish() {
  add_blocks(std::span(state_->block).first(state_->filled), state_->tree);
  return state_->tree.finish(state_->total);
}

}  // namespace goldentrace
