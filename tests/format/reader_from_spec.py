"""A reader of goldentrace files, from schema/FORMAT.md and schema/trace.fbs and nothing else.

It is the proof that the page is enough, and a model for a reader in another language: it checks all
that the page demands before it believes it, and says which rule of the page is broken. Sections are
the page's.

    python tests/format/reader_from_spec.py FILE      prints the text form (section 12)
"""

import json
import math
import pathlib
import struct
import sys
import types

import xxhash

from container import (CHUNK_HEADER, FILE_HEADER, FOOTER, Unsupported, check_stored, check_sum,
                       chunk_at, decode, footer_of, version_of)
from digests import Hash
from flatbuffer import Corrupt, FlatBuffer, demand

RANK_LIMIT, NODE_LIMIT, ELEMENT_LIMIT = 64, 16, 1 << 63
HEADER, PROGRAM, TIMING, SUMMARY, INDEX = 1, 2, 3, 7, 8
ROOTS = {1: "Header", 2: "Program", 3: "Timing", 4: "Parameters", 5: "Text", 6: "Values",
         7: "Summary", 8: "Index", 9: "Bands"}
NO_HASH = "0" * 32
DTYPE_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 8: 4, 9: 8, 10: 16, 11: 1, 15: 2,
               23: 1, 24: 1, 25: 1, 26: 1, 27: 2, 28: 4, 29: 8}
DEFINED = ("strings", "operators", "scopes", "geometries", "storages", "tensors", "ambients")
NODES = {0: "none", 2: "undefined", 3: "int", 5: "bool", 14: "wrapped_bool"}
NODES_OF_IDS = {6: ("string", "strings"), 7: ("device", "strings"), 11: ("generator", "strings"),
                15: ("unstorable", "strings"), 16: ("storage", "storages")}


def known(number, numbers, what):
    if number not in numbers:
        raise Unsupported(f"{what} {number}")


# ---- Section 1: whole files and cut ones ---------------------------------------------------------

def read(data):
    """The text form of a whole or a cut file, a list of objects. Raises Corrupt or Unsupported."""
    version, index_offset = version_of(data), footer_of(data)
    if index_offset is None:
        return read_cut(data, Trace(version, cut=True))
    return read_whole(data, Trace(version, cut=False), index_offset)


def read_whole(data, trace, index_offset):
    end = len(data) - FOOTER
    demand(FILE_HEADER <= index_offset <= end - CHUNK_HEADER,
           "no index chunk where the footer says", 3)
    last = chunk_at(data, index_offset, end)
    demand(last.kind == INDEX and last.end == end, "no index chunk where the footer says", 3)
    chunks, at = [], FILE_HEADER
    while at < index_offset:
        chunks.append(chunk_at(data, at, index_offset))
        at = chunks[-1].end
    check_sum(chunks + [last])
    index, index_text = open_chunk(data, last)
    demand([[c.offset, c.stored_size, c.raw_size, c.kind, c.codec] for c in chunks]
           == [entry[:3] + entry[6:] for entry in index.chunks],
           "chunks are not those of the index", 6)
    demand([c.sequence for c in chunks + [last]] == list(range(len(chunks) + 1)),
           "sequence numbers", 6)
    kinds = [c.kind for c in chunks]
    demand(kinds[:1] == [HEADER]
           and [kinds.count(kind) for kind in (HEADER, SUMMARY, INDEX)] == [1, 1, 0],
           "not one header in first place, one summary and one index", 7)
    out = []
    for chunk, entry in zip(chunks, index.chunks):
        root, text = open_chunk(data, chunk)
        demand(entry[3] in (text["content"], NO_HASH) or text["content"] == "unknown",
               "content hash", 5)
        out.append({**text, **trace.take(chunk, root)})
        if chunk.kind in ROOTS:
            demand(entry[4:6] == calls_of(chunk, root),
                   f"calls of chunk {chunk.sequence} in the index")
    trace.finish(index.values)
    return out + [{**index_text, "chunks": index.chunks, "values": index.values}]


def calls_of(chunk, root):
    """First call and number of calls, as the index gives them."""
    column = {PROGRAM: "call_operator", TIMING: "thread"}.get(chunk.kind)
    return [root.base_calls, len(getattr(root, column))] if column else [0, 0]


