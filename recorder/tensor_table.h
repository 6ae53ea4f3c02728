// Who is who among tensors: storages by lifetime, write counters, and the ids of their views.
// Keeps no tensor alive: a weak reference pins the small StorageImpl only, which is what makes its
// address a safe key (it can't be given to another storage while the reference stands).
// Not thread-safe: the recorder's mutex guards it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/event/chunk_builder.h"

namespace goldentrace {

// What the recorder knows about a storage's bytes.
enum class Content : std::uint8_t {
  kUnknown,    // no recorded call wrote them; the first read makes them an external input
  kUndefined,  // allocated by empty or grown by resize_, nothing written yet; read: like kUnknown
  kKnown,      // written by a recorded call, a parameter, or stored as external input
};

struct StorageEntry {
  explicit StorageEntry(c10::StorageImpl* impl)
      : alive(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl)) {}

  struct View {
    Tensor tensor;
    std::uint32_t id;
  };

  c10::weak_intrusive_ptr<c10::StorageImpl> alive;
  std::uint32_t id = 0;
  std::uint32_t version = 0;
  Content content = Content::kUnknown;
  std::uint64_t bytes = 0;
  std::uint64_t content_hash = 0;  // of all bytes, when kKnown and watched
  std::vector<View> views;
};

class TensorTable {
 public:
  explicit TensorTable(ChunkBuilder& builder) : builder_(builder) {}

  // The entry of a live storage, made on first sight. A storage whose size changed (resize_) is a
  // new one from then on, with undefined content.
  StorageEntry& storage(c10::StorageImpl* impl);
  // The id of this view of `entry`'s storage.
  std::uint32_t tensor(StorageEntry& entry, const at::Tensor& tensor);

  // Forgets storages that are gone. Called every few thousand calls.
  void sweep();
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  ChunkBuilder& builder_;
  std::unordered_map<c10::StorageImpl*, StorageEntry> entries_;
};

}  // namespace goldentrace
