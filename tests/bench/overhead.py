#!/usr/bin/env python3
"""What recording costs: our levels and other tools around the same forward passes.

    python tests/bench/overhead.py --harness DIR [--out build/bench] [--sizes small medium]
                                   [--threads 1] [--quick]

DIR holds the shared workload (workload.py) and the other tools' modes (modes.py); nothing is
written there. One model, one process: a plain run, a run with the first mode, a plain run, a run
with the second, and so on, `--pairs` times over. A mode's ratio is the median over its pairs. What
is timed of a recorder is its start, the run, and all until its file is closed; of idle only the
run. A prefill is 256 tokens, a decode `--steps` steps. Peak memory comes from a process a mode. A
benchmark, not a test: it exits 0 whatever the numbers say. The table and the targets are in
overhead_report.py; all numbers go to overhead.json in the --out folder."""

import argparse
import collections
import gc
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

sys.dont_write_bytecode = True  # beside the harness's files
os.environ.update(KINETO_LOG_LEVEL="99", HF_HUB_DISABLE_PROGRESS_BARS="1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402

from overhead_report import PHASES, machine, report, targets  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = ("empty_callback", "goldentrace_idle", "goldentrace_hash", "goldentrace_stats", "goldentrace_sketch",
        "goldentrace_values")
# The package that a mode needs; the last two change torch for good, so they run after all others.
PEERS = {"disp_noop": "torch", "disp_norm": "torch", "disp_xxh3_noview": "xxhash",
         "disp_save_raw": "torch", "debugmode_norm": "torch", "debugmode_hash": "torch",
         "exec_trace": "torch", "profiler_shapes": "torch", "msprobe_L1_stat": "msprobe",
         "torchlens_meta": "torchlens"}
LAST = ("msprobe_L1_stat", "torchlens_meta")
QUICK_PEERS = ("disp_noop", "disp_xxh3_noview", "profiler_shapes")
SLOW = ("disp_norm", "debugmode_norm", "debugmode_hash", *LAST)
SLOW_PAIRS, SLOW_STEPS = 3, 8


def load_modes(harness):
    sys.path.append(str(harness))
    import modes
    import shared_harness_tool as ours
    for kind in vars(ours).values():
        if isinstance(kind, type) and getattr(kind, "name", None) in OURS:
            modes.MODES[kind.name] = kind
    return modes.MODES


def tell(*words):
    print(*words, file=sys.stderr, flush=True)


def wait_for_quiet(cores, most):
    """Until that many cores were idle for 0.1 s, or `most` seconds have passed."""
    def read():
        fields = [int(x) for x in open("/proc/stat").readline().split()[1:]]
        return fields[3] + fields[4], sum(fields)

    end = time.monotonic() + most
    while time.monotonic() < end:
        idle, total = read()
        time.sleep(0.1)
        idle_now, total_now = read()
        if os.cpu_count() * (idle_now - idle) >= (cores - 0.15) * (total_now - total):
            return


def folder_size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(mode, session, steps, scratch):
    """One prefill and `steps` of decode: time, processor time, bytes and calls of a forward."""
    session.reset()
    gc.collect()
    got = {}
    for phase, forward, count in (("prefill", session.prefill, 1), ("decode", session.step, steps)):
        if phase not in mode.phases:
            continue
        mode.out, mode.info = tempfile.mkdtemp(dir=scratch), {}
        processor, began = time.process_time(), time.perf_counter()
        with torch.no_grad():
            mode.record(phase, forward, count)
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        if mode.name == "goldentrace_idle":
            seconds, processor = mode.run_s, mode.run_cpu
        got[phase] = {"seconds": seconds / count, "processor": processor / count,
                      "bytes": folder_size(pathlib.Path(mode.out)) / count,
                      "calls": mode.info.get("calls", 0) / count}
        session._note()
        shutil.rmtree(mode.out)
    got["logits"] = session.h.hexdigest()
    return got


def summarize(pairs, steps):
    """The ratios of one mode from its [(plain, mode)] runs."""
    same = all(p["logits"] == m["logits"] for p, m in pairs if "decode" in m)
    result = {"pairs": len(pairs), "steps": steps, "same_logits": same}
    for phase in PHASES:
        both = [(p[phase], m[phase]) for p, m in pairs if phase in m]
        if not both:
            continue
        plain, mode = ([run["seconds"] for run in side] for side in zip(*both))
        ratios = [m / p for p, m in zip(plain, mode)]
        result[phase] = {
            "ratio": statistics.median(ratios), "ratio_of_minima": min(mode) / min(plain),
            "processor_ratio": statistics.median(m["processor"] / p["processor"] for p, m in both),
            "ratios": ratios, "plain_seconds": plain, "mode_seconds": mode,
            "bytes": both[-1][1]["bytes"], "calls": both[-1][1]["calls"]}
    return result


class Bench:
    """One size and number of threads."""

    def __init__(self, options, size, threads):
        torch.set_num_threads(threads)
        self.options, self.size, self.threads = options, size, threads
        self.kinds = load_modes(options.harness)
        import workload  # of the harness
        self.model = workload.build(size)
        self.session = workload.Session(self.model, workload.prompt(size))
        self.plain = self.make("plain")
        self.results = {}

    def make(self, name):
        mode = self.kinds[name]()
        mode.setup(self.model)
        return mode

    def run(self, mode, steps):
        return run(mode, self.session, steps, self.options.out)

    def steps(self, name):
        return min(SLOW_STEPS, self.options.steps) if name in SLOW else self.options.steps

    def plain_processor(self):
        runs = [self.run(self.plain, SLOW_STEPS) for _ in range(5)]
        return {phase: min(run[phase]["processor"] for run in runs) for phase in PHASES}

    def measure_all(self, names):
        """The results of the modes, by name, and the processor time of plain after all of them, as
        a ratio to that before any: near 1 when no mode leaves anything behind."""
        self.run(self.plain, 2)  # warm
        before = self.plain_processor()
        self.measure([name for name in names if name not in LAST])
        after = self.plain_processor()
        self.measure([name for name in names if name in LAST])
        if not self.options.no_memory:
            self.add_memory()
        return self.results, {phase: after[phase] / before[phase] for phase in PHASES}

    def measure(self, names):
        modes = {}
        for name in names:
            try:
                modes[name] = self.make(name)
                self.run(modes[name], 2)  # warm
            except Exception as error:  # another tool's fault is a line of the table
                modes.pop(name, None)
                self.results[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
        pairs = collections.defaultdict(list)
        for turn in range(self.options.pairs if modes else 0):
            for name, mode in modes.items():
                if name not in SLOW or turn < SLOW_PAIRS:
                    wait_for_quiet(self.threads, self.options.wait)
                    steps = self.steps(name)
                    pairs[name].append((self.run(self.plain, steps), self.run(mode, steps)))
            tell(f"{self.size}: turn {turn + 1} of {self.options.pairs}")
        for name in modes:
            self.results[name] = summarize(pairs[name], self.steps(name))

    def add_memory(self):
        """Peak memory of a process that runs only that mode, above that of one that runs plain."""
        measured = [name for name in self.results if "error" not in self.results[name]]
        peaks = {}
        for name in ("plain", *measured):
            done = subprocess.run([sys.executable, __file__, "--harness", self.options.harness,
                                   "--out", self.options.out, "--sizes", self.size, "--threads",
                                   str(self.threads), "--peak-of", name],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            peaks[name] = int(done.stdout.split()[-1]) if done.returncode == 0 else None
            tell(f"{self.size}: memory of {name}")
        for name in measured:
            if None not in (peaks["plain"], peaks[name]):
                self.results[name]["peak_bytes"] = peaks[name] - peaks["plain"]

    def peak_of(self, name):
        """The most bytes in memory while this process runs the mode once."""
        mode = self.make(name)
        gc.collect()
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak of building the model is not to count
        self.run(mode, SLOW_STEPS)
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def choose(options):
    """(modes to run, [why a tool is left out])."""
    names = list(QUICK_PEERS if options.quick else PEERS)
    names = options.modes or [*OURS, *names]
    missing = {name: PEERS[name] for name in names
               if name in PEERS and not importlib.util.find_spec(PEERS[name])}
    return ([name for name in names if name not in missing],
            [f"{name} was not run: the package {package} is not installed"
             for name, package in missing.items()])


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--harness", required=True, help="folder with workload.py and modes.py")
    parser.add_argument("--out", default=ROOT / "build" / "bench", type=pathlib.Path)
    parser.add_argument("--sizes", nargs="+", default=["small", "medium"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1],
                        help="more only on an idle machine")
    parser.add_argument("--modes", nargs="+", help="only these")
    parser.add_argument("--pairs", type=int, default=7, help=f"{SLOW_PAIRS} for slow tools")
    parser.add_argument("--steps", type=int, default=32,
                        help=f"of a decode; {SLOW_STEPS} for slow tools")
    parser.add_argument("--wait", type=float, default=2,
                        help="seconds at most before a pair until the machine is idle")
    parser.add_argument("--no-memory", action="store_true", help="do not measure peak memory")
    parser.add_argument("--quick", action="store_true",
                        help="small, 3 pairs, 16 steps, few tools, no memory")
    parser.add_argument("--peak-of", metavar="MODE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.pairs, options.steps, options.no_memory = ["small"], 3, 16, True
    return options


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.peak_of:
        print(Bench(options, options.sizes[0], options.threads[0]).peak_of(options.peak_of))
        return
    names, left_out = choose(options)
    command = " ".join(["python", *sys.argv])
    whole = {"command": command, "machine": machine(), "left_out": left_out, "runs": {}}
    print(f"# Overhead of recording\n\n`{command}`\n", *left_out, sep="\n")
    for size in options.sizes:
        for threads in options.threads:
            results, left = Bench(options, size, threads).measure_all(names)
            report(size, threads, results, left)
            whole["runs"][f"{size}_t{threads}"] = {
                "modes": results, "plain_after_to_before": left,
                "targets": [dict(zip(("target", "measured", "met"), row))
                            for row in targets(size, results) if threads == 1]}
            (options.out / "overhead.json").write_text(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()
