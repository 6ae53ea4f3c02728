"""The golden files, read three ways: by the C++ reader, by the reader that was written from FORMAT.md
alone, and by their text twins. All must say the same, of whole files, cut ones and damaged ones."""

import json
import random
import re
import struct
import subprocess

import pytest
import xxhash

import container
import digests
from flatbuffer import Corrupt
from paths import BUILD, ROOT
from reader_from_spec import read

FOLDERS = [ROOT / "tests" / "golden" / version for version in ("v1", "v1.1", "v1.2")]
FOLDER, SECOND = FOLDERS[:2]
PAGE = (ROOT / "schema" / "FORMAT.md").read_text()
GOOD = [path for folder in FOLDERS for path in sorted(folder.glob("*.fb"), key=lambda path: path.name)]


def bad_files(folder):
    """Path and reason of each."""
    rows = [line.split(maxsplit=1) for line in (folder / "bad" / "list.txt").read_text().splitlines()]
    return [(folder / "bad" / name, why) for name, why in rows]


BAD = [row for folder in FOLDERS for row in bad_files(folder)]


def lines(objects):
    """The text form as lines that are equal when the objects are. (In Python 1 == True.)"""
    return [json.dumps(line, sort_keys=True) for line in objects]


def by_page(data):
    """What the reader from the page makes of a file: its lines, or why it refuses them."""
    try:
        return lines(read(data))
    except Corrupt:
        return "corrupt"
    except container.Unsupported:
        return "unsupported"


def show(path):
    return subprocess.run([BUILD / "bin/replay_without_torch", "show", path, "--chunks"],
                          capture_output=True)


