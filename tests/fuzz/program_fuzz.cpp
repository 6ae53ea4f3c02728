#include <cstring>

#include "src/event/dictionary.h"
#include "tests/fuzz/fuzz.h"

using namespace goldentrace;

namespace {

// What absorb() has let through may be walked and described.
void walk(const Dictionary& dictionary, const ProgramChunk& chunk) {
  std::size_t node = 0;
  for (const Call& call : chunk.calls) {
    (void)dictionary.describe_op(call.op);
    for (int i = 0; i < call.arguments; ++i) node = skip_node(chunk.nodes, node);
    fuzz::require(node == call.first_result, "arguments end where results begin");
    for (int i = 0; i < call.results; ++i) node = skip_node(chunk.nodes, node);
    fuzz::require(node == call.end_node, "results end where the call does");
  }
  for (std::size_t i = 0; i < chunk.nodes.size(); ++i) {
    fuzz::require(chunk.nodes[i].kind != NodeKind::kComplex ||
                      (chunk.nodes[i + 1].kind == NodeKind::kDouble &&
                       chunk.nodes[i + 2].kind == NodeKind::kDouble),
                  "a complex number is two doubles");
  }
  for (const Write& write : chunk.writes) {
    (void)dictionary.describe_tensor(write.tensor);
    (void)is_dense(dictionary.geometry_of(write.tensor));
  }
}

bool equal(const ProgramChunk& left, const ProgramChunk& right) {
  return left.base == right.base && left.strings == right.strings &&
         left.operators == right.operators && left.scopes == right.scopes &&
         left.geometries == right.geometries && left.storages == right.storages &&
         left.tensors == right.tensors && left.ambients == right.ambients &&
         left.externals == right.externals && left.calls == right.calls &&
         left.nodes == right.nodes && left.writes == right.writes &&
         left.placements == right.placements && left.layouts == right.layouts &&
         left.rows == right.rows && left.sketches.size() == right.sketches.size() &&
         (left.sketches.empty() || std::memcmp(left.sketches.data(), right.sketches.data(),
                                               left.sketches.size() * sizeof(Sketch)) == 0) &&
         left.stats.size() == right.stats.size() &&
         // NaN is not equal to itself: stats are compared by their bytes.
         (left.stats.empty() || std::memcmp(left.stats.data(), right.stats.data(),
                                            left.stats.size() * sizeof(Stats)) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto chunk = decode_program(fuzz::bytes_of(data, size));
  if (!chunk.ok()) return 0;
  Dictionary dictionary;
  if (!dictionary.absorb(*chunk).ok()) return 0;
  walk(dictionary, *chunk);
  // The chunk after it: its ids are all taken for defined ones.
  (void)dictionary.absorb(*chunk);

  const auto again = decode_program(encode_program(*chunk));
  fuzz::require(again.ok() && equal(*again, *chunk), "a program comes back as it was written");
  return 0;
}