def read_cut(data, trace):
    out, at, chunks, kinds = [], FILE_HEADER, [], []
    try:
        while INDEX not in kinds:
            chunk = chunk_at(data, at, len(data))
            chunks.append(chunk)
            if chunk.kind != INDEX:
                check_sum(chunks)
            demand(chunk.sequence == len(out), "sequence number", 6)
            demand((chunk.kind == HEADER) == (not out),
                   "no header in first place, or a second one", 7)
            demand(chunk.kind != SUMMARY or SUMMARY not in kinds, "a second summary", 7)
            if chunk.kind == INDEX:
                check_stored(data, chunk)
            else:
                root, text = open_chunk(data, chunk)
                out.append({**text, **trace.take(chunk, root)})
            kinds.append(chunk.kind)
            at = chunk.end
    except Corrupt as error:
        demand(out, f"neither a footer nor a first chunk ({error})", 2)
    return out + [{"cut": at}]


def open_chunk(data, chunk):
    """The root table, None for an unknown kind; and what every chunk has in the text form."""
    raw = decode(check_stored(data, chunk), chunk)
    if raw is None and chunk.kind in ROOTS:
        raise Unsupported(f"codec {chunk.codec}")
    root = FlatBuffer(raw).root(ROOTS[chunk.kind]) if chunk.kind in ROOTS else None
    return root, {"chunk": chunk.sequence, "kind": chunk.kind, "codec": chunk.codec,
                  "item_size": chunk.item_size, "stored_size": chunk.stored_size,
                  "raw_size": chunk.raw_size,
                  "content": "unknown" if raw is None else xxhash.xxh3_128_hexdigest(raw)}


# ---- Sections 2 to 10: what the chunks mean ------------------------------------------------------

END = object()


def rows(table, *columns):
    """Columns that must be equally long, as rows from the first to the last."""
    got = [getattr(table, column) for column in columns]
    demand(len({len(column) for column in got}) == 1,
           f"{columns[0]} and its fellows differ in length")
    return zip(*got)


def take(column):
    item = next(column, END)
    demand(item is not END, "a column is too short")
    return item


def used_up(column):
    demand(next(column, END) is END, "a column is too long")


def as_lists(tables):
    return [list(vars(table).values()) for table in tables]


def check_row(position, count):
    demand(position + count < 1 << 63, f"rows from position {position} on")


def check_placement(kind, dim, index, count):
    known(kind, (0, 1, 2), "placement kind")
    demand(kind == 0 or index < count, f"shard or summand {index} of {count}")


