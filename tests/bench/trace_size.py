"""Bytes a call on disk, and what they are: digests, arguments, strings and the rest.

    python tests/bench/trace_size.py MODEL_DIR [NEW_TOKENS]

Records the same greedy decoding with hashes alone and with hashes and stats, and prints the share of
each by zstd-compressing its columns on their own, so that shares add up to about the whole."""

import json
import pathlib
import subprocess
import sys
import tempfile

import zstandard

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from paths import BUILD  # noqa: E402

def packed_columns(lines):
    """zstd-3 sizes of hashes (16 bytes each, they do not shrink) and of the definitions' strings."""
    hashes = sum(w[3] is not None for line in lines for call in line["calls"] for w in call["writes"])
    strings = "".join(text for line in lines
                      for text in [*line["strings"], *line["scopes"],
                                   *(name for op in line["operators"] for name in op)])
    return 16 * hashes, len(zstandard.compress(strings.encode("latin-1"), 3))


def main(model, tokens="32"):
    with tempfile.TemporaryDirectory() as folder:
        for level in ("hash", "stats"):
            trace = f"{folder}/{level}.fb"
            subprocess.run([BUILD / "bin/record", "hf", model, "--token-ids", "1,2,3,4,5,6,7,8,9,10,11",
                            "--max-new-tokens", tokens, "--ignore-eos", "--rule", f"scope=**:{level}",
                            "-o", trace], check=True, stdout=subprocess.DEVNULL)
            lines = [json.loads(line) for line in subprocess.run(
                [BUILD / "bin/replay", "show", trace, "--chunks"], check=True, capture_output=True,
                text=True).stdout.splitlines()]
            programs = [line for line in lines if line["kind"] == 2]
            calls = sum(len(line["calls"]) for line in programs)
            whole = pathlib.Path(trace).stat().st_size
            program = sum(line["stored_size"] for line in programs)
            timing = sum(line["stored_size"] for line in lines if line["kind"] == 3)
            hashes, strings = packed_columns(programs)
            rest = whole - program - timing
            print(f"{level}: {calls} calls, {whole} bytes, {whole / calls:.1f} a call: "
                  f"hashes {hashes / calls:.1f}, strings {strings / calls:.2f}, "
                  f"arguments{' and stats' if level == 'stats' else ''} "
                  f"{(program - hashes - strings) / calls:.1f}, timings {timing / calls:.1f}, "
                  f"header, parameters, text, index {rest / calls:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
