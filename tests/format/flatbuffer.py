"""FlatBuffers read by their schema, with every offset checked. Knows nothing of goldentrace's container.

The FlatBuffers package for Python has no verifier, so this is one: it checks what section 1 of
schema/FORMAT.md ("FlatBuffers") demands while it reads. A table becomes an object with all fields of the
schema, in its order. Values have the shape that they have in the text form: a Hash128 is 32 hexadecimal
digits, floats are their bits in hexadecimal, a struct is a list, bytes of strings are characters.
"""

import pathlib
import re
import struct
import types

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "schema" / "trace.fbs"
DEPTH_LIMIT = 16
SCALARS = {"bool": "?", "ubyte": "B", "ushort": "H", "uint": "I", "int": "i", "ulong": "Q", "long": "q",
           "float": "I", "double": "Q"}
DEFAULTS = {"": 0, "nan": 0x7FF8000000000000}


class Corrupt(Exception):
    """The file is damaged. `rule` is the number in the page's list of what a reader must refuse."""

    def __init__(self, rule, text):
        super().__init__(f"rule {rule}: {text}")
        self.rule = rule


def demand(holds, text, rule=10):
    if not holds:
        raise Corrupt(rule, text)


def parse_schema(text):
    """Tables: name -> [(field, type, is a vector, default)], type None: deprecated. Inline types: name -> (format, alignment)."""
    tables = {}
    inline = {name: (code, struct.calcsize(code)) for name, code in SCALARS.items()}
    text = re.sub("//.*", "", text)
    for sort, name, body in re.findall(r"(table|struct|enum) (\w+).*?\{(.*?)\}", text, re.DOTALL):
        fields = re.findall(r"(\w+):(\[?)(\w+)\]?(?: = (\S+))?(?: \((\w+)\))?;", body)
        if sort == "table":
            tables[name] = [(field, None if note == "deprecated" else kind, bool(vector), default)
                            for field, vector, kind, default, note in fields]
        elif sort == "enum":
            inline[name] = inline["ubyte"]
        elif name == "Hash128":
            inline[name] = ("16s", 8)  # read as one, so that it can be written as one
        else:
            code, alignment = "", 1
            for _, _, kind, _, _ in fields:
                inner, own = inline[kind]
                code += "x" * (-struct.calcsize("<" + code) % own) + inner
                alignment = max(alignment, own)
            inline[name] = (code + "x" * (-struct.calcsize("<" + code) % alignment), alignment)
    return tables, inline


TABLES, INLINE = parse_schema(SCHEMA.read_text())


def plain(kind, item):
    """One scalar or struct as the text form has it."""
    if isinstance(item, tuple):
        return [plain(None, part) for part in item]
    if isinstance(item, bytes):
        return item[::-1].hex()  # a Hash128: high half first
    return f"{item:016x}" if kind == "double" else f"{item:08x}" if kind == "float" else item


class FlatBuffer:
    """One chunk's raw bytes. Whatever they are, reading gives an object or raises Corrupt."""

    def __init__(self, raw):
        self.raw = raw
        self.tables_left = len(raw) // 8 + 1
        self.bytes_left = len(raw)

    def root(self, name):
        return self.table(name, self.follow(0), 1)

    def unpack(self, code, at, alignment):
        size = struct.calcsize("<" + code)
        demand(0 <= at <= len(self.raw) - size and at % alignment == 0, f"no {size} bytes at {at}", 9)
        return struct.unpack_from("<" + code, self.raw, at)

    def number(self, code, at):
        return self.unpack(code, at, struct.calcsize(code))[0]

    def follow(self, at):
        """Where the offset of a field leads; that of an item of a vector may be 0, the item itself."""
        offset = self.number("I", at)
        demand(0 < offset < 1 << 31, f"offset {offset} at {at}", 9)
        return at + offset

    def follow_item(self, at):
        return at + self.number("I", at)

    def reach(self, size):
        self.bytes_left -= size
        demand(self.bytes_left >= 0, "more bytes reached than a buffer may hold", 9)

    def table(self, name, at, depth):
        self.tables_left -= 1
        demand(self.tables_left >= 0 and depth <= DEPTH_LIMIT, "more tables than a buffer may have", 9)
        vtable = at - self.number("i", at)
        size = self.number("H", vtable)
        demand(size % 2 == 0 and vtable + size <= len(self.raw), f"vtable at {vtable}", 9)
        out = types.SimpleNamespace()
        for slot, (field, kind, vector, default) in enumerate(TABLES[name]):
            if kind is None:
                continue
            entry = 4 + 2 * slot
            offset = self.number("H", vtable + entry) if entry < size else 0
            setattr(out, field, self.field(kind, vector, at + offset, depth) if offset
                    else self.absent(kind, vector, default))
        return out

    def absent(self, kind, vector, default):
        if vector:
            return b"" if kind == "ubyte" else []
        if kind == "string":
            return ""
        if len(INLINE[kind][0]) > 1:  # a struct
            return None
        return kind != "bool" and plain(kind, DEFAULTS[default] if default in DEFAULTS else int(default))

    def field(self, kind, vector, at, depth):
        if vector:
            return self.vector(kind, self.follow(at), depth)
        if kind == "string":
            return self.string(self.follow(at))
        item = self.unpack(*INLINE[kind][:1], at, INLINE[kind][1])
        return plain(kind, item[0] if len(item) == 1 else item)

    def string(self, at):
        size = self.number("I", at)
        end = at + 4 + size
        demand(end < len(self.raw) and self.raw[end] == 0, f"string at {at}", 9)
        self.reach(size)
        return self.raw[at + 4:end].decode("latin-1")

    def vector(self, kind, at, depth):
        count, start = self.number("I", at), at + 4
        code, alignment = INLINE.get(kind, ("I", 4))
        end = start + count * struct.calcsize("<" + code)
        demand(end <= len(self.raw), f"vector of {count} {kind} at {at}", 9)
        demand(start % alignment == 0 or count == 0, f"items of {kind} at {start}", 9)
        if kind in TABLES:
            return [self.table(kind, self.follow_item(item), depth + 1) for item in range(start, end, 4)]
        self.reach(end - start)
        if kind == "string":
            return [self.string(self.follow_item(item)) for item in range(start, end, 4)]
        if kind == "ubyte":
            return self.raw[start:end]
        if len(code) == 1 and kind not in ("float", "double"):
            return struct.unpack_from(f"<{count}{code}", self.raw, start)
        items = struct.iter_unpack("<" + code, self.raw[start:end])
        return [plain(kind, item[0] if len(item) == 1 else item) for item in items]
