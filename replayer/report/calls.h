// One call, or one tensor that a call wrote, as a line of text or of JSON: what `replay show` and
// `replay export` print.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/event/dictionary.h"

namespace goldentrace {

// One line without its end. The call is number `i` of its chunk.
std::string call_text(const Dictionary& dictionary, const ProgramChunk& chunk, std::size_t i);
std::string call_json(const Dictionary& dictionary, const ProgramChunk& chunk, std::size_t i);

// The side tables of a program so far: placement, layout and rows of tensors.
class TensorNotes {
 public:
  void absorb(const ProgramChunk& chunk);

  // Write `w` of call `i` as one line without its end.
  [[nodiscard]] std::string write_text(const Dictionary& dictionary, const ProgramChunk& chunk,
                                       std::size_t i, std::size_t w) const;
  [[nodiscard]] std::string write_json(const Dictionary& dictionary, const ProgramChunk& chunk,
                                       std::size_t i, std::size_t w) const;

 private:
  struct Note {
    Placement placement;
    std::vector<std::uint32_t> layouts;  // string ids
    std::vector<Row> rows;
  };
  std::unordered_map<std::uint32_t, Note> notes_;  // by tensor
};

}  // namespace goldentrace
