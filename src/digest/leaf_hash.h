// The leaves of `hash`: XXH3-64 of whole blocks, by the widest instruction set of this machine.
#pragma once

#include <stddef.h>  // C headers: see leaf_hash.inc
#include <stdint.h>

namespace goldentrace {

// `blocks` are `count` blocks of 4,096 bytes, one after the other; `leaves` has room for `count`.
using LeafHash = void (*)(const unsigned char* blocks, size_t count, uint64_t* leaves);

LeafHash leaf_hash();  // chosen once

void leaf_hash_baseline(const unsigned char* blocks, size_t count, uint64_t* leaves);
void leaf_hash_avx2(const unsigned char* blocks, size_t count, uint64_t* leaves);
void leaf_hash_avx512(const unsigned char* blocks, size_t count, uint64_t* leaves);

}  // namespace goldentrace
