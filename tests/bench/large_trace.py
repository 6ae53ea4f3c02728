"""Memory and time of reading a trace that is larger than memory should be.

    python tests/bench/large_trace.py [--folder DIR] [--gib 4] [--calls 100000]

Prints the peak of resident memory of each command on a file of --gib GiB, and how long one small
tensor takes there and in a file of 40 MiB with the same number of calls."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import peak  # noqa: E402
from paths import BUILD  # noqa: E402

MIB = 1 << 20
LIMIT = 300_000_000
RUNS = 5


def make(path, calls, values, value_bytes):
    subprocess.run([BUILD / "bin" / "make_large_trace", path, str(calls), str(values),
                    str(value_bytes)], check=True)
    print(f"{path.name}: {path.stat().st_size / MIB:,.0f} MiB, {calls:,} calls, {values} values")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--calls", type=int, default=100_000)
    options = parser.parse_args()
    replay = BUILD / "bin" / "replay"
    failed = False
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        large, small = folder / "large.fb", folder / "small.fb"
        values = options.gib * 16 + 1  # of 64 MiB
        make(large, options.calls, values, 64 * MIB)
        make(small, options.calls, values, 40 * MIB // values)
        one = ["--call", "3", "-o", folder / "one.npy"]
        for name, arguments in [("show", ["show", large]), ("show --calls", ["show", large, "--calls"]),
                                ("show --tensors", ["show", large, "--tensors"]),
                                ("check", ["check", large]), ("export", ["export", large, *one]),
                                ("trim", ["trim", large, folder / "t.fb", "--scope", "probe"])]:
            status, most, seconds, processor = peak.run(replay, *arguments)
            failed |= status != 0 or most >= LIMIT
            print(f"{name:16} {most / 1e6:6.1f} MB at most, {seconds:6.2f} s ({processor:.2f} s of the "
                  f"processor), exit {status}")
        for path in (large, small, large, small):
            runs = [peak.run(replay, "export", path, "--scope", "probe", "-o", folder / "probe.npy")
                    for _ in range(RUNS)]
            wall, processor = (sorted(run[place] * 1e3 for run in runs) for place in (2, 3))
            print(f"one tensor of 4 KiB from {path.name}: {wall[RUNS // 2]:.0f} ms, {wall[0]:.0f} to "
                  f"{wall[-1]:.0f}; of the processor {processor[RUNS // 2]:.0f} ms, {processor[0]:.0f} to "
                  f"{processor[-1]:.0f} (median of {RUNS})")
    return failed


if __name__ == "__main__":
    sys.exit(main())
