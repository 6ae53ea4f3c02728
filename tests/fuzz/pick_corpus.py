"""Picks the few inputs that reach the most:

    pick_corpus.py build/fuzz/bin/fuzz_TARGET FOLDER_OF_INPUTS... --into tests/fuzz/corpus/TARGET

Greedy: the input that reaches the most edges which no input before it did, per byte of its size, comes first. Inputs of
the corpus that have a name (not a hash) are kept in any case.
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

HASH = re.compile(r"[0-9a-f]{40}")


def edges_of(fuzzer, folders, scratch):
    """Every input below `folders` with the set of edges that it reaches."""
    control = scratch / "control"
    out = scratch / "out"
    out.mkdir()
    subprocess.run(
        [fuzzer, "-set_cover_merge=1", "-use_counters=0", "-max_len=16384", f"-merge_control_file={control}",
         out, *folders],
        check=True, capture_output=True)
    lines = control.read_text().splitlines()
    paths = lines[2 : 2 + int(lines[0])]
    edges = {}
    for line in lines[2 + len(paths) :]:
        word, number, *rest = line.split()
        if word == "FT":
            edges[Path(paths[int(number)])] = {int(edge) for edge in rest}
    return edges


def pick(edges, seen, files, bytes_left):
    edges = dict(edges)
    while files > 0 and edges:
        def gain(path):
            return len(edges[path] - seen) / (200 + path.stat().st_size)
        best = max(edges, key=gain)
        if not edges[best] - seen:
            return
        seen |= edges.pop(best)
        if best.stat().st_size <= bytes_left:
            bytes_left -= best.stat().st_size
            files -= 1
            yield best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fuzzer", type=Path)
    parser.add_argument("inputs", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--files", type=int, default=40, help="at most so many beside the named ones")
    parser.add_argument("--bytes", type=int, default=16384, help="and at most so many bytes of them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        edges = edges_of(arguments.fuzzer.resolve(), [arguments.into, *arguments.inputs], Path(scratch))
    named = [path for path in edges if path.parent == arguments.into and not HASH.fullmatch(path.name)]
    seen = set().union(*(edges.pop(path) for path in named))
    picked = {path.name: path.read_bytes() for path in pick(edges, seen, arguments.files, arguments.bytes)}
    for path in [path for path in arguments.into.iterdir() if HASH.fullmatch(path.name)]:
        path.unlink()
    for name, content in picked.items():
        (arguments.into / name).write_bytes(content)
    print(f"{arguments.into.name}: {len(named)} named, {len(picked)} picked")


if __name__ == "__main__":
    main()
