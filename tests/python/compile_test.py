"""torch.compile while a recording runs (trap 3): nothing of it is disturbed, and nothing is lost."""

import goldentrace
import pytest
import torch
import transformers
from torch import nn

from cases import SMALL

pytestmark = pytest.mark.filterwarnings("error:Using `torch.compile", "ignore:Dynamo does not know")


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch._dynamo.reset()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.LayerNorm(12), nn.Linear(12, 3))


X = torch.linspace(-1, 1, 24).reshape(4, 6)
RUN = ["aten::linear", "aten::tanh", "aten::layer_norm", "aten::linear"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_whole_graph_compiles_and_its_calls_are_in_one_scope(backend, trace, calls, verify):
    model = network()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad(), goldentrace.record(trace, model):
        first = compiled(X)
        X.neg()
        second = compiled(X)
        X.exp()
    with torch.no_grad():
        want = model(X)
    assert torch.equal(first, want) and torch.equal(second, want)
    recorded = [(call["scope"], call["op"]) for call in calls(trace)]
    assert recorded.count(("", "aten::neg")) == recorded.count(("", "aten::exp")) == 1
    assert {scope.partition(".")[0] for scope, op in recorded} == {"", "<compiled>"}
    if backend == "eager":
        run = [("<compiled>", op) for op in RUN]
        assert recorded == run + [("", "aten::neg")] + run + [("", "aten::exp")]
    verify(trace)


def test_a_layer_of_transformers_compiles_as_a_whole_graph(trace, calls, verify):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(num_hidden_layers=2, **SMALL)
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        want = model(ids, use_cache=False).logits
        model.model.layers[1] = torch.compile(model.model.layers[1], backend="eager", fullgraph=True)
        with goldentrace.record(trace, model):
            got = model(ids, use_cache=False).logits
    assert torch.equal(got, want)
    scopes = [call["scope"] for call in calls(trace) if call["op"] == "aten::linear"]
    assert scopes.count("model.layers.1.<compiled>") == 7
    assert scopes[0] == "model.layers.0.self_attn.q_proj" and scopes[-1] == "lm_head"
    verify(trace)


def test_a_graph_that_breaks_has_the_scopes_of_the_modules_between(trace, calls, verify):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.last(x)

    model = nn.Sequential(torch.compile(Broken(), backend="eager"), nn.Linear(6, 3))
    with torch.no_grad(), goldentrace.record(trace, model):
        model(X)
    scopes = [call["scope"] for call in calls(trace) if call["op"] == "aten::linear"]
    assert scopes == ["0.<compiled>", "0.<compiled>", "1"]
    verify(trace)


class Middle(nn.Module):
    """Changes a buffer that is too large to be checked at every read."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(64, 64)
        self.register_buffer("seen", torch.zeros(64, 64))

    def forward(self, x):
        self.seen.add_(x.detach())
        return torch.relu(self.proj(x)) * 2


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.middle, self.last = nn.Linear(64, 64), Middle(), nn.Linear(64, 64)

    def forward(self, x):
        return self.last(self.middle(x=self.first(x)) + self.middle.seen)


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.linspace(-1, 1, 4096).reshape(64, 64)).square().mean().backward()
        optimizer.step()
    return [tensor.detach().clone() for tensor in (*model.parameters(), *model.buffers())]


def compiled():
    model = Whole()
    model.middle = torch.compile(model.middle, fullgraph=True)
    return model


def test_what_inductor_made_is_an_input_of_the_calls_after_it(trace, calls, verify):
    want = train(compiled())
    torch._dynamo.reset()
    model = compiled()
    with goldentrace.record(trace, model) as recording:
        got = train(model)
    assert all(torch.equal(g, w) for g, w in zip(got, want, strict=True))
    counters = recording.summary()["counters"]
    assert counters["holes"]["value"] == counters["recorder_errors"]["value"] == 0
    recorded = [(call["scope"], call["op"]) for call in calls(trace)]
    # The graph's results and the buffer that it changed; nothing of its own calls, or the compiler's.
    assert {op for scope, op in recorded if scope == "middle.<compiled>"} == {
        "aten::clone", "aten::detach", "aten::copy_"}
    assert recorded.count(("middle.<compiled>", "aten::copy_")) == 2
    assert recorded.count(("first", "aten::linear")) == recorded.count(("last", "aten::linear")) == 2
    assert recorded.count(("", "aten::square")) == 2
    verify(trace)
