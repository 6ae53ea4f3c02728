#define GOLDENTRACE_LEAF_HASH leaf_hash_avx2
#define GOLDENTRACE_XXH3 xxh3_avx2
#include "src/digest/leaf_hash.inc"
