"""How parameters are found in a checkpoint: fused at load, cast, kept hashes, and used again."""

import json
import os

import pytest
import torch
import transformers
from goldentrace import hf, record
from goldentrace.checkpoint import Checkpoint, Recipe, _Source
from goldentrace.hashes import FILE_NAME
from goldentrace.parameters import KnownParameters
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    """A tiny Qwen3-Next with experts, as transformers writes it: one tensor an expert and projection."""
    torch.manual_seed(0)
    config = transformers.Qwen3NextConfig(
        vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=32, linear_key_head_dim=32,
        linear_value_head_dim=32, linear_num_key_heads=1, linear_num_value_heads=2,
        moe_intermediate_size=32, shared_expert_intermediate_size=32, num_experts=4,
        num_experts_per_tok=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=127,
        pad_token_id=126, layer_types=["linear_attention", "full_attention"])
    folder = tmp_path_factory.mktemp("experts")
    model = transformers.Qwen3NextForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("dtype", "implementation"),
                         [("bfloat16", "eager"), ("float32", "eager"), ("bfloat16", "grouped_mm")])
def test_fused_experts_are_recipes(dtype, implementation, experts, trace, parameters, verify):
    with safe_open(experts / "model.safetensors", framework="pt") as file:
        assert "model.layers.0.mlp.experts.3.up_proj.weight" in file.keys()
    model = hf.load(experts, dtype=dtype, experts=implementation)
    hf.record_model(model, [1, 2, 3], trace, folder=experts, dtype=dtype, max_new_tokens=2)
    entries = parameters(trace)
    values = [name for name, entry in entries.items()
              if (entry["kind"], entry["recipe"]) == ("parameter", "value")]
    assert values == []
    prefix = "model.layers.0.mlp.experts."
    gate_up, down = entries[prefix + "gate_up_proj"], entries[prefix + "down_proj"]
    assert (gate_up["recipe"], down["recipe"]) == ("concat", "stack")
    assert gate_up["sources"][:3] == [f"{prefix}0.gate_proj.weight", f"{prefix}0.up_proj.weight",
                                      f"{prefix}1.gate_proj.weight"]
    assert down["sources"] == [f"{prefix}{i}.down_proj.weight" for i in range(4)]
    verify(trace, experts)