class Trace:
    """What the chunks so far have defined."""

    def __init__(self, version, cut):
        self.version, self.cut = version, cut
        self.defined = dict.fromkeys(DEFINED, 0)
        self.geometries, self.storages = [], []
        self.calls = self.timed = 0
        self.banded = -1
        self.stored = {}  # hash of a value -> what has been seen of it
        self.parts = []   # as in the index

    def take(self, chunk, root):
        """The members of the chunk's text form, after all that the page demands of it."""
        self.chunk = chunk.sequence
        return getattr(self, ROOTS[chunk.kind].lower())(root) if chunk.kind in ROOTS else {}

    def check_ids(self, what, *ids):
        for number in ids:
            demand(0 <= number < self.defined[what], f"{number} is no id of {what}")

    def header(self, header):
        demand((header.major, header.minor) == self.version,
               "version of file and header chunk differ", 8)
        return {**vars(header), "environment": as_lists(header.environment),
                "modules": as_lists(header.modules)}

    def program(self, p):
        base = [p.base_calls] + [getattr(p, "base_" + what) for what in DEFINED]
        demand(base == [self.calls, *self.defined.values()], "bases: a chunk is missing")
        extent = iter(p.geometry_extent)
        demand(max(p.geometry_rank, default=0) <= RANK_LIMIT, "too many dimensions", 9)
        geometries = [[[take(extent) for _ in range(rank)] for _ in ("sizes", "strides")]
                      for rank in p.geometry_rank]
        used_up(extent)
        storages = list(rows(p, "storage_bytes", "storage_device"))
        tensors = list(rows(p, "tensor_storage", "tensor_geometry", "tensor_dtype", "tensor_flags",
                            "tensor_offset"))
        self.geometries += geometries
        self.storages += [size for size, _ in storages]
        new = p.strings, p.operators, p.scopes, geometries, storages, tensors, p.ambients
        for what, column in zip(DEFINED, new):
            self.defined[what] += len(column)
        self.check_ids("strings", *(device for _, device in storages))
        for tensor in tensors:
            self.check_tensor(*tensor)
        for ambient in p.ambients:
            known(ambient.autocast_dtype, DTYPE_BYTES, "dtype")
            known(ambient.default_dtype, DTYPE_BYTES, "dtype")
        for _, *placement in p.tensor_placement:
            check_placement(*placement)
        self.check_ids("tensors", *(
            row[0] for row in p.tensor_placement + p.tensor_layout + p.tensor_row))
        self.check_ids("strings", *(text for _, text in p.tensor_layout))
        for _, _, _, count, position in p.tensor_row:
            check_row(position, count)
        externals = self.externals(p)
        calls = Calls(self, p).read()
        self.calls += len(calls)
        return {"base": base, "strings": p.strings, "operators": as_lists(p.operators),
                "scopes": p.scopes, "geometries": geometries, "storages": storages,
                "tensors": tensors, "ambients": as_lists(p.ambients), "externals": externals,
                "calls": calls, "placements": p.tensor_placement, "layouts": p.tensor_layout,
                "rows": p.tensor_row}

    def check_tensor(self, storage, geometry, dtype, flags, offset):
        self.check_ids("storages", storage)
        self.check_ids("geometries", geometry)
        known(dtype, DTYPE_BYTES, "dtype")
        sizes, strides = self.geometries[geometry]
        demand(min([offset, *sizes, *strides]) >= 0, "negative size, stride or offset")
        last, elements = offset, 1
        for size, stride in zip(sizes, strides):
            last, elements = last + (size - 1) * stride, elements * size
        demand(elements == 0 or elements < ELEMENT_LIMIT
               and (last + 1) * DTYPE_BYTES[dtype] <= self.storages[storage],
               "a tensor outside its storage")

    def externals(self, p):
        out, before = [], 0
        for call, storage, version, kind, digest in rows(
                p, "external_call", "external_storage", "external_version", "external_kind",
                "external_hash"):
            known(kind, (0, 1, 2), "external kind")
            self.check_ids("storages", storage)
            demand(before <= call <= len(p.call_operator), f"external input before call {call}")
            before = call
            out.append([p.base_calls + call, storage, version, kind, digest])
        return out

    def timing(self, timing):
        demand(timing.base_calls == self.timed, "timing chunks leave calls out")
        timings = list(rows(timing, "thread", "start_ns", "duration_ns"))
        self.timed += len(timings)
        return {"base_calls": timing.base_calls, "timings": timings}

    def bands(self, bands):
        demand(bands.base_calls > self.banded, "bands are not in the order of their calls")
        self.banded = bands.base_calls
        for pair in rows(bands, "typical", "largest"):
            typical, largest = (struct.unpack(">f", bytes.fromhex(x))[0] for x in pair)
            measured = not (math.isnan(typical) and math.isnan(largest))
            demand(not measured or 0 <= typical <= largest < math.inf, "a band that is no distance")
        return {"base_calls": bands.base_calls, "typical": bands.typical, "largest": bands.largest}

    def parameters(self, parameters):
        for entry in parameters.entries:
            known(entry.kind, (0, 1), "parameter kind")
            known(entry.recipe, range(7), "recipe")
            entry.placement = entry.placement or [0, 0, 0, 1]
            check_placement(*entry.placement)
            self.check_ids("tensors", entry.tensor)
            demand(entry.hash is not None, f"parameter {entry.name} has no hash")
            demand(entry.sources or entry.recipe in (0, 6), f"parameter {entry.name} has no source")
        return {"entries": [vars(entry) for entry in parameters.entries]}

    def text(self, text):
        for request in text.requests:
            demand(len(request.prompt_pieces) in (0, len(request.prompt_ids)), "prompt_pieces")
            demand(len(request.output_pieces) in (0, len(request.output_ids)), "output_pieces")
            request.sampling = as_lists(request.sampling)
        for step in text.steps:
            known(step.logprob_kind, (0, 1), "logprob kind")
            demand(len({row.request for row in step.rows}) <= 1,
                   "rows of two requests in one step entry")
            for column in (step.top_logits, step.top_logprobs, step.top_pieces):
                demand(len(column) in (0, len(step.top_ids)), "columns of top_ids differ in length")
            for row in step.rows:
                check_row(row.position, row.count)
            step.rows = as_lists(step.rows)
        return {name: [vars(entry) for entry in getattr(text, name)]
                for name in ("requests", "steps")}

    def values(self, values):
        at = 0
        for digest, total, offset, length in values.parts:
            self.add_part(digest, total, offset, values.data[at:at + length])
            self.parts.append([digest, offset, length, self.chunk])
            at += length
        demand(at == len(values.data), "the lengths of the parts do not add up to their data")
        return {"parts": values.parts}

    def add_part(self, digest, total, offset, data):
        seen = self.stored.setdefault(
            digest, types.SimpleNamespace(hash=Hash(), whole=False, total=total))
        demand(self.cut or not seen.whole, f"value {digest} is stored twice")
        demand(self.cut or seen.total == total, f"another total in a part of value {digest}")
        demand(offset + len(data) <= total and (data or total == 0),
               f"part at {offset} of value {digest}")
        demand(self.cut or offset == seen.hash.size,
               f"a part before {offset} of value {digest} is missing")
        if offset == seen.hash.size and not seen.whole:
            seen.hash.add(data)
            seen.whole = seen.hash.size == total
            demand(not seen.whole or seen.hash.hexdigest() == digest,
                   f"bytes under {digest} hash otherwise")

    def summary(self, summary):
        return {**vars(summary), "counters": as_lists(summary.counters)}

    def finish(self, index):
        """What must hold of whole files only."""
        demand(all(value.whole for value in self.stored.values()), "a value without its last part")
        order = sorted(self.parts, key=lambda part: (part[0][16:], part[0][:16], part[1]))
        demand(index == order, "the index does not list the parts of values in order")


