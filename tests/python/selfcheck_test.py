"""`--selfcheck`: each check passes for a sound oracle and fails for the fault it is there for."""


import pytest
import torch
import transformers
from goldentrace import hf, native, scopes, selfcheck
from torch import nn

from cases import SMALL

PROMPT = [3, 141, 59, 26, 5, 35]
NEW = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(num_hidden_layers=2, **SMALL)
    path = tmp_path_factory.mktemp("llama")
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    return path


@pytest.fixture
def model(folder):
    return hf.load(folder)


@pytest.fixture
def options(folder, trace):
    """What `record hf MODEL_DIR --token-ids ... --selfcheck` hands over."""
    run = {"origin": "--token-ids", "output": str(trace), "prompt": None, "prompt_ids": PROMPT,
           "output_text": None, "output_ids": None, "max_new_tokens": NEW}
    return {"model": str(folder), "runs": [run], "dtype": "bfloat16", "attn": "eager",
            "experts": "eager", "device": "cpu", "keep": {}, "dry_run": False,
            "ignore_eos": True, "command": ["record"], "strict": False, "selfcheck": True,
            "replay": None}


@pytest.fixture
def check(options, monkeypatch, capsys):
    """check(model) -> ({check: its line}, names of those that failed) of `record hf` with it."""
    def run(changed):
        monkeypatch.setattr(hf, "load", lambda *arguments: changed)
        status = hf.main(options)
        lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()
                 if line.startswith("selfcheck")]
        assert [line[1] for line in lines] == ["on/off", "causality", "holes", "verify"]
        failed = [name for _, name, text in lines if "FAILED" in text]
        assert status == (2 if failed else 0)
        return {name: text for _, name, text in lines}, failed
    return run


def test_a_sound_oracle_passes_every_check(check, model):
    lines, failed = check(model)
    assert failed == []
    assert lines["on/off"] == "ok: 3 logit rows bit-equal without recording"
    assert lines["causality"] == "ok: 5 positions are not moved by a later token"
    assert lines["verify"] == "ok: every output hash reproduced"


def test_a_model_that_notices_the_recorder_is_found(check, model):
    def louder_when_recorded(module, args, output):
        recorded = torch.nn.Module.__dict__["__call__"] is not scopes.original
        return output * 1.01 if recorded else output

    model.model.norm.register_forward_hook(louder_when_recorded)
    lines, failed = check(model)
    assert failed == ["on/off"]
    assert "the logits of step 0 are others" in lines["on/off"]


def test_attention_to_later_tokens_is_found(check, model):
    def unmask(module, args, kwargs):
        mask = kwargs["attention_mask"]
        if mask is not None:
            kwargs["attention_mask"] = torch.zeros_like(mask)
            kwargs["attention_mask"][..., :3, :] = mask[..., :3, :]
        return args, kwargs

    model.model.layers[1].self_attn.register_forward_pre_hook(unmask, with_kwargs=True)
    lines, failed = check(model)
    assert failed == ["causality"]
    assert "of 2 earlier positions, first position 3, by" in lines["causality"]


def numpy_writer(model):
    """Adds to the embeddings through numpy, which no dispatcher call tells of."""
    def write(module, args, output):
        output.view(torch.int16).numpy()[..., 0] += 1

    model.model.embed_tokens.register_forward_hook(write)
    return model


def test_a_small_write_behind_torchs_back_is_found(check, model):
    lines, failed = check(numpy_writer(model))
    assert failed == ["holes"]  # its bytes are in the trace, so that it reproduces
    assert f"{NEW} writes behind torch's back, first " in lines["holes"]  # one a step


def test_a_large_write_behind_torchs_back_is_found(check, model, options):
    options["runs"][0]["prompt_ids"] = PROMPT * 10
    _, failed = check(numpy_writer(model))
    assert failed == ["holes"]


def test_a_trace_that_does_not_reproduce_is_found(check, model, folder, options, tmp_path):
    from safetensors.torch import load_file, save_file
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][0] += 1
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    record_model = hf.record_model

    def record_then_change(*arguments, **keywords):
        answer = record_model(*arguments, **keywords)
        options["model"] = str(tmp_path)
        return answer

    hf.record_model = record_then_change
    try:
        lines, failed = check(model)
    finally:
        hf.record_model = record_model
    assert failed == ["verify"]
    assert "these are not the parameters that were recorded" in lines["verify"]


def test_the_message_names_each_check_that_failed():
    checks = [selfcheck.Check("on/off", False, "step 2"), selfcheck.Check("holes", True, ""),
              selfcheck.Check("verify", False, "no")]
    with pytest.raises(selfcheck.Failed, match="selfcheck failed: on/off: step 2, verify: no"):
        selfcheck.report(checks)


def test_a_prompt_of_one_token_has_no_causality(model):
    assert selfcheck.causality(model, [3]).text == "not checked: the prompt is one token"


def test_experts_that_get_other_counts_are_no_fault():
    """A token that is routed elsewhere changes the shapes that other tokens' products have."""
    torch.manual_seed(0)
    config = transformers.MixtralConfig(num_hidden_layers=2, num_local_experts=4, **SMALL)
    model = transformers.MixtralForCausalLM(config).to(torch.bfloat16).eval()
    assert all(selfcheck.causality(model, [*PROMPT, last]).ok for last in range(4))


class Rounding(nn.Module):
    """Moves earlier positions by one rounding, with the same shapes or with others."""

    def __init__(self, by_shape):
        super().__init__()
        self.embed = nn.Embedding(64, 8)
        self.by_shape = by_shape
        self.device = torch.device("cpu")

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, use_cache):
        logits = self.embed(input_ids)
        if self.by_shape:
            torch.ones(input_ids[0, -1].item() + 1).sum()
        logits[0, 1] *= 1 + 1e-6 * input_ids[0, -1]
        return transformers.modeling_outputs.CausalLMOutput(logits=logits)


@pytest.mark.parametrize("by_shape", [False, True])
def test_rounding_passes_where_other_shapes_explain_it_only(by_shape):
    assert selfcheck.causality(Rounding(by_shape), [1, 2, 3, 4]).ok == by_shape


def test_bits_are_compared_not_values():
    nan = torch.tensor([float("nan"), 0.0])
    assert selfcheck.same_bits(nan, nan.clone())
    assert not selfcheck.same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not selfcheck.same_bits(torch.zeros(1), torch.zeros(2))


def test_the_recorder_takes_the_order_to_hash_every_read(trace):
    assert native.start(str(trace).encode(), b"{}", b'{"check_reads": true}') == 0
    assert native.stop() == 0
