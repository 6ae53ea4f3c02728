"""`goldentrace.record`: nothing that it watches is disturbed, and what it could not do it says."""

import ctypes
import os

import goldentrace
import numpy
import pytest
import torch
from torch import nn


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.LayerNorm(12), nn.Linear(12, 3))


def train(optimizer_class, **options):
    """Two training steps; every tensor that came of them."""
    model = network()
    optimizer = optimizer_class(model.parameters(), lr=0.1, **options)
    x, target = torch.linspace(-1, 1, 24).reshape(4, 6), torch.tensor([0, 2, 1, 1])
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses + [p.grad for p in model.parameters()] + [p.detach() for p in model.parameters()]


OPTIMIZERS = [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {}),
              (torch.optim.AdamW, {"foreach": True})]


@pytest.mark.parametrize("optimizer, options", OPTIMIZERS)
def test_training_is_the_same_bits_with_and_without_recording(trace, optimizer, options, verify):
    want = train(optimizer, **options)
    with goldentrace.record(trace) as recording:
        got = train(optimizer, **options)
    assert all(torch.equal(g, w) for g, w in zip(got, want, strict=True))
    assert recording.summary()["counters"]["recorder_errors"]["value"] == 0
    verify(trace)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_inference_is_the_same_bits_in_every_mode(trace, mode, verify):
    model, x = network(), torch.linspace(-1, 1, 24).reshape(4, 6)
    with mode():
        want = model(x)
        with goldentrace.record(trace, model):
            got = model(x)
    assert torch.equal(got, want)
    assert got.requires_grad == want.requires_grad
    verify(trace)


def test_a_fault_of_the_recorder_is_told_at_the_end_only(trace):
    model, x = network(), torch.linspace(-1, 1, 24).reshape(4, 6)
    want = model(x)
    with pytest.raises(goldentrace.RecordingError, match="call 2"):
        with goldentrace.record(trace, fail_at_call=2):
            got = model(x)
    assert torch.equal(got, want)


def test_the_exception_of_the_block_passes_untouched(trace):
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught, goldentrace.record(trace, fail_at_call=1):
        torch.ones(2).add(1)
        raise error
    assert caught.value is error
    with goldentrace.record(trace):  # and the recording is over
        pass


def test_an_error_of_a_call_passes_as_it_is(trace):
    def message():
        with pytest.raises(RuntimeError) as caught:
            torch.ones(2, 3) @ torch.ones(2, 3)
        return str(caught.value)

    want = message()
    with goldentrace.record(trace) as recording:
        got = message()
    assert got == want
    assert recording.summary()["counters"]["calls_failed"]["value"] == 1


def test_a_second_recording_is_refused(trace, tmp_path):
    with goldentrace.record(trace):
        with pytest.raises(goldentrace.RecordingError, match="running already"):
            with goldentrace.record(tmp_path / "other.fb"):
                pass
        torch.ones(2)


@pytest.mark.parametrize("options, message", [
    ({"rules": ["op=aten::mul"]}, "no digest"),
    ({"header": {"engin": "x"}}, "unknown field 'engin'"),
    ({"header": {"rank": "one"}}, "rank|type"),
])
def test_wrong_options_are_refused_and_nothing_runs(trace, options, message):
    with pytest.raises(goldentrace.RecordingError, match=message):
        with goldentrace.record(trace, **options):
            pass
    with goldentrace.record(trace):
        pass


def test_steps_and_pauses(trace, calls):
    x = torch.ones(2)
    with goldentrace.record(trace) as recording:
        x.neg()
        recording.step(1)
        with recording.paused():
            x.abs()
        x.exp()
    assert [(c["op"], c["step"]) for c in calls(trace)] == [("aten::neg", 0), ("aten::exp", 1)]


def test_tensors_made_without_a_call_are_inputs_of_the_program(trace, verify):
    """torch.tensor, numpy and .data write memory that no call wrote (trap 5)."""
    with goldentrace.record(trace) as recording:
        x = torch.tensor([1.0, 2.0, 3.0])
        x[0] = 5.0
        y = x * 2
        array = numpy.arange(4, dtype=numpy.float32)
        shared = torch.from_numpy(array)
        y = shared + 1
        array[2] = 17  # a hole
        y = shared + y
        z = torch.zeros(4)
        z.data = y
        z.mul_(3)
        y + 1
    assert recording.summary()["counters"]["holes"]["value"] == 1
    verify(trace)


def test_autocast_is_part_of_the_program(trace, verify):
    model, x = network(), torch.linspace(-1, 1, 24).reshape(4, 6)
    with goldentrace.record(trace, model), torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = model(x)
        model(x)
    assert low.dtype == torch.bfloat16
    verify(trace)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_an_autograd_function_does_not_hide_the_calls_inside(trace, calls, verify):
    """Its frame has no operator's name (trap 2)."""
    x = torch.ones(3, requires_grad=True)
    with goldentrace.record(trace):
        Doubled.apply(x.exp()).sum().backward()
        x.neg()
    ops = [call["op"] for call in calls(trace)]
    assert ops[:3] == ["aten::exp", "aten::add.Tensor", "aten::sum"]
    assert "aten::mul.Tensor" in ops
    assert ops[-1] == "aten::neg"
    verify(trace)


