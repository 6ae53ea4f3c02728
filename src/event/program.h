// The recorded program as plain data: definitions (strings, operators, scopes, geometries,
// storages, tensors, ambient states) and calls. The recorder fills a ProgramChunk, the writer
// encodes it, the reader decodes the same struct again. Ids are dense first-seen numbers over the
// whole file; a chunk holds the definitions that its own calls use first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/digest.h"
#include "src/base/dtype.h"
#include "src/event/placement.h"

namespace goldentrace {

struct Operator {
  std::string name;      // "aten::mul"
  std::string overload;  // "Tensor"; empty for the default overload
  bool operator==(const Operator&) const = default;
};

// Sizes and strides in elements; both have one entry a dimension.
struct Geometry {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  bool operator==(const Geometry&) const = default;
};

// Memory with one lifetime: an address that is freed and used again is a new storage.
struct Storage {
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;  // string id: "cpu", "cuda:0"
  bool operator==(const Storage&) const = default;
};

enum TensorFlag : std::uint8_t {
  kTensorWrappedNumber = 1,  // a 0-dim tensor made from a Python number: weak in type promotion
  kTensorConjugate = 2,      // lazy conjugation bit
  kTensorNegative = 4,       // lazy negation bit
};

// A view of a storage. Two arguments with the same storage, geometry, dtype, flags and offset are
// the same tensor, whatever TensorImpl carried them.
struct Tensor {
  std::uint32_t storage = 0;
  std::uint32_t geometry = 0;
  DType dtype = DType::kFloat32;
  std::uint8_t flags = 0;
  std::int64_t offset = 0;  // elements from the start of the storage
  bool operator==(const Tensor&) const = default;
};

// Thread state that changes what a call computes. A call names the ambient it ran under.
struct Ambient {
  bool grad = false;
  bool inference = false;
  bool deterministic = false;
  bool autocast = false;
  DType autocast_dtype = DType::kBFloat16;  // meaningful when autocast
  DType default_dtype = DType::kFloat32;
  std::string matmul_precision;  // "highest", "high", "medium"
  std::uint32_t threads = 1;     // intra-op
  bool operator==(const Ambient&) const = default;
};

// Stored as is: append only. Numbers from 64 on exist on the wire only (FORMAT.md).
enum class NodeKind : std::uint8_t {
  kNone = 0,
  kTensor = 1,           // value: tensor id, version: the storage's write counter when it was read
  kUndefinedTensor = 2,  // an at::Tensor that holds nothing
  kInt = 3,              // also dtypes, layouts, memory formats, enums: PyTorch passes them as ints
  kDouble = 4,           // value: the bits
  kBool = 5,
  kString = 6,       // value: string id
  kDevice = 7,       // value: string id, "cpu" or "cuda:0"
  kList = 8,         // value: number of children, which follow in order
  kTuple = 9,        // like kList
  kComplex = 10,     // two kDouble children: real, imaginary
  kGenerator = 11,   // value: string id, its device; state is not kept, random results are
  kWrappedInt = 12,  // a wrapped number with its value; no storage of its own
  kWrappedDouble = 13,
  kWrappedBool = 14,
  kUnstorable = 15,  // value: string id, the reason; the call can't be executed again
  kStorage = 16,     // value: storage id; memory without a geometry, as set_ takes it
};

// One item of a call's arguments or results, in pre-order.
struct Node {
  NodeKind kind = NodeKind::kNone;
  std::uint32_t version = 0;
  std::int64_t value = 0;
  bool operator==(const Node&) const = default;
};

enum WriteFlag : std::uint8_t {
  kWriteHashed = 1,
  kWriteStats = 2,
  kWriteValue = 4,       // the bytes are in a values chunk under `hash`
  kWriteDecision = 8,    // integers or booleans computed from floats: control, not arithmetic
  kWriteUndefined = 16,  // memory that no computation filled (empty, resize_): no digest
  kWriteSketch = 32,
};

// Bytes that a call brought into being: a fresh result, or an argument that it wrote into.
struct Write {
  std::uint32_t tensor = 0;
  std::uint32_t version = 0;  // the storage's write counter after the call; the first write makes 1
  std::uint8_t flags = 0;
  Hash128 hash;                    // when kWriteHashed
  std::uint32_t stats_index = 0;   // into ProgramChunk::stats, when kWriteStats
  std::uint32_t sketch_index = 0;  // into ProgramChunk::sketches, when kWriteSketch
  bool operator==(const Write&) const = default;
};

enum CallFlag : std::uint8_t {
  kCallNotExecutable = 1,  // an argument is kUnstorable
  kCallFailed = 2,         // it threw; there are no results
  kCallRandom = 4,         // draws from a generator: its results are kept by value
  kCallLost = 16,          // stands for a call that was lost; nothing is known of it
  kCallForeign = 8,  // no call of PyTorch: a tensor that an engine gave under a name, its scope
};

struct Call {
  std::uint32_t op = 0;
  std::uint32_t scope = 0;
  std::uint32_t step = 0;  // 0 is the prefill
  std::uint32_t ambient = 0;
  std::uint8_t flags = 0;
  std::uint16_t arguments = 0;  // top-level nodes; results follow arguments in `nodes`
  std::uint16_t results = 0;
  std::uint16_t writes = 0;
  std::uint32_t first_node = 0;    // into ProgramChunk::nodes
  std::uint32_t end_node = 0;      // one past the last result's last node
  std::uint32_t first_result = 0;  // node index where results begin
  std::uint32_t first_write = 0;   // into ProgramChunk::writes
  bool operator==(const Call&) const = default;
};

enum class ExternalKind : std::uint8_t {
  kFirstRead = 0,  // bytes that no recorded call had written when they were first read
  kHole = 1,       // bytes that changed with no recorded write (numpy, a custom kernel)
  kRepeated = 2,   // what the program has computed: kept so that a call can be looked at alone
};

// An input of the program: before call `call`, `storage` holds the bytes stored under `hash`.
struct External {
  std::uint64_t call = 0;
  std::uint32_t storage = 0;
  std::uint32_t version = 0;
  ExternalKind kind = ExternalKind::kFirstRead;
  Hash128 hash;  // of the whole storage's bytes
  bool operator==(const External&) const = default;
};

// Which part of a logical tensor this rank holds; tensors without an entry are replicated.
struct TensorPlacement {
  std::uint32_t tensor = 0;
  Placement placement;
  bool operator==(const TensorPlacement&) const = default;
};

// How a tensor's elements are laid out, in the words of the engine: "heads interleaved q, gate".
struct TensorLayout {
  std::uint32_t tensor = 0;
  std::uint32_t text = 0;  // string id
  bool operator==(const TensorLayout&) const = default;
};

// Rows of one tensor, where they are not those of its step.
struct TensorRow {
  std::uint32_t tensor = 0;
  Row row;
  bool operator==(const TensorRow&) const = default;
};

// When and where a call ran. Kept apart from the program: equal programs have equal program chunks.
struct Timing {
  std::uint32_t thread = 0;    // first-seen number, never an operating-system id
  std::uint64_t start_ns = 0;  // since the recording began
  std::uint64_t duration_ns = 0;
  bool operator==(const Timing&) const = default;
};

// How far rounding alone moves the oracle's outputs: relative L2 distances between it and runs of
// the same model that round otherwise, an entry for each write of the calls from `base_calls` on.
// NaN where nothing was measured.
struct Bands {
  std::uint64_t base_calls = 0;
  std::vector<float> typical;  // the median of the runs
  std::vector<float> largest;
  bool operator==(const Bands&) const = default;
};

// How many definitions of each kind come before a chunk, and the number of its first call.
struct ProgramBase {
  std::uint64_t calls = 0;
  std::uint32_t strings = 0;
  std::uint32_t operators = 0;
  std::uint32_t scopes = 0;
  std::uint32_t geometries = 0;
  std::uint32_t storages = 0;
  std::uint32_t tensors = 0;
  std::uint32_t ambients = 0;
  bool operator==(const ProgramBase&) const = default;
};

struct ProgramChunk {
  ProgramBase base;
  std::vector<std::string> strings;
  std::vector<Operator> operators;
  std::vector<std::string> scopes;  // dotted module paths; "" is outside every module
  std::vector<Geometry> geometries;
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
  std::vector<Ambient> ambients;

  std::vector<External> externals;  // ordered by call
  std::vector<Call> calls;
  std::vector<Node> nodes;
  std::vector<Write> writes;
  std::vector<Stats> stats;
  std::vector<Sketch> sketches;
  std::vector<TensorPlacement> placements;
  std::vector<TensorLayout> layouts;
  std::vector<TensorRow> rows;
  std::vector<Timing> timings;  // one a call; travels in its own chunk

  // The base of the chunk that follows this one.
  [[nodiscard]] ProgramBase next_base() const;
  // Empties every list; memory is kept.
  void clear();
};

}  // namespace goldentrace
