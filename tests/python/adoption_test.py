"""Modules that nobody named: they are adopted when they are called from outside every named one."""

import gc
import weakref

import pytest
import torch
from goldentrace.adoption import Adoption
from goldentrace.recording import Recording
from torch import nn


@pytest.fixture
def recording(trace):
    """A recording that adopts, closed by close() or at the end."""
    adoption = Adoption()
    recording = adoption.recording = Recording(trace, adopt=adoption.adopt)
    closed = []
    close = recording.close
    recording.close = lambda: closed or closed.append(close())
    yield recording
    recording.close()


def block():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())


X = torch.ones(2, 4)


def linear_scopes(rows):
    return [row["scope"] for row in rows if row["op"] == "aten::linear"]


def test_the_first_model_has_no_prefix_and_later_ones_their_class(recording, trace, calls, parameters):
    models = [block(), block(), nn.Linear(4, 4), block(), nn.Linear(4, 4)]
    nn.ReLU()(X)
    for model in models * 2:
        model(X)
    recording.close()
    names = ["0", "Sequential.0", "Linear", "Sequential-2.0", "Linear-2"]
    assert linear_scopes(calls(trace)) == names * 2
    assert set(parameters(trace)) == {f"{name}.{kind}" for name in names
                                      for kind in ("weight", "bias")}
    assert {row["scope"] for row in calls(trace) if row["op"] == "aten::relu"} == {
        "<ReLU>", "1", "Sequential.1", "Sequential-2.1"}


def test_each_forward_of_the_first_model_begins_the_next_step(recording, trace, calls):
    main, other = block(), block()
    X.neg()
    for _ in range(3):
        main(X)
        other(X)
    recording.close()
    steps = {scope: [row["step"] for row in calls(trace) if row["scope"] == scope]
             for scope in ("", "0", "Sequential.0")}
    assert steps["0"] == steps["Sequential.0"] == [0, 1, 2]
    assert set(steps[""]) == {0}


def test_a_model_held_by_a_module_without_parameters_is_adopted(recording, trace, calls):
    class Wrapper(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.hidden = [model]

        def forward(self, x):
            return self.hidden[0](x) + 1

    Wrapper(block())(X)
    recording.close()
    assert linear_scopes(calls(trace)) == ["0"]


def test_a_module_made_inside_an_adopted_one_is_named_below_it(recording, trace, calls):
    class Maker(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(4, 4)

        def forward(self, x):
            return nn.Linear(4, 4)(self.proj(x))

    Maker()(X)
    recording.close()
    assert linear_scopes(calls(trace)) == ["proj", "<Linear>"]


def test_models_are_not_kept_alive_and_an_address_used_again_is_another_model(recording, trace, calls):
    addresses = set()
    for _ in range(20):
        model = nn.Linear(4, 4)
        model(X)
        addresses.add(id(model))
        alive = weakref.ref(model)
        del model
        gc.collect()
        assert alive() is None
    assert len(addresses) < 20, "no address was used again; the test shows nothing"
    recording.close()
    assert linear_scopes(calls(trace)) == ["", "Linear", *(f"Linear-{n}" for n in range(2, 20))]


def test_parameters_without_memory_are_left_out(recording, trace, parameters):
    lazy = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 4))
    lazy(X)
    nn.Linear(4, 4, device="meta")(X.to("meta"))
    recording.close()
    assert set(parameters(trace)) == {"1.weight", "1.bias"}


@pytest.mark.parametrize("compiled_first", [True, False])
def test_a_compiled_model_has_the_names_of_the_model(compiled_first, recording, trace, calls,
                                                     parameters):
    class Own(nn.Module):  # whose hooks run outside the compiled region; a Sequential's are traced
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(4, 4)

        def forward(self, x):
            return self.proj(x)

    model = Own()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for call in (compiled, model) if compiled_first else (model, compiled):
        call(X)
    recording.close()
    rows = [(row["step"], row["scope"]) for row in calls(trace) if row["op"] == "aten::linear"]
    scopes = ["<compiled>", "proj"] if compiled_first else ["proj", "<compiled>"]
    assert rows == list(enumerate(scopes))
    assert set(parameters(trace)) == {"proj.weight", "proj.bias"}


def test_an_error_of_the_adopter_leaves_the_module_alone(trace, calls):
    def fail(module):
        raise ValueError("no")

    recording = Recording(trace, adopt=fail)
    block()(X)
    recording.close()
    assert linear_scopes(calls(trace)) == ["<Sequential>.<Linear>"]
