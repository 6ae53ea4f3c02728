#define GOLDENTRACE_LEAF_HASH leaf_hash_avx512
#define GOLDENTRACE_XXH3 xxh3_avx512
#include "src/digest/leaf_hash.inc"
