"""The container of schema/FORMAT.md, section 1: file header, footer, chunks and codecs.

Knows nothing of what chunks hold. Nothing is allocated by a size that was not checked before.
"""

import struct
import types

import xxhash
import zstandard

from flatbuffer import Corrupt, demand

MAGIC, END_MAGIC, MARKER = b"\x89GTRC\r\n\x1a", b"GTRCEND\n", b"GTCK"
FILE_HEADER, CHUNK_HEADER, FOOTER = 16, 40, 24
CHUNK_LIMIT = 256 << 20
PROGRAM_LIMIT = 16 << 20  # of kinds 2 and 3
EXPANSION = 32768
VALUES, LAST_KIND = 6, 8


class Unsupported(Exception):
    """The file is whole, but a later version has written something that this reader does not know."""


def version_of(data):
    demand(data[:8] == MAGIC and len(data) >= FILE_HEADER, "not a goldentrace file", 1)
    major, minor, reserved = struct.unpack_from("<HHI", data, 8)
    if major > 1:
        raise Unsupported(f"major version {major}")
    demand(major == 1 and reserved == 0, "file header", 1)
    return major, minor


def footer_of(data):
    """The index offset that the footer gives; None without a footer."""
    if len(data) < FILE_HEADER + FOOTER:
        return None
    offset, checksum, magic = struct.unpack("<QQ8s", data[-FOOTER:])
    right = checksum == xxhash.xxh3_64_intdigest(data[-FOOTER:][:8])
    return offset if magic == END_MAGIC and right else None


def chunk_at(data, at, limit):
    """The chunk whose header is at `at`; it must end at `limit` or before."""
    demand(at + CHUNK_HEADER <= limit, f"no chunk header at {at}", 4)
    head = data[at:at + CHUNK_HEADER]
    marker, kind, codec, item_size, reserved, stored_size, raw_size, checksum, sequence, own = struct.unpack(
        "<4sBBBBQQQII", head)
    demand(marker == MARKER and own == xxhash.xxh3_64_intdigest(head[:36]) & 0xFFFFFFFF and reserved == 0
           and max(stored_size, raw_size) <= (PROGRAM_LIMIT if kind in (2, 3) else CHUNK_LIMIT)
           and (codec not in (1, 2) or raw_size <= EXPANSION * stored_size), f"chunk header at {at}", 4)
    end = at + CHUNK_HEADER + stored_size
    demand(end <= limit, f"the chunk at {at} reaches to {end}, over {limit}", 4)
    return types.SimpleNamespace(offset=at, end=end, kind=kind, codec=codec, item_size=item_size,
                                 stored_size=stored_size, raw_size=raw_size, checksum=checksum,
                                 sequence=sequence)


def check_sum(chunks):
    """Of what the chunks from the first on decode to."""
    total = 0
    for chunk in chunks:
        if chunk.kind != VALUES and 1 <= chunk.kind <= LAST_KIND:
            total += chunk.raw_size
            demand(total <= (64 << 20) + 64 * chunk.end, f"raw bytes up to chunk {chunk.sequence}", 4)


def check_stored(data, chunk):
    stored = data[chunk.offset + CHUNK_HEADER:chunk.end]
    demand(xxhash.xxh3_64_intdigest(stored) == chunk.checksum, f"stored bytes of chunk {chunk.sequence}", 5)
    return stored


def decode(stored, chunk):
    """The raw bytes; None when the codec is unknown."""
    if chunk.codec > 2:
        return None
    width = chunk.item_size
    demand(width in ((1, 2, 4, 8) if chunk.codec == 2 else (0,)), f"item size {width}", 5)
    if chunk.codec == 0:
        demand(chunk.stored_size == chunk.raw_size, "stored as they are, but in another size", 5)
        return stored
    return unzstd(stored, chunk.raw_size) if chunk.codec == 1 else join(stored, chunk.raw_size, width)


def unzstd(stored, size):
    try:
        # The frame may say its size, or not (-1). Decoding allocates what it says: it is checked first.
        if zstandard.frame_content_size(stored) in (-1, size):
            decoder = zstandard.ZstdDecompressor(max_window_size=CHUNK_LIMIT)
            raw = decoder.decompress(stored, max_output_size=size, allow_extra_data=False)
            if len(raw) == size:
                return raw
    except zstandard.ZstdError:
        pass
    raise Corrupt(5, f"not one zstd frame of {size} bytes")


def join(stored, raw_size, width):
    """Puts planes together."""
    demand(len(stored) >= 4 * width, "planes without sizes", 5)
    sizes, at = struct.unpack_from(f"<{width}I", stored), 4 * width
    demand(at + sum(sizes) == len(stored), "planes end before or after the stored bytes", 5)
    raw = bytearray(raw_size)
    for plane, size in enumerate(sizes):
        count = len(range(plane, raw_size, width))
        demand(size <= count, f"a plane of {count} bytes is stored in {size}", 5)
        part = stored[at:at + size]
        raw[plane::width] = part if size == count else unzstd(part, count)
        at += size
    return bytes(raw)
