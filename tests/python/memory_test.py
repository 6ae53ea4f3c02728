"""A long decode keeps the recorder's memory flat, and what waits to be written is bounded."""

import contextlib
import ctypes
import os
import re
import subprocess
import sys

import pytest
import torch
import transformers
from goldentrace import hf, record

from cases import SMALL
from paths import BUILD, ROOT

FIRST, LAST = 100, 400
# What grows by right: the geometries of a step are new with each length, about 7 KB a step. A table that
# kept its entries of freed storages grows by 11 MiB.
ALLOWED = 5 << 20


def resident_bytes():
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


class Watched:
    """A recording, or none, that notes how much memory is in use at two steps."""

    def __init__(self, recording=None):
        self._recording, self._at = recording, {}

    def step(self, number):
        if self._recording is not None:
            self._recording.step(number)
        if number in (FIRST, LAST):
            self._at[number] = resident_bytes()

    def paused(self):
        return contextlib.nullcontext() if self._recording is None else self._recording.paused()

    def growth(self):
        return self._at[LAST] - self._at[FIRST]


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_four_hundred_steps_keep_the_recorders_memory_flat(trace, one_thread):
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(num_hidden_layers=2, **SMALL)).eval()
    growth = []
    for _ in range(2):  # at first PyTorch fills caches of its own
        plain = Watched()
        hf.generate(plain, model, [1, 2, 3], LAST + 1)
    growth.append(plain.growth())
    with record(trace) as recording:
        watched = Watched(recording)
        hf.generate(watched, model, [1, 2, 3], LAST + 1)
    growth.append(watched.growth())
    assert growth[1] - growth[0] < ALLOWED, growth


# ---- peaks, of processes of their own ----------------------------------------------------------------

MIB = 1 << 20
# Above plain eager, beside what waits to be written.
ALLOWED_PEAK = 64 * MIB
# From 200 to 800 steps: as above for 600 steps, and what an allocator's luck makes of it.
ALLOWED_PEAK_GROWTH = 16 * MIB

# Both print the most memory that was in use from where the run begins: importing takes more.
BEGIN = """
import contextlib, sys, torch
from goldentrace import record
from goldentrace.dry_run import _NoRecording
torch.set_num_threads(1)
trace, length = sys.argv[1], int(sys.argv[2])
def recording(**options):
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return record(trace, **options) if trace else _NoRecording()
"""
END = """
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1])
"""
DECODE = """
import transformers
from cases import SMALL
from goldentrace import hf
config = transformers.LlamaConfig(num_hidden_layers=2, **{**SMALL, "max_position_embeddings": 1024})
model = transformers.LlamaForCausalLM(config).eval()
hf.generate(_NoRecording(), model, [1, 2, 3], 5)
with recording() as run:
    hf.generate(run, model, [1, 2, 3], length)
"""
SMALL_CALLS = """
x = torch.ones(8)
with recording():
    for _ in range(length):
        x.neg()
"""
# 375 MiB, in shorter time than they can be written in.
VALUES = """
x = torch.arange(1 << 14, dtype=torch.float32)
with recording(keep="all", compress="values=small"):
    for i in range(length):
        torch.mul(x, i)
"""


def peak_of(code, length, trace=None):
    path = os.pathsep.join(map(str, (BUILD / "python", ROOT / "tests")))
    done = subprocess.run([sys.executable, "-c", BEGIN + code + END, str(trace or ""), str(length)],
                          env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * 1024


def queue_bound():
    """What may wait to be written."""
    header = (ROOT / "recorder" / "writer_thread.h").read_text()
    number, shift = re.search(r"kMaxQueuedBytes = (\d+)u << (\d+);", header).groups()
    return int(number) << int(shift)


@pytest.mark.parametrize("code, length", [(SMALL_CALLS, 300_000), (VALUES, 6000)],
                         ids=["small calls", "values"])
def test_a_recordings_peak_is_bounded_for_any_length(code, length, trace):
    above = peak_of(code, length, trace) - peak_of(code, length)
    assert trace.stat().st_size > MIB
    assert above < ALLOWED_PEAK + queue_bound(), above


def test_a_decodes_peak_is_bounded_and_does_not_grow_with_its_length(trace):
    above = [peak_of(DECODE, steps, trace) - peak_of(DECODE, steps) for steps in (200, 800)]
    assert max(above) < ALLOWED_PEAK, above
    assert above[1] - above[0] < ALLOWED_PEAK_GROWTH, above
