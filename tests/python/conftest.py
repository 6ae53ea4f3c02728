"""Fixtures of the Python layer's tests. The folders and the tiny model are those of tests/conftest.py."""

import json
import subprocess

import pytest
import torch

import reports
from paths import BUILD


@pytest.fixture(autouse=True)
def deterministic():
    """Every test starts from the same generator state and leaves grad mode as it was."""
    torch.manual_seed(0)
    grad = torch.is_grad_enabled()
    yield
    torch.set_grad_enabled(grad)


@pytest.fixture
def trace(tmp_path):
    """Where a test's trace goes."""
    return tmp_path / "trace.fb"


@pytest.fixture(scope="module")
def tiny_model(tiny):
    """The tiny Qwen3.5 hybrid, loaded as `record hf` loads it."""
    from goldentrace import hf
    return hf.load(tiny)


def run_replay(*arguments):
    program = BUILD / "bin/replay"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    reports.check_written(arguments, done.returncode, done.stdout)
    return done


@pytest.fixture
def replay():
    """replay(arguments...): the program's CompletedProcess."""
    return run_replay


def _lines(*arguments):
    done = run_replay(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def calls():
    """calls(trace): every call, as `replay show --calls --json` tells it."""
    return lambda path: _lines("show", path, "--calls")


@pytest.fixture
def parameters():
    """parameters(trace): {name: entry} of the parameter dictionary."""
    return lambda path: {entry["name"]: entry for entry in _lines("show", path, "--params")}


@pytest.fixture
def replay_program():
    """replay_program(*arguments): the finished process of `replay`."""
    return run_replay


@pytest.fixture
def no_weights(tmp_path):
    """A checkpoint without tensors, for programs whose parameters are in the trace."""
    path = tmp_path / "none.safetensors"
    path.write_bytes(b"\x02" + bytes(7) + b"{}")
    return path


@pytest.fixture
def verify(no_weights):
    """verify(trace, weights): executes the trace again, which must reproduce every output."""
    def answer(path, weights=None):
        done = run_replay("verify", path, "--weights", weights or no_weights)
        assert done.returncode == 0, done.stdout + done.stderr
    return answer
