// Numbers a part of a program anew: the calls that are handed over, and every definition that they
// use, in the order of first use.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/event/dictionary.h"

namespace goldentrace {

class ProgramTrimmer {
 public:
  // `from` has every definition of the chunks handed over so far, and must outlive this.
  explicit ProgramTrimmer(const Dictionary& from) : from_(from) {}

  // The side tables of a chunk; before its calls.
  void learn_notes(const ProgramChunk& chunk);
  // Call `i` of its chunk and what was put into memory before it. Answers its new number.
  std::uint64_t add(const ProgramChunk& chunk, std::size_t i, std::vector<External> externals);
  void add(const Timing& timing) { out_.timings.push_back(timing); }
  // The new id of a tensor, which is defined from now on.
  std::uint32_t tensor(std::uint32_t id);

  // Something is waiting to be taken; enough for a chunk.
  [[nodiscard]] bool empty() const;
  [[nodiscard]] bool full() const;
  // The chunk so far; what follows belongs to the next one.
  ProgramChunk take();

 private:
  // Old id -> new id.
  class Ids {
   public:
    // kNew when `id` has none yet; the next call for it must be set().
    static constexpr std::uint32_t kNew = 0xffffffff;
    std::uint32_t find(std::uint32_t id) const { return id < ids_.size() ? ids_[id] : kNew; }
    void set(std::uint32_t id, std::uint32_t to) {
      if (id >= ids_.size()) ids_.resize(id + 1, kNew);
      ids_[id] = to;
    }

   private:
    std::vector<std::uint32_t> ids_;
  };
  struct Notes {
    std::vector<TensorPlacement> placements;
    std::vector<TensorLayout> layouts;
    std::vector<TensorRow> rows;
  };

  template <typename Item>
  std::uint32_t define(Ids& ids, std::uint32_t id, std::uint32_t base, std::vector<Item>& items,
                       Item item);
  std::uint32_t string(std::uint32_t id);
  std::uint32_t storage(std::uint32_t id);
  std::uint32_t geometry(std::uint32_t id);
  Node node(Node node);
  void add_notes(const Notes& notes, std::uint32_t tensor);

  const Dictionary& from_;
  ProgramChunk out_;
  Ids strings_;
  Ids operators_;
  Ids scopes_;
  Ids geometries_;
  Ids storages_;
  Ids tensors_;
  Ids ambients_;
  std::unordered_map<std::uint32_t, Notes> waiting_;  // of tensors that have no new id yet
};

}  // namespace goldentrace
