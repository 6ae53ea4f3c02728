// A trace's calls, one forward pass at a time, in a form that can be compared with another trace's:
// names are interned over both sides. Memory grows with one step.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/format/trace_reader.h"

namespace goldentrace {

// Texts of both traces under common numbers.
class Names {
 public:
  std::uint32_t id(const std::string& text);
  [[nodiscard]] const std::string& text(std::uint32_t id) const { return texts_[id]; }

 private:
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> texts_;
};

// A NaN that no computation makes ("data" is in its bits).
inline constexpr std::int64_t kFromDataBits = 0x7ff8646174610000;
inline const double kFromData = std::bit_cast<double>(kFromDataBits);

// One output of a call, without its bytes.
struct Output {
  DType dtype = DType::kFloat32;
  std::uint8_t flags = 0;  // WriteFlag
  Hash128 hash;
  Stats stats;    // when kWriteStats
  Sketch sketch;  // when kWriteSketch
  BandReader::Band noise;
  std::uint64_t elements = 0;
  std::uint32_t storage = 0;  // the trace's own id
  std::uint32_t shape = 0;    // name id of "bfloat16 [1, 96, 128]"
};

struct StepCall {
  std::uint64_t number = 0;
  std::uint32_t scope = 0;  // name ids
  std::uint32_t op = 0;
  bool foreign = false;              // a tensor that another engine gave
  std::vector<Output> outputs;       // what it wrote
  std::vector<std::uint32_t> reads;  // storages among its arguments, the trace's own ids
  // Numbers among its arguments; kFromData stands for one that came from a tensor (item).
  std::vector<double> constants;
  std::uint64_t key = 0;  // op and the shapes it wrote: what alignment compares
};

struct StepCalls {
  std::uint32_t step = 0;
  std::vector<StepCall> calls;
};

// What makes no difference to a call's key.
struct KeysAlike {
  bool floats = false;   // real float dtypes: a run in another one has the same calls
  bool leading = false;  // the first size of its outputs: one run has a batch
};

class StepReader {
 public:
  // Both must outlive this.
  StepReader(const TraceReader& trace, Names& names, KeysAlike alike = {})
      : program_(trace), bands_(trace), names_(names), alike_(alike) {}

  // The next run of calls of one step; false at the end of the program.
  Result<bool> next(StepCalls& step);

 private:
  struct Shape {
    std::uint32_t name = 0;  // as Output::shape
    std::uint64_t key = 0;   // its part in a call's key
  };

  Result<StepCall> convert(const ProgramChunk& chunk, std::size_t i);
  const Shape& shape_of(std::uint32_t tensor);
  void read_arguments(const ProgramChunk& chunk, const Call& call, StepCall& out);
  std::uint32_t scope_name(std::uint32_t scope);
  std::uint32_t op_name(std::uint32_t op);

  ProgramReader program_;
  BandReader bands_;
  Names& names_;
  const KeysAlike alike_;
  std::size_t at_ = 0;
  bool started_ = false;
  bool finished_ = false;
  // Local id -> name id, filled on demand.
  std::unordered_map<std::uint32_t, std::uint32_t> scopes_;
  std::unordered_map<std::uint32_t, std::uint32_t> ops_;
  std::unordered_map<std::uint64_t, Shape> shapes_;  // by geometry and dtype
  std::vector<StepCall> spare_;                      // of the step before, for their memory
  // Bits of floats that went from a tensor back to Python (item): where they return as arguments
  // they are data. Ordered: hashes of numbers from a file may be made to collide.
  std::set<std::int64_t> from_data_;
};

}  // namespace goldentrace
