// The storages of a program while it is executed again, and the tensors that look into them.
//
// Promoted, float tensors are kept in a wider dtype. Sizes, strides and offsets, counted in
// elements, stay those recorded, and so does who shares memory with whom.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "replayer/execute/promotion.h"
#include "src/event/dictionary.h"

namespace goldentrace {

class Memory {
 public:
  Memory(const Dictionary& dictionary, Promotion promotion, c10::Device device)
      : dictionary_(dictionary), promotion_(promotion), device_(device) {}

  // Where all of it is, wherever it was recorded.
  [[nodiscard]] c10::Device device() const { return device_; }

  // Of each storage, what its elements are; to be called for every chunk before its calls.
  void learn(const ProgramChunk& chunk);

  [[nodiscard]] bool has(std::uint32_t storage) const {
    return made(storage) || lent_.contains(storage);
  }
  // From now on recorded storage `id` is this memory.
  void bind(std::uint32_t id, const c10::Storage& storage);
  [[nodiscard]] bool is(std::uint32_t id, const c10::Storage& storage) const;
  [[nodiscard]] const c10::Storage& storage(std::uint32_t id) const { return storages_[id]; }
  void release(std::uint32_t id);
  // Memory of zeros for storage `id`, aligned.
  void allocate(std::uint32_t id);
  // Storage `id` of a parameter, whole, in the recorded dtype, on the CPU; others may have it too.
  // Promoted memory makes its own of it when a call needs it: see need().
  void lend(std::uint32_t id, const c10::Storage& recorded);
  // To be called before a call's tensors are asked for, and after it. What need() made of a lent
  // storage stays while there is room for it, else it goes when the call is over.
  void need(std::uint32_t id);
  void end_call();
  // Bytes that such storages may take between calls.
  void set_room(std::uint64_t bytes) { room_ = bytes; }
  // Takes what need() makes from `other`, which promotes alike and lives longer, where that has it.
  void borrow_from(Memory& other) { lender_ = &other; }
  // Tensor `id` looks into lent storage that is not promoted yet; lent_tensor gives it as recorded.
  [[nodiscard]] bool is_lent(std::uint32_t id) const {
    const std::uint32_t storage = dictionary_.tensor(id).storage;
    return !made(storage) && lent_.contains(storage);
  }
  [[nodiscard]] at::Tensor lent_tensor(std::uint32_t id) const;
  // Storage that nobody else has: what is to be written into.
  void own(std::uint32_t id);
  // Puts recorded bytes at the start of storage `id`, making it when it does not exist.
  void fill(std::uint32_t id, std::span<const std::byte> bytes);

  // The recorded view of storage that has(); throws c10::Error when it does not fit in there.
  // A view by a dtype that is kept in another ratio of bytes than its storage's own (int16 of
  // bfloat16) is a copy: the recorded dtype's bits, looked at anew.
  [[nodiscard]] at::Tensor tensor(std::uint32_t id) const;
  [[nodiscard]] bool reinterprets(std::uint32_t id) const;
  // The dtype that tensor(id) has.
  [[nodiscard]] DType dtype(std::uint32_t id) const {
    return promoted(dictionary_.tensor(id).dtype, promotion_);
  }
  [[nodiscard]] Promotion promotion() const { return promotion_; }
  [[nodiscard]] bool promotes() const { return promotion_ != Promotion::kNone; }

 private:
  [[nodiscard]] bool made(std::uint32_t storage) const {
    return storage < storages_.size() && static_cast<bool>(storages_[storage]);
  }
  [[nodiscard]] std::size_t ratio(DType dtype) const;
  [[nodiscard]] DType own_dtype(std::uint32_t storage) const;

  const Dictionary& dictionary_;
  const Promotion promotion_;
  const c10::Device device_;
  std::vector<c10::Storage> storages_;
  std::vector<DType> dtypes_;  // by storage: of the first tensor that looks into it
  std::unordered_map<std::uint32_t, c10::Storage> lent_;
  std::uint64_t room_ = ~0ull;
  std::vector<std::uint32_t> passing_;  // made of lent ones for this call only
  Memory* lender_ = nullptr;
};

// A dense copy's bytes put into `target` in order of its elements; they are of dtype `dtype`.
// kCorrupt when they are too many or too few.
Status put_elements(std::span<const std::byte> bytes, DType dtype, const at::Tensor& target);

}  // namespace goldentrace
