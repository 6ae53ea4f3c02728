// What the decoders of all chunks share: a verified buffer is read, and nothing in it can make a
// reader take more memory than the limits of FORMAT.md allow. Internal to src/format/.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/format/codec.h"
#include "src/format/trace_generated.h"

namespace goldentrace {

inline Status corrupt(const std::string& what) { return {Code::kCorrupt, what}; }

// The root table of a verified buffer, or null.
template <typename Table>
const Table* root(std::span<const std::byte> raw) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(raw.data());
  // Every table costs a vtable offset and an entry in a vector: 8 bytes. More tables than that are
  // the same ones over and over, which would unfold into any amount of memory.
  const auto max_tables = static_cast<flatbuffers::uoffset_t>(raw.size() / 8 + 1);
  flatbuffers::Verifier verifier(bytes, raw.size(), /*max_depth=*/16, max_tables);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return nullptr;
  return flatbuffers::GetRoot<Table>(bytes);
}

inline Status bad_buffer(const char* kind) {
  return corrupt(std::string(kind) + " chunk is not a valid FlatBuffer");
}

template <typename Enum>
unsigned wire_number(Enum value) {
  return static_cast<unsigned>(value);
}

inline Hash128 from_wire(const wire::Hash128& hash) { return {hash.low(), hash.high()}; }

template <typename Vector>
std::size_t length(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

template <typename T>
std::size_t bytes_of(const flatbuffers::Vector<T>* vector) {
  return length(vector) * sizeof(std::remove_pointer_t<T>);
}

// The verifier checks where a vector's length lies, not where its items do.
template <typename T>
bool aligned(const flatbuffers::Vector<T>* vector) {
  using Item = std::remove_cv_t<std::remove_pointer_t<T>>;
  return length(vector) == 0 ||
         reinterpret_cast<std::uintptr_t>(vector->Data()) % alignof(Item) == 0;
}

// Copies strings and vectors out of a buffer. Several offsets may lead to the same bytes, so a
// small chunk could ask for any amount of memory; one that would unfold into more bytes than it has
// is refused, as no writer makes such a chunk. So is one whose entries are so small that, as
// structs, they take many times the chunk's size.
class Copier {
 public:
  explicit Copier(std::span<const std::byte> raw)
      : left_(raw.size()), room_(kMaxStructs * raw.size() + kFreeRoom) {}

  // True when more was asked for than the buffer holds, or a vector lies askew; what was copied is
  // then incomplete.
  [[nodiscard]] bool broken() const { return broken_; }

  // Makes room for `count` more items; false when there is none.
  template <typename Item>
  [[nodiscard]] bool reserve(std::vector<Item>& items, std::size_t count) {
    broken_ = broken_ || count > room_ / sizeof(Item);
    if (broken_) return false;
    room_ -= count * sizeof(Item);
    items.reserve(items.size() + count);
    return true;
  }

  // An absent string is "".
  std::string text(const flatbuffers::String* text) {
    return text == nullptr || !take(text->size()) ? std::string() : text->str();
  }

  // Vectors of numbers or structs that are read where they lie; an absent one is empty.
  template <typename... Vectors>
  [[nodiscard]] bool columns(const Vectors*... vectors) {
    broken_ = broken_ || !(aligned(vectors) && ...);
    return (take(bytes_of(vectors)) && ...);
  }

  template <typename T>
  std::vector<T> scalars(const flatbuffers::Vector<T>* vector) {
    if (vector == nullptr || !columns(vector)) return {};
    return std::vector<T>(vector->begin(), vector->end());
  }

  std::vector<std::string> texts(
      const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* vector) {
    std::vector<std::string> out;
    if (!take(length(vector) * sizeof(flatbuffers::uoffset_t))) return out;
    if (!reserve(out, length(vector))) return out;
    for (flatbuffers::uoffset_t i = 0; i < length(vector); ++i) {
      out.push_back(text(vector->Get(i)));
    }
    return out;
  }

  std::vector<std::pair<std::string, std::string>> pairs(
      const flatbuffers::Vector<flatbuffers::Offset<wire::KeyValue>>* vector) {
    std::vector<std::pair<std::string, std::string>> out;
    if (!reserve(out, length(vector))) return out;
    for (flatbuffers::uoffset_t i = 0; i < length(vector); ++i) {
      out.emplace_back(text(vector->Get(i)->key()), text(vector->Get(i)->value()));
    }
    return out;
  }

 private:
  // Entries that are written with what they hold take less than a quarter of this.
  static constexpr std::size_t kMaxStructs = 8;  // bytes of structs a byte of the chunk
  static constexpr std::size_t kFreeRoom = 1u << 20;

  bool take(std::size_t bytes) {
    broken_ = broken_ || bytes > left_;
    if (!broken_) left_ -= bytes;
    return !broken_;
  }

  std::size_t left_;
  std::size_t room_;
  bool broken_ = false;
};

inline Status bad_offsets() {
  return corrupt("offsets lead astray, or to the same bytes many times over, or entries are empty");
}

// Well-formed, but of a later version: nothing that this build can make sense of.
inline Status unknown(const char* what, unsigned number) {
  return {Code::kUnsupported, std::string(what) + " " + std::to_string(number) +
                                  " is not known to this build: use a newer goldentrace"};
}

// Columns of one struct-of-arrays table must be equally long.
template <typename... Vectors>
bool equal_columns(std::size_t expected, const Vectors*... vectors) {
  return ((length(vectors) == expected) && ...);
}

inline Status decode_placement(const wire::Placement& at, Placement& placement) {
  if (at.kind() > wire::PlacementKind::PartialSum) {
    return unknown("placement", wire_number(at.kind()));
  }
  placement = {static_cast<PlacementKind>(at.kind()), at.dim(), at.index(), at.count()};
  if (placement.kind != PlacementKind::kReplicated && placement.index >= placement.count) {
    return corrupt("number of a shard or summand is not below how many there are");
  }
  return {};
}

// A position is a token's number in its text.
inline bool possible_rows(const Row& row) {
  return row.position <= std::numeric_limits<std::int64_t>::max() - std::int64_t{row.count};
}

inline Status impossible_rows() {
  return corrupt("rows reach past the last position that there can be");
}

}  // namespace goldentrace
