// Every definition of a program read so far, and the rules that make a chunk's ids mean something.
// Grows with the number of distinct definitions (24 bytes a tensor), not with the bytes recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/event/program.h"

namespace goldentrace {

class Dictionary {
 public:
  // Appends the chunk's definitions and checks that it starts where the last one ended, that every
  // id in it is defined, and that every tensor lies inside its storage. kCorrupt names what is
  // wrong; then nothing of the chunk is taken.
  Status absorb(const ProgramChunk& chunk);

  [[nodiscard]] const std::string& string(std::uint32_t id) const { return strings_[id]; }
  [[nodiscard]] const Operator& op(std::uint32_t id) const { return operators_[id]; }
  [[nodiscard]] const std::string& scope(std::uint32_t id) const { return scopes_[id]; }
  [[nodiscard]] const Geometry& geometry(std::uint32_t id) const { return geometries_[id]; }
  [[nodiscard]] const Storage& storage(std::uint32_t id) const { return storages_[id]; }
  [[nodiscard]] const Tensor& tensor(std::uint32_t id) const { return tensors_[id]; }
  [[nodiscard]] const Ambient& ambient(std::uint32_t id) const { return ambients_[id]; }
  [[nodiscard]] const Geometry& geometry_of(std::uint32_t tensor) const {
    return geometries_[tensors_[tensor].geometry];
  }
  [[nodiscard]] std::size_t storages() const { return storages_.size(); }
  [[nodiscard]] std::size_t tensors() const { return tensors_.size(); }
  [[nodiscard]] std::size_t operators() const { return operators_.size(); }
  [[nodiscard]] std::size_t scopes() const { return scopes_.size(); }

  // "bfloat16 [1, 96, 128]".
  [[nodiscard]] std::string describe_tensor(std::uint32_t id) const;
  // "aten::mul.Tensor"; the default overload has no suffix.
  [[nodiscard]] std::string describe_op(std::uint32_t id) const;

 private:
  void truncate(const ProgramBase& end);
  [[nodiscard]] Status check_definitions(const ProgramChunk& chunk) const;
  [[nodiscard]] Status check_calls(const ProgramChunk& chunk) const;

  ProgramBase next_;
  std::vector<std::string> strings_;
  std::vector<Operator> operators_;
  std::vector<std::string> scopes_;
  std::vector<Geometry> geometries_;
  std::vector<Storage> storages_;
  std::vector<Tensor> tensors_;
  std::vector<Ambient> ambients_;
};

// Product of the sizes; -1 when it does not fit in 63 bits or a size is negative.
std::int64_t element_count(const Geometry& geometry);
// Elements from the storage's start to one past the last that a tensor reaches which begins
// `offset` elements in; 0 for one without elements, -1 when it overflows.
std::int64_t storage_reach(const Geometry& geometry, std::int64_t offset);
// Row-major without gaps, so that the logical bytes are the memory's bytes.
bool is_dense(const Geometry& geometry);
// Index one past the node at `index` and all its children. Only for validated nodes.
std::size_t skip_node(const std::vector<Node>& nodes, std::size_t index);

}  // namespace goldentrace
