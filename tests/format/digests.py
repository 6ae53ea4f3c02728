"""The digests of schema/FORMAT.md, section 11, in plain Python: slow, and meant to be read."""

import math
import struct

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
    if dtype == "bfloat16":
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    code = {"float16": "e", "bfloat16": "f", "float32": "f", "float64": "d"}[dtype]
    elements = [x for x, in struct.iter_unpack("<" + code, data)]
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
