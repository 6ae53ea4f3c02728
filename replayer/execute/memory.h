// The storages of a program while it is executed again, and the tensors that look into them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <span>
#include <vector>

#include "src/event/dictionary.h"

namespace goldentrace {

class Memory {
 public:
  explicit Memory(const Dictionary& dictionary) : dictionary_(dictionary) {}

  [[nodiscard]] bool has(std::uint32_t storage) const {
    return storage < storages_.size() && static_cast<bool>(storages_[storage]);
  }
  // From now on recorded storage `id` is this memory.
  void bind(std::uint32_t id, const c10::Storage& storage);
  [[nodiscard]] bool is(std::uint32_t id, const c10::Storage& storage) const;
  void release(std::uint32_t id);
  // Puts `bytes` at the start of storage `id`, making it (aligned) when it does not exist.
  void fill(std::uint32_t id, std::span<const std::byte> bytes);
  // The recorded view of storage that has(); throws c10::Error when it does not fit in there.
  [[nodiscard]] at::Tensor tensor(std::uint32_t id) const;

 private:
  const Dictionary& dictionary_;
  std::vector<c10::Storage> storages_;
};

}  // namespace goldentrace