def by_cpp(path):
    done = show(path)
    if done.returncode == 0:
        return lines(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 2, done
    assert done.stderr.count(b"\n") == 1 and done.stderr.endswith(b"\n"), done.stderr
    return "unsupported" if b"this build" in done.stderr else "corrupt"


def agree(tmp_path, data):
    path = tmp_path / "case.fb"
    path.write_bytes(data)
    got = by_page(data)
    assert by_cpp(path) == got
    return got


def is_cut(text):
    return isinstance(text, list) and set(json.loads(text[-1])) == {"cut"}


# ---- good files --------------------------------------------------------------------------------------

@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_both_readers_say_what_the_twin_says(path):
    twin = lines(json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines())
    assert by_page(path.read_bytes()) == twin
    assert by_cpp(path) == twin


def test_a_file_of_a_later_minor_version_is_read():
    text = read((FOLDER / "padded.fb").read_bytes())
    kinds = [line["kind"] for line in text]
    assert text[0]["minor"] == 7
    assert {1, 2, 3, 4, 5, 6, 7, 8} < set(kinds)
    assert [line["content"] for line in text if line["kind"] > 9 and line["codec"] > 2] == ["unknown"]
    padded, plain = text[kinds.index(2)], read((FOLDER / "program.fb").read_bytes())[2]
    for known in ("strings", "operators", "geometries", "ambients", "externals"):
        assert padded[known] == plain[known]
    assert padded["calls"][0]["flags"] & 128 and padded["calls"][0]["results"] == plain["calls"][0]["results"]


def test_sketches_of_the_golden_file_are_those_of_the_page():
    program = next(line for line in read((SECOND / "sketch.fb").read_bytes()) if line["kind"] == 2)
    writes = [write for call in program["calls"] for write in call["writes"]]
    assert [write[2] for write in writes] == [1 | 2 | 32, 1 | 2, 1 | 32]
    assert [len(write) for write in writes] == [6, 5, 6]
    for write, (dtype, data) in zip((writes[0], writes[2]), (SKETCHED[2], SKETCHED[0])):
        assert write[5] == [struct.pack(">f", x).hex() for x in digests.sketch(data, dtype)]
        assert write[3] == digests.hash(data)


def test_repeated_bytes_of_the_golden_file_are_what_the_call_before_has_written():
    text = read((SECOND / "repeated.fb").read_bytes())
    program = next(line for line in text if line["kind"] == 2)
    first, second, third = program["calls"]
    _, repeated = program["externals"]
    tensor, version, _, digest, _ = first["writes"][0]
    assert repeated == [1, program["tensors"][tensor][0], version + 1, 2, digest]
    assert second["arguments"] == [["tensor", tensor, version + 1]]
    assert any(part[0] == digest for line in text if line["kind"] == 6 for part in line["parts"])
    assert third["writes"][0][2:] == [0, None, None]


def test_the_example_of_the_page_is_the_file():
    block = PAGE[PAGE.index("## 13."):].split("```")[1]
    got = bytearray()
    for line in block.splitlines():
        if re.match(r"[0-9a-f]{4}  ", line):
            assert int(line[:4], 16) == len(got), line
            got += bytes.fromhex(line[6:29])
    assert got == (FOLDER / "example.fb").read_bytes()


# ---- bad files ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_bad_file_is_in_the_list(folder):
    assert sorted(path for path, _ in bad_files(folder)) == sorted((folder / "bad").glob("*.fb"))


@pytest.mark.parametrize("path, why", BAD, ids=[path.name for path, _ in BAD])
def test_a_bad_file_is_refused_by_the_rule_of_the_list(path, why):
    assert by_cpp(path) == why.split()[0]
    with pytest.raises((Corrupt, container.Unsupported)) as refusal:
        read(path.read_bytes())
    rule = getattr(refusal.value, "rule", None)
    assert (f"corrupt {rule}" if rule else "unsupported") == why


# ---- cut and damaged files ---------------------------------------------------------------------------

def borders(data):
    """Offsets where a chunk begins or the footer does."""
    end, at, out = len(data) - container.FOOTER, container.FILE_HEADER, [0]
    while at < end:
        out.append(at)
        at = container.chunk_at(data, at, end).end
    return out + [end, len(data)]


def test_every_prefix_keeps_the_whole_chunks_before_its_end_and_says_that_it_is_cut():
    data = (FOLDER / "program.fb").read_bytes()
    whole = lines(read(data))
    ends = borders(data)[2:-1]
    for size in range(len(data)):
        chunks = sum(end <= size for end in ends)
        text = by_page(data[:size])
        if chunks == 0:
            assert text == "corrupt", size
        else:
            kept = min(chunks, len(whole) - 1)  # the index chunk has no line in a cut file
            assert text == whole[:kept] + [json.dumps({"cut": ends[chunks - 1]})], size


def test_both_readers_agree_on_prefixes(tmp_path):
    data = (FOLDER / "program.fb").read_bytes()
    near = {border + step for border in borders(data) for step in (-1, 0, 1)}
    for size in sorted(near | set(range(0, len(data), 7))):
        if 0 <= size < len(data):
            agree(tmp_path, data[:size])


@pytest.mark.parametrize("name", ["program.fb", "values.fb"])
def test_no_flipped_byte_goes_unnoticed(tmp_path, name):
    data = (FOLDER / name).read_bytes()
    whole = lines(read(data))
    rng = random.Random(5)
    for case in range(1500):
        at = rng.randrange(len(data))
        damaged = data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1:]
        text = agree(tmp_path, damaged) if case % 10 == 0 else by_page(damaged)
        assert isinstance(text, str) or is_cut(text) and text[:-1] == whole[:len(text) - 1], at


def sealed(data, chunk, stored):
    """The file up to the chunk, then the chunk with other stored bytes and right checksums."""
    head = bytearray(data[chunk.offset:chunk.offset + container.CHUNK_HEADER])
    struct.pack_into("<Q", head, 24, xxhash.xxh3_64_intdigest(stored))
    struct.pack_into("<I", head, 36, xxhash.xxh3_64_intdigest(bytes(head[:36])) & 0xFFFFFFFF)
    return data[:chunk.offset] + bytes(head) + stored