def test_a_model_without_experts_refuses_an_implementation_for_them(tiny):
    with pytest.raises(hf.InputError, match="--experts grouped_mm"):
        hf.load(tiny, experts="grouped_mm")


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of two projections [4, 6] and a norm [6] in bfloat16."""
    torch.manual_seed(0)
    save_file({"gate": torch.randn(4, 6).bfloat16(), "up": torch.randn(4, 6).bfloat16(),
               "norm": torch.randn(6).bfloat16()}, tmp_path / "model.safetensors")
    return tmp_path


def test_parameters_are_found_by_their_parts(folder):
    tensors = load_file(folder / "model.safetensors")
    gate, up = tensors["gate"], tensors["up"]
    cases = [
        ("as it is", gate, (Recipe.SAME, ["gate"])),
        ("cast", gate.float(), (Recipe.CAST, ["gate"])),
        ("in another shape", up.reshape(2, 12), (Recipe.CONCAT, ["up"])),
        ("two halves", torch.cat([gate, up]), (Recipe.CONCAT, ["gate", "up"])),
        ("stacked", torch.stack([up, gate, up]), (Recipe.STACK, ["up", "gate", "up"])),
        ("stacked and cast", torch.stack([up, gate, up]).float(),
         (Recipe.STACK, ["up", "gate", "up"])),
        ("slices of two halves", torch.stack([torch.cat([gate, up]), torch.cat([up, up]),
                                              torch.cat([up, gate])]),
         (Recipe.CONCAT, ["gate", "up", "up", "up", "up", "gate"])),
        ("a part that is unknown", torch.cat([gate, up + 1]), (Recipe.VALUE, [])),
        ("nothing", torch.empty(0, 6), (Recipe.VALUE, [])),
        ("a number", torch.tensor(1.0), (Recipe.VALUE, [])),
    ]
    checkpoint = Checkpoint(folder)
    for why, tensor, want in cases:
        assert checkpoint.recipe("p", tensor) == want, why
        assert checkpoint.recipe("up", tensor) == want, why  # nor does a wrong name mislead


def reads(monkeypatch):
    """Counts the tensors that are read from checkpoints from now on."""
    names = []
    hash_as = _Source.hash_as

    def counted(self, dtype):
        handle, self._handle = self._handle, None

        class Watched:
            def get_tensor(self, name):
                names.append(name)
                return handle.get_tensor(name)

        self._handle = Watched()
        try:
            return hash_as(self, dtype)
        finally:
            self._handle = handle

    monkeypatch.setattr(_Source, "hash_as", counted)
    return names


def search(folder):
    gate = load_file(folder / "model.safetensors")["gate"]
    checkpoint = Checkpoint(folder)
    answers = [checkpoint.recipe("other", gate), checkpoint.recipe("gate", gate.float())]
    checkpoint.save()
    assert answers == [(Recipe.SAME, ["gate"]), (Recipe.CAST, ["gate"])]


def test_a_second_load_reads_no_checkpoint_bytes(folder, monkeypatch):
    names = reads(monkeypatch)
    search(folder)
    assert sorted(names) == ["gate", "gate", "up"]
    names.clear()
    search(folder)
    assert names == []
    kept = json.loads((folder / FILE_NAME).read_text())["files"]["model.safetensors"]
    assert set(kept["tensors"]["gate"]["cast"]) == {"float32"}
    assert "hash" not in kept["tensors"]["norm"]  # nothing asked for it
    assert [file.name for file in folder.iterdir() if file.name.startswith("goldentrace")] == [
        FILE_NAME]


def test_a_changed_file_is_hashed_anew(folder):
    search(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["gate"] = tensors["gate"] + 1
    before = (folder / "model.safetensors").stat()
    save_file(tensors, folder / "model.safetensors")
    os.utime(folder / "model.safetensors", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    search(folder)


@pytest.mark.parametrize("text", [
    "", "no JSON", "[]", "{}", '{"version": 1}', '{"version": 1, "files": 3}', "[" * 100000,
    '{"version": 1, "files": {"model.safetensors": []}}'])
def test_a_damaged_file_of_hashes_is_ignored_and_replaced(text, folder):
    (folder / FILE_NAME).write_text(text)
    search(folder)
    assert json.loads((folder / FILE_NAME).read_text())["version"] == 1


def test_damaged_entries_are_ignored(folder):
    search(folder)
    good = json.loads((folder / FILE_NAME).read_text())
    for entry in (3, {}, {"dtype": "F32", "shape": [4, 6], "hash": "0" * 32},
                  {"dtype": "BF16", "shape": [4, 6], "hash": 5, "cast": {"float32": "x"}}):
        good["files"]["model.safetensors"]["tensors"]["gate"] = entry
        (folder / FILE_NAME).write_text(json.dumps(good))
        search(folder)


def test_a_folder_that_can_not_be_written_is_no_fault(folder, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr("tempfile.mkstemp", refuse)  # root may write anywhere
    search(folder)
    assert not (folder / FILE_NAME).exists()


def test_known_parameters_are_hashed_once_and_anew_when_they_change(tmp_path, parameters,
                                                                    monkeypatch):
    model = nn.Sequential(nn.Linear(4, 4))
    save_file({name: p.detach().clone() for name, p in model.named_parameters()},
              tmp_path / "model.safetensors")
    from goldentrace import native
    hashed = []
    tensor_hash = native.tensor_hash
    monkeypatch.setattr(native, "tensor_hash", lambda t: hashed.append(t) or tensor_hash(t))
    known = KnownParameters(Checkpoint(tmp_path))

    def record_once():
        hashed.clear()
        with record(tmp_path / "trace.fb", model, parameters=known):
            pass
        entries = parameters(tmp_path / "trace.fb")
        return {name: entry["recipe"] for name, entry in entries.items()}

    assert record_once() == {"0.weight": "same", "0.bias": "same"}
    assert len(hashed) == 4  # both, in the model and in the checkpoint
    first = parameters(tmp_path / "trace.fb")
    assert record_once() == {"0.weight": "same", "0.bias": "same"}
    assert hashed == []
    assert parameters(tmp_path / "trace.fb") == first
    with torch.no_grad():
        model[0].weight[1, 2] += 1
    assert record_once() == {"0.weight": "value", "0.bias": "same"}
    model[0].bias = nn.Parameter(torch.ones(4))
    assert record_once() == {"0.weight": "value", "0.bias": "value"}
