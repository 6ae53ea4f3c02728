// The rules of program chunks that decoding alone can't hold: ids, versions, what is said to be
// kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replayer/tools/findings.h"
#include "src/event/dictionary.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

class ProgramCheck {
 public:
  // Both must outlive this. A trace that was trimmed or recovered lacks writes, so versions may
  // leap; a recovered one lacks values too.
  ProgramCheck(const TraceReader& trace, CheckFindings& findings);

  // The program chunk at position `at` of the file.
  void add(std::size_t at, const ProgramChunk& chunk);
  // A program chunk can't be read: nothing that later ones refer to can be judged.
  void lose() { lost_ = true; }

  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] const Dictionary& dictionary() const { return dictionary_; }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t writes() const { return writes_; }
  [[nodiscard]] std::uint64_t externals() const { return externals_; }

  // A value that somebody refers to must be there, `bytes` long.
  template <typename Where>
  void check_value(const std::string& of, const Hash128& hash, std::uint64_t bytes, Where where) {
    const auto size = trace_.value_size(hash);
    if (!size && values_lost_) {
      findings_.notes.add(of + " was kept and is lost", where);
    } else if (!size) {
      findings_.faults.add(of + " is said to be kept and is not there", where);
    } else if (*size != bytes) {
      findings_.faults.add(of + " is kept with another number of bytes than it has", where);
    }
  }

 private:
  void check_externals(const ProgramChunk& chunk, std::size_t& next, std::uint64_t call);
  void check_nodes(const ProgramChunk& chunk, std::size_t i, std::size_t begin, std::size_t end);
  void check_write(const ProgramChunk& chunk, std::size_t i, const Write& write);
  void check_call(const ProgramChunk& chunk, std::size_t i);
  // The storage's counter becomes `version`, which must be the next one.
  template <typename Where>
  void advance(std::uint32_t storage, std::uint32_t version, const std::string& of, Where where);
  [[nodiscard]] std::string place(const ProgramChunk& chunk, std::size_t i) const;

  const TraceReader& trace_;
  CheckFindings& findings_;
  bool leaps_allowed_;
  bool values_lost_;
  bool lost_ = false;
  Dictionary dictionary_;
  std::vector<std::uint32_t> versions_;  // write counters, by storage
  std::uint64_t calls_ = 0;
  std::uint64_t writes_ = 0;
  std::uint64_t externals_ = 0;
};

}  // namespace goldentrace
