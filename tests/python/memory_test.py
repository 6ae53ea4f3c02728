"""A long decode keeps the recorder's memory flat."""

import contextlib
import ctypes

import pytest
import torch
import transformers
from goldentrace import hf, record

from cases import SMALL

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
