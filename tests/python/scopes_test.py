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


# ---- torch.nn.Module.__call__, in whose place a recording puts its own --------------------------

def call_now():
    return nn.Module.__dict__["__call__"]


def test_the_call_of_modules_is_torchs_own_before_and_after_a_recording(trace):
    before = call_now()
    assert before is nn.Module._wrapped_call_impl
    with goldentrace.record(trace, Block()):
        assert call_now() is not before
    assert call_now() is before
    with pytest.raises(ValueError), goldentrace.record(trace, Block()):
        raise ValueError
    assert call_now() is before


def test_the_call_of_modules_is_torchs_own_after_a_recording_that_can_not_begin(tmp_path):
    before = call_now()
    with pytest.raises(goldentrace.RecordingError):
        goldentrace.Recording(tmp_path / "no" / "such.fb")
    assert call_now() is before


def test_a_recording_without_calls_leaves_the_call_of_modules_alone(trace):
    before = call_now()
    with goldentrace.record(trace, Block(), keep="tokens"):
        assert call_now() is before


def test_no_hook_is_put_on_modules(trace):
    from torch.nn.modules import module
    hooks = [name for name in vars(module) if name.startswith("_global_") and name.endswith("_hooks")]
    before = [len(getattr(module, name)) for name in hooks]
    model = Model()
    with goldentrace.record(trace, model):
        model(IDS)
        assert [len(getattr(module, name)) for name in hooks] == before
        assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert len(hooks) >= 4


def test_a_call_that_somebody_puts_on_top_during_a_recording_stays(trace, calls):
    before, model, seen = call_now(), Model(), []
    try:
        with goldentrace.record(trace, model):
            below = call_now()

            def on_top(self, *arguments, **options):
                seen.append(type(self).__name__)
                return below(self, *arguments, **options)

            nn.Module.__call__ = on_top
            model(IDS)
        assert call_now() is on_top
        recorded = len(seen)
        model(IDS)  # by what is left of ours, which passes it on
        assert len(seen) == 2 * recorded > 10
    finally:
        nn.Module.__call__ = before
    assert scopes_by_op(calls(trace), "aten::linear") == [
        "layers.0.proj", "layers.1.proj", "layers.2.proj"]


def test_an_idle_recording_gives_the_call_back_and_records_nothing_until_it_goes_on(trace, calls):
    before, model = call_now(), Model()
    with goldentrace.record(trace, model) as recording:
        model(IDS)
        ours = call_now()
        with recording.idle():
            assert call_now() is before
            model(IDS)
            torch.ones(2).exp()
        assert call_now() is ours
        with pytest.raises(ValueError), recording.idle():
            raise ValueError
        assert call_now() is ours
        model(IDS)
    recorded = calls(trace)
    assert scopes_by_op(recorded, "aten::linear") == [
        "layers.0.proj", "layers.1.proj", "layers.2.proj"] * 2
    assert scopes_by_op(recorded, "aten::exp") == []


def test_threads_record_nothing_while_a_recording_is_idle(trace, calls):
    import threading

    def work():
        torch.ones(2).exp()

    with goldentrace.record(trace) as recording:
        for enter in (recording.idle, recording.paused):
            with enter():
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
    assert scopes_by_op(calls(trace), "aten::exp") == [""]  # that of the second: paused is one thread's


class Twice(nn.Linear):
    """Has a __call__ of its own, which calls that of its base."""

    def __call__(self, x):
        return super().__call__(super().__call__(x))


def test_a_class_with_a_call_of_its_own_has_its_scope_where_it_calls_its_base(trace, calls):
    model = nn.Sequential(Twice(4, 4), nn.ReLU())
    x = torch.ones(2, 4)
    with torch.no_grad():
        want = model(x)
        with goldentrace.record(trace, model):
            got = model(x)
    assert torch.equal(got, want)
    recorded = calls(trace)
    assert scopes_by_op(recorded, "aten::linear") == ["0", "0"]
    assert scopes_by_op(recorded, "aten::relu") == ["1"]


def test_a_module_takes_arguments_and_answers_as_without_a_recording(trace):
    class Echo(nn.Module):
        def forward(self, *arguments, scale=1, **options):
            return arguments, scale, options

    echo = Echo()
    with goldentrace.record(trace, echo):
        assert echo() == ((), 1, {})
        assert echo(1, 2, scale=3, self_=4) == ((1, 2), 3, {"self_": 4})
        assert nn.Module.__call__(echo, 5) == ((5,), 1, {})
        with pytest.raises(TypeError):
            nn.Module.__call__()
        with pytest.raises(TypeError, match="forward"):
            nn.ReLU()(1, 2, 3)
    assert echo(6) == ((6,), 1, {})


def test_the_signature_of_forward_can_be_inspected_during_a_recording(trace):
    import inspect
    model = Model()
    before = inspect.signature(model.forward)
    with goldentrace.record(trace, model):
        assert inspect.signature(model.forward) == before
        assert list(before.parameters) == ["ids"]


def test_torch_fx_traces_a_module_during_a_recording(trace, calls):
    model = Block()
    with goldentrace.record(trace, model):
        ours = call_now()
        traced = torch.fx.symbolic_trace(model)
        assert call_now() is ours
        traced(torch.ones(2, 4))
        model(torch.ones(2, 4))
    assert [node.op for node in traced.graph.nodes] == [
        "placeholder", "call_module", "call_module", "output"]
    assert scopes_by_op(calls(trace), "aten::linear")[-1] == "proj"
