// Executes the calls of a recorded program one by one through the dispatcher. Knows nothing of
// digests or verdicts; who drives it compares what came out.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "replayer/execute/environment.h"
#include "replayer/execute/memory.h"
#include "src/event/dictionary.h"

namespace goldentrace {

// A call of this program that can't be executed here.
struct CannotRun {
  std::string why;
};

// How a result lies in memory, against what was recorded. The recorded geometry and sharing hold
// from then on, whatever came out.
struct Placed {
  bool same_sizes = true;
  bool same_layout = true;  // strides, offset and dtype
  bool same_memory = true;  // own memory or shared with the same storage
};

class Interpreter {
 public:
  // Both must outlive this; several may share one environment.
  Interpreter(const Dictionary& dictionary, Promotion promotion, Environment& environment,
              c10::Device device = c10::DeviceType::CPU);

  Memory& memory() { return memory_; }

  // The call's results, in the schema's order. Throws CannotRun, or what the operator throws.
  std::vector<c10::IValue> run(const ProgramChunk& chunk, const Call& call);
  // The last call found no kernel for promoted arguments and ran in the recorded dtypes.
  [[nodiscard]] bool ran_in_recorded_dtype() const { return fell_back_; }

  // Tensor ids that the last call read or wrote as arguments.
  [[nodiscard]] const std::vector<std::uint32_t>& argument_ids() const { return tensor_ids_; }

  // Puts `got` where recorded result tensor `id` is.
  Placed place(std::uint32_t id, const at::Tensor& got);
  // What a call that could not run should have made is not to be had by later ones.
  void lose_results(const ProgramChunk& chunk, const Call& call);

  // Where the call picks values by an index that it computes (topk, sort, max along a dimension):
  // puts the values that lie at `indices`, elements of recorded dtype int64, into results[0].
  void gather_picked(const Call& call, const at::Tensor& indices,
                     std::vector<c10::IValue>& results) const;

 private:
  enum class Dtypes : std::uint8_t { kKept, kRecorded };

  struct Op {
    c10::OperatorHandle handle;
    std::vector<bool> dtype_argument;  // the argument names a dtype
    std::vector<bool> written;
    std::int64_t dim = -1;      // place of the argument "dim" where values are picked by index
    bool reinterprets = false;  // gives another dtype's view of the same bits
    bool picks_rows = false;    // of a table that is much larger than what it gives
  };

  void limit_allocations(const ProgramChunk& chunk, const Call& call);
  const Op& find_op(std::uint32_t id);
  std::vector<c10::IValue> decode_arguments(const ProgramChunk& chunk, const Call& call,
                                            const Op& op, Dtypes dtypes);
  c10::IValue decode(const std::vector<Node>& nodes, std::size_t& node, const c10::Type& type);
  c10::IValue decode_list(const std::vector<Node>& nodes, std::size_t& node, std::int64_t count,
                          const c10::Type& type);
  [[nodiscard]] bool reads_lent(const ProgramChunk& chunk, const Call& call) const;
  void make_unread(std::uint32_t storage);
  at::Tensor decode_tensor(std::uint32_t id);
  std::vector<c10::IValue> run_in_recorded_dtype(const ProgramChunk& chunk, const Call& call,
                                                 const Op& op);
  [[nodiscard]] bool is_read_argument(const c10::Storage& storage) const;

  const Dictionary& dictionary_;
  Memory memory_;
  Environment& environment_;
  std::unordered_map<std::uint32_t, Op> ops_;
  std::unordered_set<std::uint32_t> lost_;  // storages of results of calls that could not run

  // Of the call that runs.
  Dtypes dtypes_ = Dtypes::kKept;
  bool writes_argument_ = false;
  bool fell_back_ = false;
  std::vector<at::Tensor> arguments_;      // tensors in order of their nodes
  std::vector<std::uint32_t> tensor_ids_;  // their ids
  std::vector<bool> written_;              // whether the schema marks them written
  std::vector<c10::IValue> inputs_;        // top-level arguments
};

}  // namespace goldentrace
