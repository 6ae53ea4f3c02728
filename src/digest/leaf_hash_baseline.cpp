#define GOLDENTRACE_LEAF_HASH leaf_hash_baseline
#include "src/digest/leaf_hash.inc"
