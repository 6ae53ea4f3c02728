"""The digests of schema/FORMAT.md, section 11, in plain Python: slow, and meant to be read."""

import math
import struct

import numpy
import xxhash

BLOCK = 4096


class Hash:
    """`hash` of bytes that come in pieces. Keeps one block and 8 bytes for each block before it."""

    def __init__(self):
        self.leaves, self.rest, self.size = bytearray(), b"", 0

    def add(self, data):
        self.size += len(data)
        data = self.rest + data
        whole = len(data) - len(data) % BLOCK
        for at in range(0, whole, BLOCK):
            self.leaves += self.leaf(data[at:at + BLOCK])
        self.rest = data[whole:]
        return self

    def hexdigest(self):
        last = self.leaf(self.rest.ljust(BLOCK, b"\0")) if self.rest else b""
        return xxhash.xxh3_128_hexdigest(self.leaves + last + self.size.to_bytes(8, "little"))

    @staticmethod
    def leaf(block):
        return xxhash.xxh3_64_intdigest(block).to_bytes(8, "little")


def hash(data):  # the page's own word
    return Hash().add(data).hexdigest()


def stats(data, dtype):
    """The ten figures of the dense bytes of a real float: count, nan, ... sum_squares."""
    elements = elements_of(data, dtype)
    kinds = [kind_of(x) for x in elements]
    ordinary = [x for x, kind in zip(elements, kinds) if kind in ("zero", None)]
    total = squares = 0.0
    for start in range(0, len(elements), 4096):
        lanes, square_lanes = [0.0] * 64, [0.0] * 64
        for i in range(start, min(start + 4096, len(elements))):
            if kinds[i] in ("zero", None):
                lanes[(i - start) % 64] += elements[i]
                square_lanes[(i - start) % 64] += elements[i] * elements[i]
        total += in_order(lanes)
        squares += in_order(square_lanes)
    counts = [kinds.count(kind) for kind in ("nan", "+inf", "-inf", "sentinel", "zero")]
    low, high = min(ordinary, default=0.0), max(ordinary, default=0.0)
    return [len(elements), *counts, low + 0.0, high + 0.0, total, squares]  # -0 + 0 is +0


def elements_of(data, dtype):
    if dtype == "bfloat16":
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    code = {"float16": "e", "bfloat16": "f", "float32": "f", "float64": "d"}[dtype]
    return [x for x, in struct.iter_unpack("<" + code, data)]


def kind_of(x):
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "+inf" if x > 0 else "-inf"
    return "sentinel" if abs(x) >= 1e30 else "zero" if x == 0 else None


def in_order(numbers):
    total = 0.0
    for number in numbers:  # not sum(): newer Pythons compensate its errors
        total += number
    return total


def sketch(data, dtype):
    """The 64 sums of the dense bytes of a real float, as float32."""
    ordinary = [x if kind_of(x) in ("zero", None) else 0.0 for x in elements_of(data, dtype)]
    elements = numpy.array(ordinary, numpy.float64).astype(numpy.float32)
    k = numpy.arange(64)
    total = numpy.zeros(64, numpy.float64)
    for s in range(-(-len(elements) // 4096)):
        signs, places = splitmix64(64 + 2 * s), splitmix64(65 + 2 * s)
        place, first = places % 64, places >> 58
        sums = numpy.zeros(64, numpy.float32)
        superblock = elements[4096 * s:4096 * (s + 1)]
        for p in range(-(-len(superblock) // 64)):
            block = superblock[64 * p:64 * (p + 1)]
            lane = k[:len(block)]
            sums[lane ^ reverse(p)] += block * factors(splitmix64(p ^ first))[lane]
        total[k ^ place] += sums.astype(numpy.float64) * factors(signs)
    return total.astype(numpy.float32)


def splitmix64(index):
    z = (index + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def reverse(block):
    """Its six bits in the other order."""
    return int(f"{block:06b}"[::-1], 2)


def factors(signs):
    """-1 where the bit is set, else +1."""
    return numpy.array([-1 if signs >> bit & 1 else 1 for bit in range(64)], numpy.float32)
