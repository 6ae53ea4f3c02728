// What the recorder needs to know about an operator, read once from its schema.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "src/base/flat_index.h"
#include "src/event/chunk_builder.h"

namespace goldentrace {

enum class ArgumentRole : std::uint8_t {
  kRead,
  kUpdate,     // read and written: add_, index_put_
  kOverwrite,  // written, never read: out=, copy_, fill_
};

struct OpInfo {
  std::uint32_t id = 0;
  std::string name;               // "aten::mul"
  std::string qualified;          // "aten::mul.Tensor"
  const char* name_pointer = "";  // as RecordFunction gives them
  const char* overload = "";
  bool random = false;              // draws from a generator
  int dropout = -1;                 // place of the probability: 0 draws nothing
  int train = -1;                   // of dropout: draws only where this argument is true
  bool multiplies_matrices = true;  // or may: no view, and not element by element
  bool undefined_results = false;   // empty, resize_: new memory has no content
  // A plain LibTorch has it: one that was defined from Python or by another library is no step of a
  // program, the calls that it makes are.
  bool builtin = true;
  std::size_t returns = 0;
  std::vector<ArgumentRole> roles;  // one a schema argument
  // Its kernel has been seen to call so many other operators that hiding them pays.
  mutable std::atomic<bool> hides_inner_calls{false};

  [[nodiscard]] ArgumentRole role(std::size_t argument) const {
    return argument < roles.size() ? roles[argument] : ArgumentRole::kRead;
  }
};

// Not thread-safe: the recorder's mutex guards it.
class OpTable {
 public:
  explicit OpTable(ChunkBuilder& builder) : builder_(builder) {}

  // nullptr for a frame that is no dispatcher call: an autograd node, a user scope, a compiled
  // region.
  const OpInfo* find(const at::RecordFunction& function);

 private:
  ChunkBuilder& builder_;
  // By the schema's name pointer, which is stable; a hit is confirmed by content, because a frame
  // without a schema could carry any pointer.
  FlatIndex by_pointer_;
  std::deque<OpInfo> ops_;
};

}  // namespace goldentrace
