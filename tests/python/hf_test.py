"""`record hf` as a library: the oracle is not disturbed, and its parameters are found in the
checkpoint."""

import json

import pytest
import torch
from goldentrace import RecordingError, hf, record
from goldentrace.checkpoint import Checkpoint
from safetensors.torch import save_file
from torch import nn

PROMPT = [1, 2, 3, 4, 5]
NEW = 3


class Unrecorded:
    """What hf.generate asks of a recording, without one."""

    def step(self, number):
        pass

    def paused(self):
        return torch.no_grad()


@pytest.fixture(scope="module")
def unrecorded(tiny_model):
    made, _, logits = hf.generate(Unrecorded(), tiny_model, PROMPT, NEW)
    return made, torch.stack(logits)


def test_logits_are_the_same_bits_with_and_without_recording(tiny_model, tiny, unrecorded, trace,
                                                             verify):
    made, logits = hf.record_model(tiny_model, PROMPT, trace, folder=tiny,
                                   max_new_tokens=NEW, ignore_eos=True)
    assert made == unrecorded[0]
    assert torch.equal(torch.stack(logits), unrecorded[1])
    verify(trace, tiny)


def test_logits_are_the_same_bits_when_the_recorder_fails(tiny_model, unrecorded, trace):
    kept = {}
    generate = hf.generate

    def keep(*arguments):
        kept["made"], _, kept["logits"] = answer = generate(*arguments)
        return answer

    hf.generate = keep
    try:
        with pytest.raises(RecordingError, match="call 40"):
            hf.record_model(tiny_model, PROMPT, trace, max_new_tokens=NEW, ignore_eos=True,
                            fail_at_call=40)
    finally:
        hf.generate = generate
    assert kept["made"] == unrecorded[0]
    assert torch.equal(torch.stack(kept["logits"]), unrecorded[1])


def test_a_model_stored_as_it_runs_needs_no_values(tiny_model, tiny, trace, parameters):
    with record(trace, tiny_model, checkpoint=Checkpoint(tiny)) as recording:
        pass
    entries = parameters(trace)
    for name, _ in tiny_model.named_parameters():
        assert entries[name]["recipe"] == "same", name
    for name, _ in tiny_model.named_buffers():  # rotary's inv_freq is in no checkpoint
        assert (entries[name]["recipe"], entries[name]["kind"]) == ("value", "buffer"), name
    assert recording.summary()["counters"]["parameters_by_value"]["value"] == 0


def test_a_bfloat16_checkpoint_run_in_float32_is_cast(tiny, trace, parameters, verify):
    model = hf.load(tiny, dtype="float32")
    hf.record_model(model, PROMPT, trace, folder=tiny, dtype="float32", max_new_tokens=2,
                    ignore_eos=True)
    entries = parameters(trace)
    recipes = {entries[name]["recipe"] for name, _ in model.named_parameters()}
    assert recipes <= {"cast", "same"}  # same: what the checkpoint holds in float32 already
    assert entries["lm_head.weight"]["recipe"] == "cast"
    verify(trace, tiny)


class Tied(nn.Module):
    """A head that is the embedding, and a buffer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.linspace(0.5, 1, 8).expand(2, 8))

    def forward(self, ids):
        return self.head(self.embed(ids) * self.scale)


def test_a_tied_head_is_tied_and_a_buffer_is_kept_by_value(tmp_path, trace, parameters, verify):
    model = Tied()
    save_file({"embed.weight": model.embed.weight.detach().clone()},
              tmp_path / "model.safetensors")
    with record(trace, model, checkpoint=Checkpoint(tmp_path)), torch.no_grad():
        model(torch.tensor([3, 7]))
    entries = parameters(trace)
    assert (entries["embed.weight"]["recipe"], entries["embed.weight"]["sources"]) == (
        "same", ["embed.weight"])
    assert (entries["head.weight"]["recipe"], entries["head.weight"]["sources"]) == (
        "tied", ["embed.weight"])
    assert entries["scale"]["recipe"] == "value"
    verify(trace, tmp_path)


def test_a_parameter_under_another_name_is_found_by_its_bytes(tmp_path, trace, parameters, verify):
    model = nn.Sequential(nn.Linear(4, 4))
    save_file({"model." + name: p.detach().clone() for name, p in model.named_parameters()},
              tmp_path / "model.safetensors")
    with record(trace, model, checkpoint=Checkpoint(tmp_path)), torch.no_grad():
        model(torch.ones(2, 4))
    assert parameters(trace)["0.weight"]["sources"] == ["model.0.weight"]
    verify(trace, tmp_path)


def test_a_changed_parameter_is_kept_by_value(tmp_path, trace, parameters, verify):
    model = nn.Sequential(nn.Linear(4, 4))
    save_file({name: p.detach().clone() for name, p in model.named_parameters()},
              tmp_path / "model.safetensors")
    with torch.no_grad():
        model[0].weight[1, 2] += 1
    with record(trace, model, checkpoint=Checkpoint(tmp_path)) as recording, torch.no_grad():
        model(torch.ones(2, 4))
    assert parameters(trace)["0.weight"]["recipe"] == "value"
    assert parameters(trace)["0.bias"]["recipe"] == "same"
    assert recording.summary()["counters"]["parameters_by_value"]["value"] == 1
    verify(trace, tmp_path)


def test_the_last_prompt_token_does_not_move_earlier_logits(tiny_model):
    """The oracle itself is causal; a recording of one that is not would be worth nothing."""
    with torch.no_grad():
        one = tiny_model(torch.tensor([PROMPT])).logits
        other = tiny_model(torch.tensor([PROMPT[:-1] + [77]])).logits
    assert torch.equal(one[:, :-1], other[:, :-1])
    assert not torch.equal(one[:, -1], other[:, -1])


@pytest.mark.parametrize("folder, message", [
    ("none", "no such model folder"), ("empty", "no config.json"), ("bare", "no .safetensors file")])
def test_a_folder_that_is_no_model_is_refused_in_one_line(tmp_path, folder, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/config.json").write_text(json.dumps({}))
    with pytest.raises(hf.InputError, match=message) as caught:
        hf.load(tmp_path / folder)
    assert "\n" not in str(caught.value)


def test_ids_outside_the_vocabulary_are_refused(tiny_model):
    with pytest.raises(hf.InputError, match="1024"):
        hf.check_ids([0, 1024], tiny_model)