class Calls:
    """The calls of one program chunk. Takes the columns of nodes and writes from their fronts."""

    def __init__(self, trace, program):
        self.trace, self.program = trace, program
        self.high = program.base_tensors
        self.nodes = rows(program, "node_kind", "node_value")
        self.wide, self.versions = iter(program.node_wide), iter(program.node_version)
        self.writes = rows(program, "write_tensor", "write_version", "write_flags")
        self.hashes = iter(program.write_hash)
        self.stats = rows(program, *(c for c in vars(program) if c.startswith("stats_")))
        demand(len(program.write_sketch) % 64 == 0, "a sketch is cut")
        self.sketches = iter([program.write_sketch[i:i + 64]
                              for i in range(0, len(program.write_sketch), 64)])

    def read(self):
        out = []
        for operator, scope, step, ambient, flags, arguments, results, writes in rows(
                self.program, *(c for c in vars(self.program) if c.startswith("call_"))):
            self.trace.check_ids("operators", operator)
            self.trace.check_ids("scopes", scope)
            self.trace.check_ids("ambients", ambient)
            out.append({"op": operator, "scope": scope, "step": step, "ambient": ambient,
                        "flags": flags,
                        "arguments": [self.node(0) for _ in range(arguments)],
                        "results": [self.node(0) for _ in range(results)],
                        "writes": [self.write() for _ in range(writes)]})
        for column in (self.nodes, self.wide, self.versions, self.writes, self.hashes, self.stats,
                       self.sketches):
            used_up(column)
        return out

    def tensor(self, number):
        self.trace.check_ids("tensors", number)
        self.high = max(self.high, number)
        return number

    def node(self, above):
        demand(above <= NODE_LIMIT, "too many nodes above a node", 9)
        kind, value = take(self.nodes)
        if kind in NODES:
            return [NODES[kind]] + ([value] if kind >= 3 else [])
        if kind in (1, 64):
            return ["tensor", self.tensor(self.high - value if kind == 64 else value),
                    take(self.versions)]
        if kind in (4, 13):
            return ["double" if kind == 4 else "wrapped_double",
                    f"{take(self.wide) & (1 << 64) - 1:016x}"]
        if kind in (12, 65):
            return ["int" if kind == 65 else "wrapped_int", take(self.wide)]
        if kind in (8, 9):
            demand(value >= 0, "a list of less than no items")
            return ["list" if kind == 8 else "tuple", [self.node(above + 1) for _ in range(value)]]
        if kind == 10:
            real, imaginary = self.node(above + 1), self.node(above + 1)
            demand(real[0] == imaginary[0] == "double",
                   "a complex number of other things than doubles")
            return ["complex", real[1], imaginary[1]]
        known(kind, NODES_OF_IDS, "node kind")
        name, what = NODES_OF_IDS[kind]
        self.trace.check_ids(what, value)
        return [name, value]

    def write(self):
        distance, version, flags = take(self.writes)
        out = [self.tensor(self.high - distance), version, flags,
               take(self.hashes) if flags & 1 else None,
               take(self.stats) if flags & 2 else None]
        return out + [take(self.sketches)] if flags & 32 else out


# ---- Section 12: the text form -------------------------------------------------------------------

def main(path):
    try:
        lines = read(pathlib.Path(path).read_bytes())
    except (Corrupt, Unsupported, OSError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    for line in lines:
        print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
