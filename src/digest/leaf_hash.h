// The leaves of `hash`, XXH3-64 of whole blocks, and XXH3-64 of anything, by the widest instruction
// set of this machine.
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

using Xxh3 = uint64_t (*)(const unsigned char* bytes, size_t size);

Xxh3 xxh3();  // likewise

uint64_t xxh3_baseline(const unsigned char* bytes, size_t size);
uint64_t xxh3_avx2(const unsigned char* bytes, size_t size);
uint64_t xxh3_avx512(const unsigned char* bytes, size_t size);

}  // namespace goldentrace
