// Who is who among tensors: storages by lifetime, write counters, and the ids of their views.
// Keeps no tensor alive: a weak reference pins the small StorageImpl only, which is what makes its
// address a safe key (it can't be given to another storage while the reference stands). It is let
// go before the next call after the storage's end: pinned objects between large tensors keep the
// allocator from using their memory again, and kernels would write to cold or new pages. Not
// thread-safe: the recorder's mutex guards it. In steady state nothing is allocated.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "src/base/flat_index.h"
#include "src/event/chunk_builder.h"

namespace goldentrace {

// What the recorder knows about a storage's bytes.
enum class Content : std::uint8_t {
  kUnknown,    // no recorded call wrote them; the first read makes them an external input
  kUndefined,  // allocated by empty or grown by resize_, nothing written yet; read: like kUnknown
  kKnown,      // written by a recorded call, a parameter, or stored as external input
};

// A cache line. It stays where it is as long as its storage lives.
struct alignas(64) StorageEntry {
  c10::StorageImpl* impl = nullptr;  // weakly held; null when the entry is free
  std::uint64_t bytes = 0;
  std::uint64_t content_hash = 0;  // of all bytes, when kKnown and watched
  std::uint64_t view_hash = 0;     // of the first view; most storages have no other
  std::uint64_t repeated = 0;      // the last call before which its bytes were stored again, + 1
  std::uint32_t view = 0;
  std::uint32_t id = 0;
  std::uint32_t version = 0;
  std::uint32_t number = 0;  // of this entry
  bool has_view = false;
  bool parameter = false;  // as it is in the dictionary, and so in the checkpoint
  Content content = Content::kUnknown;
};
static_assert(sizeof(StorageEntry) == 64);

class TensorTable {
 public:
  explicit TensorTable(ChunkBuilder& builder) : builder_(builder) {}
  ~TensorTable();
  TensorTable(const TensorTable&) = delete;
  TensorTable& operator=(const TensorTable&) = delete;

  // The entry of a live storage, made on first sight. A storage whose size changed (resize_) is a
  // new one from then on, with undefined content.
  StorageEntry& storage(c10::StorageImpl* impl);
  // The id of this view of `entry`'s storage. Views are told apart by 64 bits of hash.
  std::uint32_t tensor(StorageEntry& entry, const at::Tensor& tensor);

  // Lets go of storages that are gone: of all young ones, and of one old one now and then. Called
  // before each call.
  void let_go();
  [[nodiscard]] std::size_t size() const { return index_.size(); }

 private:
  struct View {
    std::uint64_t hash;
    std::uint32_t storage;
    std::uint32_t tensor;
  };

  StorageEntry& add(c10::StorageImpl* impl, std::uint64_t hash);
  void release(StorageEntry& entry);
  void drop_dead_views();
  std::uint32_t define(const StorageEntry& entry, const at::Tensor& tensor);
  std::uint32_t device_name(c10::Device device);

  ChunkBuilder& builder_;
  FlatIndex index_;  // of entries, by address
  std::deque<StorageEntry> entries_;
  std::vector<std::uint32_t> free_;
  struct Young {
    c10::StorageImpl* impl;
    std::uint32_t entry;
  };
  // Most storages live for a few calls. In the order of their making.
  std::array<Young, 16> young_;
  std::size_t young_size_ = 0;
  std::size_t next_old_ = 0;
  FlatIndex view_index_;  // of further views
  std::vector<View> views_;
  std::vector<std::pair<c10::Device, std::uint32_t>> device_names_;
};

}  // namespace goldentrace