@torch.library.custom_op("goldentrace_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 0


def test_an_operator_written_in_python_is_descended_into(trace, calls, verify):
    x = torch.ones(3)
    with goldentrace.record(trace):
        twice(x).neg()
    assert [call["op"] for call in calls(trace)] == [
        "aten::mul.Tensor", "aten::add.Tensor", "aten::neg"]
    verify(trace)


LIBRARY = torch.library.Library("goldentrace_tests_filling", "DEF")
LIBRARY.define("fill_unseen(Tensor(a!) x) -> ()")
LIBRARY.impl("fill_unseen", lambda x: x.numpy().fill(7), "CPU")


def test_what_an_operator_says_it_writes_is_read_anew_when_no_call_wrote_it(trace, verify):
    x = torch.linspace(0, 1, 5000)  # too large to be looked at whenever it is read
    with goldentrace.record(trace):
        y = x * 2
        torch.ops.goldentrace_tests_filling.fill_unseen(y)
        y + 1
    verify(trace)


def test_a_view_that_a_shrunk_storage_left_behind_costs_its_calls_only(trace, calls, verify):
    with goldentrace.record(trace):
        x = torch.linspace(0, 1, 2000)
        x.untyped_storage().resize_(4000)
        x[:5] + 1
    assert calls(trace)[-1]["op"] == "aten::add.Tensor"
    verify(trace)


def test_a_run_that_was_cut_short_is_not_judged(trace, tmp_path, replay_program):
    other = tmp_path / "whole.fb"
    with goldentrace.record(other):
        torch.ones(2)
        torch.ones(3)
    with pytest.raises(KeyboardInterrupt), goldentrace.record(trace):
        torch.ones(2)
        raise KeyboardInterrupt
    done = replay_program(trace, "--against", other)
    assert done.returncode == 2
    assert "run_cut_short 1; first KeyboardInterrupt" in done.stdout


@pytest.mark.parametrize("dtype, status", [(torch.float32, 1), (torch.bfloat16, 0)])
def test_a_run_that_names_no_dtype_is_judged_by_its_tensors(dtype, status, trace, tmp_path,
                                                            replay_program):
    """One percent is much in float32 and rounding in bfloat16."""
    other = tmp_path / "other.fb"
    x = torch.linspace(-1, 1, 64).to(dtype)
    for path, scale in ((trace, 1.0), (other, 1.01)):
        factor = torch.full((64,), scale).to(dtype)
        with goldentrace.record(path):
            x * factor
    assert replay_program(other, "--against", trace).returncode == status


def test_a_vectorized_function_costs_its_own_calls_only(trace, calls, verify):
    x = torch.linspace(0, 1, 6).reshape(2, 3)
    want = torch.vmap(lambda row: row * row.sum())(x)
    with goldentrace.record(trace):
        got = torch.vmap(lambda row: row * row.sum())(x)
        got.neg()
    assert torch.equal(got, want)
    assert calls(trace)[-1]["op"] == "aten::neg"
    verify(trace)


def test_a_forked_child_leaves_the_trace_to_its_parent(trace, calls):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with goldentrace.record(trace, model):
        torch.ones(2)
        child = os.fork()
        if child == 0:
            try:
                code = 3
                model[1](torch.zeros(2))
                nn.Tanh()(torch.zeros(2))
                goldentrace.native.stop()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        torch.zeros(3)
    assert [call["arguments"][0] for call in calls(trace)] == ["[2]", "[3]"]


# ---- the hash digest, in three lines of anyone's xxhash ---------------------------------------------

def hash_of(data):
    xxhash = pytest.importorskip("xxhash")
    blocks = [data[i:i + 4096].ljust(4096, b"\0") for i in range(0, len(data), 4096)]
    leaves = b"".join(xxhash.xxh3_64_intdigest(b).to_bytes(8, "little") for b in blocks)
    return xxhash.xxh3_128_intdigest(leaves + len(data).to_bytes(8, "little"))


def bytes_of(tensor):
    dense = tensor.contiguous()
    return ctypes.string_at(dense.data_ptr(), dense.nbytes)


@pytest.mark.parametrize("make", [
    lambda: torch.randn(7),
    lambda: torch.randn(64, 129).to(torch.bfloat16),
    lambda: torch.randn(64, 130).t(),
    lambda: torch.randn(40, 50, 3)[::2, 1:, ::2],
    lambda: torch.arange(5).expand(1000, 5),
    lambda: torch.randn(1024),  # one whole block
    lambda: torch.randn(1025),
    lambda: torch.ones(()),
    lambda: torch.empty(0),
    lambda: torch.randn(33) > 0,
], ids=range(10))
def test_the_hash_is_that_of_the_dense_bytes(make):
    tensor = make()
    assert goldentrace.tensor_hash(tensor) == hash_of(bytes_of(tensor))
