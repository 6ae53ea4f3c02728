"""goldentrace as modes of the overhead harness that measures the peers: run_all.py --tool
THIS_FILE:GoldentraceStats. A record() call is one recording, from its start to the closed file."""

import ctypes
import os
import pathlib
import sys
import tempfile
import time

import modes

BUILD = pathlib.Path(os.environ.get("GOLDENTRACE_BUILD",
                                    pathlib.Path(__file__).parents[2] / "build"))
sys.path.insert(0, str(BUILD / "python"))

import goldentrace  # noqa: E402
from goldentrace.checkpoint import Checkpoint  # noqa: E402
from goldentrace.parameters import KnownParameters  # noqa: E402


class Goldentrace(modes.Mode):
    """The model has a checkpoint, as for `record hf`: parameters are names, hashes and recipes."""
    rules = ()
    options = {}
    _last = (None, None, None)  # model, folder, parameters: the modes share them

    def setup(self, model):
        self.model = model
        if Goldentrace._last[0] is not model:
            Goldentrace._last = (model, *self._parameters_of(model))
        self.parameters = Goldentrace._last[2]

    @staticmethod
    def _parameters_of(model):
        folder = tempfile.TemporaryDirectory()
        model.save_pretrained(folder.name)
        parameters = KnownParameters(Checkpoint(folder.name))
        with goldentrace.record(pathlib.Path(folder.name) / "first.fb", model=model,
                                parameters=parameters):
            pass  # every hash is known from now on, as of a model that is recorded many times
        return folder, parameters

    def record(self, phase, fn, steps):
        path = pathlib.Path(self.out) / "trace.fb"
        recording = goldentrace.Recording(path, rules=self.rules, **self.options)
        recording.add_model(self.model, parameters=self.parameters)
        began = time.perf_counter()
        self.run(recording, fn, steps)
        self.run_s = time.perf_counter() - began
        self.info["calls"] = recording.summary()["calls"]
        recording.close()

    def run(self, recording, fn, steps):
        for _ in range(steps):
            fn()


class GoldentraceIdle(Goldentrace):
    """What a recorder costs that has been started and records nothing now: `run_s` is its time, and
    `run_cpu` that of the processor. Starting and closing are no part of it."""
    name, what = "goldentrace_idle", "goldentrace, started, the run inside recording.idle()"

    def run(self, recording, fn, steps):
        began = time.process_time()
        with recording.idle():
            super().run(recording, fn, steps)
        self.run_cpu = time.process_time() - began


class GoldentraceHash(Goldentrace):
    name, what = "goldentrace_hash", "goldentrace, program and hash"
    rules = ("scope=**:hash",)


class GoldentraceStats(Goldentrace):
    name, what = "goldentrace_stats", "goldentrace, program, hash and stats"
    rules = ("scope=**:stats",)


class GoldentraceSketch(Goldentrace):
    name, what = "goldentrace_sketch", "goldentrace, program, hash, stats and sketch"
    rules = ("scope=**:sketch",)


class GoldentraceValues(Goldentrace):
    name, what = "goldentrace_values", "goldentrace, program and the values of every output"
    rules = ("scope=**:values",)
    options = {"compress": "values=none"}
    values = True


class EmptyCallback(modes.Mode):
    """What no recorder of calls can go below: PyTorch hands over every call's inputs and outputs,
    and nothing is done with them."""
    name, what = "empty_callback", "a RecordFunction callback with inputs and outputs, empty"

    def setup(self, model):
        self.library = ctypes.CDLL(str(BUILD / "bench" / "empty_callback.so"))

    def record(self, phase, fn, steps):
        self.library.start_empty_callback()
        for _ in range(steps):
            fn()
        self.library.stop_empty_callback()
