"""Module scopes: they are the parameters' paths, and no exception leaves a stale one (trap 14)."""

import goldentrace
import pytest
import torch
from torch import nn


class Block(nn.Module):
    """Whose activation may throw."""

    def __init__(self, error=None):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.act = Thrower(error) if error else nn.ReLU()

    def forward(self, x):
        return self.act(self.proj(x))


class Thrower(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.error = error

    def forward(self, x):
        self.inner(x)
        raise self.error


class Model(nn.Module):
    """Catches what its second layer throws, and goes on."""

    def __init__(self, error=None):
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.layers = nn.ModuleList([Block(), Block(error), Block()])
        self.norm = nn.LayerNorm(4)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            try:
                x = layer(x) + 1
            except ValueError:
                x = x * 2
        return self.norm(x)


IDS = torch.tensor([[1, 2, 3]])


def scopes_by_op(calls, op):
    return [call["scope"] for call in calls if call["op"] == op]


def test_scopes_are_the_paths_of_the_parameters(trace, calls):
    model = Model()
    with goldentrace.record(trace, model):
        model(IDS)
    recorded = calls(trace)
    owners = {name.rpartition(".")[0] for name, _ in model.named_parameters()}
    leaves = {call["scope"] for call in recorded
              if call["op"] in ("aten::linear", "aten::embedding", "aten::layer_norm")}
    assert leaves == owners
    assert scopes_by_op(recorded, "aten::relu") == ["layers.0.act", "layers.1.act", "layers.2.act"]
    assert scopes_by_op(recorded, "aten::add.Tensor") == ["", "", ""]  # of the root itself


def test_an_exception_caught_inside_the_model_leaves_no_scope(trace, calls):
    model = Model(ValueError("no"))
    with goldentrace.record(trace, model):
        model(IDS)
    recorded = calls(trace)
    assert scopes_by_op(recorded, "aten::linear") == [
        "layers.0.proj", "layers.1.proj", "layers.1.act.inner", "layers.2.proj"]
    assert scopes_by_op(recorded, "aten::mul.Tensor") == [""]
    assert scopes_by_op(recorded, "aten::layer_norm") == ["norm"]


def test_a_keyboard_interrupt_leaves_no_scope_for_the_next_call_of_the_root(trace, calls):
    """torch runs no hook of always_call after it."""
    model = Model(KeyboardInterrupt())
    healthy = Block()
    with goldentrace.record(trace, model) as recording:
        recording.add_model(healthy)
        with pytest.raises(KeyboardInterrupt):
            model(IDS)
        model.layers[1].act = healthy.act
        model(IDS)
    recorded = calls(trace)
    assert scopes_by_op(recorded, "aten::linear")[-3:] == [
        "layers.0.proj", "layers.1.proj", "layers.2.proj"]
    assert scopes_by_op(recorded, "aten::add.Tensor")[-3:] == ["", "", ""]


def test_a_scope_lost_in_one_recording_is_gone_in_the_next(tmp_path, calls):
    model = Model(KeyboardInterrupt())
    with goldentrace.record(tmp_path / "first.fb", model), pytest.raises(KeyboardInterrupt):
        model(IDS)
    with goldentrace.record(tmp_path / "second.fb"):
        torch.ones(2)
    assert [call["scope"] for call in calls(tmp_path / "second.fb")] == [""]


class Rows(nn.Module):
    """Whose forward is a generator: its body runs when it is iterated, after the hooks."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        for row in x:
            yield self.proj(row) * 2


def test_the_body_of_a_generator_belongs_to_whoever_iterates_it(trace, calls):
    outer = nn.ModuleDict({"rows": Rows(), "last": nn.Linear(4, 4)})
    with goldentrace.record(trace, outer):
        rows = list(outer["rows"](torch.ones(2, 4)))
        outer["last"](rows[0])
    recorded = calls(trace)
    assert scopes_by_op(recorded, "aten::mul.Tensor") == ["", ""]
    assert scopes_by_op(recorded, "aten::linear") == ["rows.proj", "rows.proj", "last"]


def test_a_direct_forward_belongs_to_the_caller(trace, calls):
    block = Block()
    with goldentrace.record(trace, block):
        block.proj.forward(torch.ones(2, 4))
    assert scopes_by_op(calls(trace), "aten::linear") == [""]


def test_a_module_without_a_name_is_named_by_its_class(trace, calls):
    with goldentrace.record(trace, Block()):
        nn.Linear(4, 4)(torch.ones(2, 4))
    assert scopes_by_op(calls(trace), "aten::linear") == ["<Linear>"]


def test_hooks_are_gone_after_the_recording(trace):
    from torch.nn.modules import module
    before = len(module._global_forward_pre_hooks), len(module._global_forward_hooks)
    with goldentrace.record(trace, Block()):
        pass
    with pytest.raises(ValueError), goldentrace.record(trace, Block()):
        raise ValueError
    assert (len(module._global_forward_pre_hooks), len(module._global_forward_hooks)) == before