def test_hostile_bytes_under_right_checksums_are_an_answer_and_no_accident():
    """Offsets, lengths and ids of all sorts of chunks, changed by somebody who can count checksums."""
    rng = random.Random(6)
    for name in ("padded.fb", "example.fb"):
        data = (FOLDER / name).read_bytes()
        for border in borders(data)[1:-3]:
            chunk = container.chunk_at(data, border, len(data))
            stored = container.check_stored(data, chunk)
            for at in range(len(stored)):
                new = rng.choice((0, 1, 4, 0x7F, 0x80, 0xFF, rng.randrange(256)))
                text = by_page(sealed(data, chunk, stored[:at] + bytes([new]) + stored[at + 1:]))
                assert isinstance(text, str) or is_cut(text), (name, border, at, new)


# ---- digests -----------------------------------------------------------------------------------------

def pattern(size):
    return bytes(i % 251 for i in range(size))


def fractions(code, count):
    """1, 1/2, 1/3, ..."""
    return struct.pack(f"<{count}{code}", *(1 / (i + 1) for i in range(count)))


BITS = [int(word, 16) for word in "3f80 bf80 0000 8000 0001 7f80 ff80 7fc0 ff7f 714a 4049 3eab".split()]
SKETCHED = [
    ("bfloat16", struct.pack("<12H", *BITS)), ("float32", fractions("f", 64)),
    ("float32", fractions("f", 5000)), ("float64", fractions("d", 5000)),
    ("float32", fractions("f", 20000)),
    ("float16", struct.pack("<9001e", *((37 * i % 251 - 125) / 64 for i in range(9001)))),
    ("float64", struct.pack("<3d", 1e30, float("nan"), float("-inf")))]
HASHED = {"none": b"", "`00`": b"\0", "`goldentrace` in ASCII": b"goldentrace",
          "4,096 zero bytes": bytes(4096), "int64 0, 1, 2, 3, 4, 5": struct.pack("<6q", *range(6))}


def rows_of(heading):
    """The rows of the first table behind `heading` that has hashes in it."""
    table = re.search(r"\| --- .*?\n((?:\|.*\n)+)", PAGE[PAGE.index(heading):]).group(1)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


def test_hash_has_the_vectors_of_the_page():
    rows = rows_of("Test vectors. `pattern(n)`")
    assert len(rows) == 12
    for what, want in rows:
        sized = re.match(r"pattern\((\d+)\)", what)
        data = pattern(int(sized.group(1))) if sized else HASHED[what]
        assert digests.hash(data) == want.strip("`"), what
        pieces = digests.Hash()
        for at in range(0, len(data), 1000):
            pieces.add(data[at:at + 1000])
        assert pieces.hexdigest() == want.strip("`"), what


def test_stats_have_the_vectors_of_the_page():
    cases = [("bfloat16", struct.pack("<12H", *BITS)),
             ("float32", fractions("f", 5000)),
             ("float64", struct.pack("<2d", 0.0, -0.0)),
             ("float64", struct.pack("<3d", 1e30, float("nan"), float("-inf")))]
    rows = rows_of("Test vectors. Numbers are hexadecimal floats.")
    assert len(rows) == len(cases)
    for (dtype, data), (what, want_hash, counts, *figures) in zip(cases, rows):
        assert what.startswith(dtype)
        got = digests.stats(data, dtype)
        assert got[:6] == [int(count) for count in counts.split(",")], what
        assert [x.hex() for x in got[6:]] == [float.fromhex(x).hex() for x in figures], what
        assert want_hash == "-" or digests.hash(data) == want_hash.strip("`"), what


def test_sketches_have_the_vectors_of_the_page():
    rows = rows_of("Test vectors. The sketch's hash")
    assert len(rows) == len(SKETCHED)
    for (dtype, data), (what, want_hash, *sums) in zip(SKETCHED, rows):
        assert dtype in what or what.startswith("the same")
        got = digests.sketch(data, dtype)
        assert digests.hash(got.astype("<f4").tobytes()) == want_hash.strip("`"), what
        assert [float(got[k]) for k in (0, 1, 2, 3, 63)] == [float.fromhex(x) for x in sums], what
