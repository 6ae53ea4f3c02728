#define GOLDENTRACE_LEAF_HASH leaf_hash_baseline
#define GOLDENTRACE_XXH3 xxh3_baseline
#include "src/digest/leaf_hash.inc"
