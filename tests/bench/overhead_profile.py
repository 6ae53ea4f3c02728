#!/usr/bin/env python3
"""Where the time of recording goes: plain and recorded passes in turn, in one process, each sampled
by a `perf record` of its own (Debian's linux-perf).

    python tests/bench/overhead_profile.py --harness DIR [--level stats] [--phase decode] [--pairs 12]

Prints milliseconds a pass by library and by function: what plain takes, what the recorded run
takes, and the difference. Starting and closing a recording is not sampled."""

import argparse
import collections
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch

FREQUENCY = 2500  # samples a second
STEPS = 32        # of a decode pass


class Sampler:
    """A perf record of this thread that is off until `measure`."""

    def __init__(self, folder, name):
        self.data = folder / f"{name}.data"
        paths = [folder / f"{name}.{end}" for end in ("control", "answers")]
        for path in paths:
            os.mkfifo(path)
        self.perf = subprocess.Popen(
            ["perf", "record", "-F", str(FREQUENCY), "-D", "-1", "-t", str(os.getpid()), "-o",
             self.data, "--control", f"fifo:{paths[0]},{paths[1]}"], stderr=subprocess.DEVNULL)
        self.control, self.answers = open(paths[0], "w"), open(paths[1])
        self.seconds, self.faults = [], 0

    def tell(self, word):
        print(word, file=self.control, flush=True)

    def measure(self, function):
        self.tell("enable")
        self.answers.readline()
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        began = time.perf_counter()
        function()
        self.seconds.append(time.perf_counter() - began)
        self.faults += resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - faults
        self.tell("disable")
        self.answers.readline()

    def stop(self):
        self.tell("stop")
        self.perf.wait()

    def milliseconds(self, by):
        """{library, or library and function: milliseconds of all passes}."""
        lines = subprocess.run(
            ["perf", "report", "-i", self.data, "--no-children", "--stdio", "--sort", by, "-F",
             f"sample,{by}", "-t", "|"], capture_output=True, text=True).stdout.splitlines()
        found = collections.Counter()
        for line in lines:
            fields = [field.strip() for field in line.split("|")]
            if len(fields) > 1 and fields[0].isdigit():
                names = [name for name in fields[1:] if not name.startswith("[.] 0x")]
                found[" ".join(names)[:100]] += int(fields[0]) * 1e3 / FREQUENCY
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--harness", type=pathlib.Path, required=True)
    parser.add_argument("--size", default="small")
    parser.add_argument("--level", default="stats", help="as in --rule: none, hash, stats, sketch")
    parser.add_argument("--phase", choices=("prefill", "decode"), default="decode")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--rows", type=int, default=40)
    options = parser.parse_args()
    sys.dont_write_bytecode = True
    sys.path.append(str(options.harness))
    import shared_harness_tool as tool
    import workload
    torch.set_num_threads(1)
    model = workload.build(options.size)
    session = workload.Session(model, workload.prompt(options.size))
    mode = tool.Goldentrace()
    mode.setup(model)

    def prepare():
        session.reset()
        if options.phase == "decode":
            session.prefill()
            session.step()

    def forward():
        if options.phase == "prefill":
            session.prefill()
        for _ in range(STEPS if options.phase == "decode" else 0):
            session.step()

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        plain, recorded = Sampler(folder, "plain"), Sampler(folder, "recorded")
        prepare()
        forward()
        for _ in range(options.pairs):
            prepare()
            plain.measure(forward)
            prepare()
            recording = tool.goldentrace.Recording(folder / "trace.fb",
                                                   rules=[f"scope=**:{options.level}"])
            recording.add_model(model, parameters=mode.parameters)
            recorded.measure(forward)
            recording.close()
        plain.stop()
        recorded.stop()
        passes = options.pairs * (STEPS if options.phase == "decode" else 1)
        ratio = statistics.median(b / a for a, b in zip(plain.seconds, recorded.seconds))
        print(f"{options.phase}, {options.level}: {ratio:.3f} of plain; page faults a pass "
              f"{plain.faults / passes:.1f} and {recorded.faults / passes:.1f}")
        for by in ("dso", "dso,sym"):
            before, after = plain.milliseconds(by), recorded.milliseconds(by)
            rows = sorted(before.keys() | after.keys(), key=lambda k: before[k] - after[k])
            print(f"\n{'added':>8} {'plain':>8} {'recorded':>8}  ms a pass, by {by}")
            for key in rows[:options.rows]:
                print(f"{(after[key] - before[key]) / passes:8.3f} {before[key] / passes:8.3f} "
                      f"{after[key] / passes:8.3f}  {key}")


if __name__ == "__main__":
    main()
