#include "src/digest/leaf_hash.h"

namespace goldentrace {

LeafHash leaf_hash() {
#if defined(GOLDENTRACE_LEAF_HASH_X86)
  if (__builtin_cpu_supports("avx512f") != 0) return leaf_hash_avx512;
  if (__builtin_cpu_supports("avx2") != 0) return leaf_hash_avx2;
#endif
  return leaf_hash_baseline;  // NEON, where the compiler takes it for granted
}

Xxh3 xxh3() {
#if defined(GOLDENTRACE_LEAF_HASH_X86)
  if (__builtin_cpu_supports("avx512f") != 0) return xxh3_avx512;
  if (__builtin_cpu_supports("avx2") != 0) return xxh3_avx2;
#endif
  return xxh3_baseline;
}

}  // namespace goldentrace
