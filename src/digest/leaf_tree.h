// The upper half of `hash`: from leaves to 128 bits. For digest.cpp and hash.cpp.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "src/base/digest.h"

namespace goldentrace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "leaves are hashed as they lie in memory");

class LeafTree {
 public:
  void add(std::span<const std::uint64_t> leaves) {
    if (!streaming_ && filled_ + leaves.size() < few_.size()) {
      std::memcpy(few_.data() + filled_, leaves.data(), leaves.size_bytes());
      filled_ += leaves.size();
      return;
    }
    stream();
    XXH3_128bits_update(&state_, leaves.data(), leaves.size_bytes());
  }

  // `bytes` is the length of what the leaves are of.
  Hash128 finish(std::uint64_t bytes) {
    XXH128_hash_t hash;
    if (streaming_) {
      XXH3_128bits_update(&state_, &bytes, sizeof bytes);
      hash = XXH3_128bits_digest(&state_);
    } else {
      few_[filled_++] = bytes;
      hash = XXH3_128bits(few_.data(), filled_ * sizeof(std::uint64_t));
    }
    return {hash.low64, hash.high64};
  }

 private:
  void stream() {
    if (streaming_) return;
    streaming_ = true;
    XXH3_128bits_reset(&state_);
    XXH3_128bits_update(&state_, few_.data(), filled_ * sizeof(std::uint64_t));
  }

  // Most tensors have few leaves; a stream's state costs more than they do.
  std::array<std::uint64_t, 32> few_;
  std::size_t filled_ = 0;
  bool streaming_ = false;
  XXH3_state_t state_;
};

}  // namespace goldentrace
