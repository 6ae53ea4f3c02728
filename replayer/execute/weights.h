// Rebuilds a program's parameters from a checkpoint by their recorded recipes, and proves each by
// hash.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "replayer/execute/memory.h"
#include "src/base/status.h"
#include "src/event/run.h"
#include "src/format/safetensors.h"
#include "src/format/trace_reader.h"

namespace goldentrace {

// The checkpoint that `trace` was recorded from: a folder, a .safetensors file, or several of them
// with ':' between. Of several the first is taken that has every source of the parameters, and
// gives a few of them their hashes. kNotFound says of each what it lacks.
Result<Checkpoint> find_weights(const std::string& path, const TraceReader& trace);

// Bits depend on where in memory a weight begins, and a checkpoint promises 8 bytes.
enum class Alignment : std::uint8_t {
  kAny,   // as it lies in the checkpoint's file
  kFull,  // as recorded; what lies elsewhere is copied
};

// Puts a parameter into every memory; false when its bytes are not those recorded. Not ok when a
// source is missing from the checkpoint, or a stored value from the trace. `checkpoint` must
// outlive the memories, which may look into its file.
Result<bool> load_parameter(const TraceReader& trace, const Parameter& parameter,
                            const Checkpoint& checkpoint, const Dictionary& dictionary,
                            std::span<Memory* const> memories, Alignment alignment);

}  // namespace goldentrace
