// goldentrace_reader: a TraceReader whose answers are C structs that point into it. One thread at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/status.h"
#include "src/capi/goldentrace.h"
#include "src/capi/text_view.h"
#include "src/format/trace_reader.h"

namespace goldentrace::capi {

// What chunks say of tensors beside their definitions; grows as chunks are read.
struct TensorNotes {
  void absorb(const ProgramChunk& chunk);

  std::unordered_map<std::uint32_t, std::uint32_t> layouts;  // string ids
  std::unordered_map<std::uint32_t, Placement> placements;
  std::unordered_map<std::uint32_t, std::vector<goldentrace_row>> rows;
};

// One goldentrace_record and what it points to, unless that is in the dictionary or the notes.
class RecordView {
 public:
  // What the program up to the record's chunk says.
  struct Source {
    const TraceReader& trace;
    const Dictionary& dictionary;
    const TensorNotes& notes;
    const ProgramChunk& chunk;
  };
  // Write number `write` of the chunk's call number `call`.
  Result<const goldentrace_record*> set(const Source& source, std::size_t call,
                                        std::uint32_t write);

 private:
  void set_call(const Source& source, std::size_t call);
  void set_notes(const Source& source, std::uint32_t tensor);
  Status set_digest(const Source& source, const Write& write);

  goldentrace_record record_{};
  std::string op_;
  std::vector<std::uint64_t> inputs_;
  goldentrace_hash128 hash_{};
  goldentrace_stats stats_{};
  Sketch sketch_{};
};

class Reader {
 public:
  static Result<std::unique_ptr<Reader>> open(const char* path);

  [[nodiscard]] const goldentrace_info& info() const { return info_; }
  // Each null past the end.
  [[nodiscard]] const goldentrace_counter* counter(std::size_t index) const;
  Result<const goldentrace_request*> request(std::size_t index);
  Result<const goldentrace_result*> result(std::size_t index);
  Result<const goldentrace_parameter_record*> parameter(std::size_t index);

  Result<const goldentrace_record*> next();
  void rewind();
  Result<const goldentrace_record*> find(const goldentrace_query* query);
  Status value(const goldentrace_hash128& hash, void* memory, std::uint64_t size) const;

 private:
  // Where the tensors of one name are.
  struct Place {
    std::uint32_t chunk = 0;  // of the trace's chunks
    std::uint32_t call = 0;   // in the chunk
    std::uint32_t step = 0;
    std::uint32_t op = 0;
    std::uint32_t write = 0;
  };
  struct Index {
    Dictionary dictionary;
    TensorNotes notes;
    std::map<std::string, std::vector<Place>> places;  // ordered: names may be made to collide
    std::uint32_t loaded = UINT32_MAX;                 // the chunk that `chunk` is
    ProgramChunk chunk;
  };

  explicit Reader(std::unique_ptr<TraceReader> trace);
  Status load_text();
  Status load_index();

  std::unique_ptr<TraceReader> trace_;
  goldentrace_info info_{};
  std::vector<goldentrace_pair> environment_;
  std::vector<const char*> command_;
  std::vector<goldentrace_counter> counters_;

  // Once they were asked for.
  std::unique_ptr<TextView> text_;
  std::unique_ptr<ParameterView> parameters_;

  // next(): the program so far, and the place in its chunk.
  std::optional<ProgramReader> program_;
  TensorNotes notes_;
  std::size_t call_ = 0;
  std::uint32_t write_ = 0;
  RecordView next_view_;

  std::optional<Index> index_;
  RecordView found_view_;
};

}  // namespace goldentrace::capi
