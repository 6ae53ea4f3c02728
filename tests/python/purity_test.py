"""What an oracle runs is named module by module, and nothing that is not its authors' code passes
as pure."""

import functools
import importlib.util
import json
import sys
import types

import goldentrace
import pytest
import torch
import transformers
from goldentrace import hf, purity
from torch import nn
from transformers.integrations import hub_kernels

from cases import SMALL

MODEL = "transformers.models.qwen3_5.modeling_qwen3_5."
IDS = torch.tensor([[1, 2, 3]])


def package(name, source):
    """A module `name` of some package that is not installed, with functions of its own."""
    module = types.ModuleType(name)
    exec(source, module.__dict__)
    return module


FAST = package("fastpkg.ops", '''
import torch

class FastMLP(torch.nn.Module):
    def __init__(self, mlp):
        super().__init__()
        self.mlp = mlp

    def forward(self, x):
        return self.mlp(x)

def forward(self, x, *args, **kwargs):
    return x

def function(x, *args, **kwargs):
    return x

def before(module, args):
    return None

def after(module, args, output):
    return None
''')


@pytest.fixture
def llama():
    config = transformers.LlamaConfig(num_hidden_layers=2, **SMALL)
    return transformers.LlamaForCausalLM(config).eval()


def test_the_oracle_is_pure_and_every_module_is_named(tiny_model):
    modules, impurities = purity.inspect_model(tiny_model)
    assert impurities == []
    assert set(modules) == dict(tiny_model.named_modules()).keys()
    assert modules[""] == MODEL + "Qwen3_5ForCausalLM"
    assert modules["model.layers.0.linear_attn"] == MODEL + "Qwen3_5GatedDeltaNet"
    assert modules["model.layers.3.self_attn"] == MODEL + "Qwen3_5Attention attention=eager"
    assert modules["lm_head"] == "torch.nn.modules.linear.Linear"
    assert purity.warnings_of(tiny_model, impurities) == []


# Each puts something in the place of the model's code; what must be said of it.
def replace_forward(model, monkeypatch):
    mlp = model.model.layers[1].mlp
    monkeypatch.setattr(mlp, "forward", types.MethodType(FAST.forward, mlp), raising=False)
    return "model.layers.1.mlp: runs fastpkg.ops.forward"


def wrap_forward(model, monkeypatch):
    mlp = model.model.layers[1].mlp
    wrapper = functools.wraps(mlp.forward)(functools.partial(FAST.forward, mlp.forward))
    monkeypatch.setattr(mlp, "forward", wrapper, raising=False)
    return "model.layers.1.mlp: runs fastpkg.ops.forward"


def replace_forward_of_the_class(model, monkeypatch):
    monkeypatch.setattr(type(model.model.norm), "forward", FAST.forward)
    return "model.norm: runs fastpkg.ops.forward"


def replace_a_method(model, monkeypatch):
    """transformers' own forward, that calls it, is untouched."""
    attention = type(model.model.layers[0].self_attn)
    monkeypatch.setattr(sys.modules[attention.__module__], "eager_attention_forward", FAST.function)
    return "model.layers.0.self_attn: runs fastpkg.ops.function"


def replace_a_function_below_a_function(model, monkeypatch):
    attention = type(model.model.layers[0].self_attn)
    monkeypatch.setattr(sys.modules[attention.__module__], "rotate_half", FAST.function)
    return "model.layers.0.self_attn: runs fastpkg.ops.function"


def fall_back_to_a_package(model, monkeypatch):
    """As transformers does it by itself where `fla` can be imported."""
    monkeypatch.setitem(sys.modules, "fastpkg", FAST)
    attention = sys.modules[type(model.model.layers[0].self_attn).__module__]
    found = hub_kernels.use_kernel_func_from_hub_with_fallback("function", "fastpkg")
    monkeypatch.setattr(attention, "apply_rotary_pos_emb", found(attention.apply_rotary_pos_emb))
    assert attention.apply_rotary_pos_emb.__module__ == attention.__name__  # it looks innocent
    return "model.layers.0.self_attn: runs fastpkg.ops.function"


def set_a_function_attribute(model, monkeypatch):
    monkeypatch.setattr(model.model.layers[0].self_attn, "causal_conv1d_fn", FAST.function,
                        raising=False)
    return "model.layers.0.self_attn: causal_conv1d_fn runs fastpkg.ops.function"


def put_another_module_in(model, monkeypatch):
    layer = model.model.layers[0]
    monkeypatch.setitem(layer._modules, "mlp", FAST.FastMLP(layer.mlp))
    return "model.layers.0.mlp: runs fastpkg.ops.FastMLP, which transformers does not put there"


def register_an_attention(model, monkeypatch):
    transformers.AttentionInterface.register("fast", FAST.function)
    monkeypatch.setattr(model.config, "_attn_implementation_internal", "fast")
    return "model.layers.0.self_attn: runs attention fast"


def hook_before(model, monkeypatch):
    model.model.norm.register_forward_pre_hook(FAST.before)
    return "model.norm: forward pre-hook fastpkg.ops.before"


def hook_after(model, monkeypatch):
    model.model.norm.register_forward_hook(functools.partial(FAST.after))
    return "model.norm: forward hook fastpkg.ops.after"


def hook_every_module(model, monkeypatch):
    hooks = nn.modules.module._global_forward_hooks
    monkeypatch.setitem(hooks, -1, FAST.after)
    return "(every module): forward hook fastpkg.ops.after"


def replace_a_function_of_torch(model, monkeypatch):
    monkeypatch.setattr(nn.functional, "silu", FAST.function)
    return "torch.nn.functional.silu: runs fastpkg.ops.function"


def compile_in_place(model, monkeypatch):
    model.model.norm.compile(backend="eager")
    return "model.norm: runs a compiled region (torch.compile)"


def compile_forward(model, monkeypatch):
    norm = model.model.norm
    norm.forward = torch.compile(norm.forward, backend="eager")
    return "model.norm: runs a compiled region (torch.compile)"


def compile_a_module(model, monkeypatch):
    model.model.norm = torch.compile(model.model.norm, backend="eager")
    return "model.norm: runs a compiled region (torch.compile)"


def script_a_module(model, monkeypatch):
    model.model.layers[0].mlp.act_fn = torch.jit.script(nn.SiLU())
    return "model.layers.0.mlp.act_fn: runs TorchScript (torch.jit)"


@pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:.*torch.compile")
@pytest.mark.parametrize("change", [
    replace_forward, wrap_forward, replace_forward_of_the_class, replace_a_method,
    replace_a_function_below_a_function, fall_back_to_a_package, set_a_function_attribute,
    put_another_module_in, register_an_attention, hook_before, hook_after, hook_every_module,
    replace_a_function_of_torch, compile_in_place, compile_forward, compile_a_module,
    script_a_module])
def test_what_takes_the_place_of_the_models_code_is_named_with_its_place(change, llama, monkeypatch):
    assert purity.inspect_model(llama)[1] == []
    wrong = change(llama, monkeypatch)
    assert wrong in purity.inspect_model(llama)[1]


def test_what_replaces_a_forward_is_part_of_the_implementations_name(llama):
    mlp = llama.model.layers[0].mlp
    mlp.forward = types.MethodType(FAST.forward, mlp)
    modules, _ = purity.inspect_model(llama)
    assert modules["model.layers.0.mlp"].endswith(".LlamaMLP, forward by fastpkg.ops.forward")
    assert modules["model.layers.1.mlp"].endswith(".LlamaMLP")


def test_the_experts_implementation_is_named():
    config = transformers.MixtralConfig(num_hidden_layers=1, num_local_experts=4, **SMALL)
    config._experts_implementation = "grouped_mm"
    model = transformers.MixtralForCausalLM(config)
    modules, impurities = purity.inspect_model(model)
    assert impurities == []
    assert any(name.endswith("MixtralExperts experts=grouped_mm") for name in modules.values())
    config._experts_implementation = "deepgemm"
    assert any("runs experts deepgemm" in text for text in purity.inspect_model(model)[1])


class Own(nn.Module):
    """Whose forward is chosen at construction, and which hooks itself."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.forward = self.fast
        self.norm.register_forward_hook(lambda module, args, output: None)

    def fast(self, x):
        return FAST.function(self.norm(x))


class Own2(Own):
    pass


def test_a_class_of_the_users_is_its_own_reference():
    modules, impurities = purity.inspect_model(nn.Sequential(Own(), Own2(), nn.Dropout(0.5)))
    assert modules["1"] == f"{__name__}.Own2"
    # The hook stands on a module of torch's, which would not have it.
    assert impurities == [f"{i}.norm: forward hook {__name__}.Own.__init__.<locals>.<lambda>"
                          for i in range(2)]


class Odd(nn.Module):
    """Can't be looked at as other modules can."""

    @property
    def forward(self):
        raise ValueError("not yet")


def test_a_module_that_can_not_be_inspected_is_not_called_pure(trace):
    model = nn.Sequential(Odd()).eval()
    model[0]._forward_hooks = None
    assert ["0: can't be inspected" in text for text in purity.inspect_model(model)[1]] == [True]
    with goldentrace.record(trace, model):
        torch.ones(2)


def test_weight_norm_is_torchs_own():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    assert purity.inspect_model(nn.Sequential(layer))[1] == []


# ---- warnings -------------------------------------------------------------------------------------

@pytest.fixture
def warnings_in(replay):
    """warnings_in(trace): all that are stored."""
    return lambda trace: json.loads(replay("show", trace, "--json").stdout)["warnings"]


def test_training_and_dropout_are_recorded_as_warnings(trace, replay, warnings_in):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Dropout(0.0))
    with goldentrace.record(trace, model):
        model(torch.ones(2, 4))
    assert warnings_in(trace) == [
        "training: (root): training mode is on, and in 3 modules more",
        "dropout: 1: dropout is active"]
    assert "oracle warned: training: (root) training mode is on" in replay("show", trace).stdout
    with goldentrace.record(trace, model.eval()):
        model(torch.ones(2, 4))
    assert warnings_in(trace) == []


def test_attention_dropout_counts(llama):
    for layer in llama.model.layers:
        layer.self_attn.attention_dropout = 0.1
    assert purity.warnings_of(llama, []) == []
    llama.model.layers[1].train()
    assert "dropout: model.layers.1.self_attn: dropout is active" in purity.warnings_of(llama, [])


def test_strict_refuses_before_anything_is_written(trace, llama):
    llama.train()
    with pytest.raises(goldentrace.RecordingError, match=r"strict: training: \(root\)"):
        with goldentrace.record(trace, llama, strict=True):
            pytest.fail("recorded")
    assert not trace.exists()
    llama.eval()
    llama.model.norm.register_forward_hook(FAST.after)
    with pytest.raises(goldentrace.RecordingError, match="impure: model.norm: forward hook"):
        with goldentrace.record(trace, llama, strict=True):
            pytest.fail("recorded")
    assert not trace.exists()
    with goldentrace.record(trace, nn.Linear(2, 2).eval(), strict=True):
        torch.ones(1)
    assert trace.exists()


@pytest.fixture
def llama_folder(llama, tmp_path):
    """save(change) -> folder of a checkpoint whose tensors `change` altered."""
    def save(change):
        from safetensors.torch import load_file, save_file
        llama.to(torch.bfloat16).save_pretrained(tmp_path)
        tensors = load_file(tmp_path / "model.safetensors")
        change(tensors)
        save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
        return tmp_path
    return save


def test_weights_that_the_checkpoint_lacks_are_named(llama_folder, trace):
    def change(tensors):
        del tensors["model.layers.1.mlp.up_proj.weight"]
        tensors["model.extra.weight"] = torch.ones(3)

    model = hf.load(llama_folder(change))
    warnings = purity.warnings_of(model, [])
    assert warnings == [
        "initialised: model.layers.1.mlp.up_proj.weight: the checkpoint lacks it",
        "unexpected: model.extra.weight: in the checkpoint, not in the model"]
    assert purity.refusals(warnings) == warnings[:1]


def test_a_tied_head_that_the_checkpoint_lacks_is_no_warning(tmp_path):
    config = transformers.LlamaConfig(num_hidden_layers=1, **SMALL, tie_word_embeddings=True)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    assert purity.warnings_of(hf.load(tmp_path), []) == []


# ---- the reference path ----------------------------------------------------------------------------

def test_kernel_packages_can_not_be_imported():
    for name in ("fla", "causal_conv1d", "kernels", "flash_attn", "flash_attn_2_cuda", "mamba_ssm",
                 "xformers", "liger_kernel"):
        assert importlib.util.find_spec(name) is None, name
        with pytest.raises(ImportError):
            __import__(name)


def test_packages_that_were_imported_before_are_put_away(monkeypatch):
    for name in ("fla", "fla.ops"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    purity.force_reference()
    with pytest.raises(ImportError):
        import fla.ops  # noqa: F401
    with pytest.raises(ImportError):
        importlib.import_module("fla.ops")


def test_an_impure_oracle_is_said_to_be_one(tiny, tmp_path, trace, replay):
    """In the report of every candidate that is held against it; a pure one is not."""
    model = hf.load(tiny)
    mlp = model.model.layers[2].mlp
    mlp.forward = types.MethodType(FAST.forward, mlp)
    pure = tmp_path / "pure.fb"
    hf.record_model(model, [1, 2, 3], trace, folder=tiny, max_new_tokens=1)
    del mlp.forward
    hf.record_model(model, [1, 2, 3], pure, folder=tiny, max_new_tokens=1)

    row = "  oracle not pure: model.layers.2.mlp runs fastpkg.ops.forward\n"
    report = tmp_path / "report.json"
    against_impure = replay(pure, "--against", trace, "--json", report).stdout
    assert row in against_impure
    lines = against_impure.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["oracle", "candidate", "oracle"]
    assert json.loads(report.read_text())["oracle"]["not_pure"] == [
        "model.layers.2.mlp: runs fastpkg.ops.forward"]
    assert row in replay("verify", trace, "--weights", tiny).stdout
    assert row.strip() in replay("show", trace).stdout
    assert "not pure" not in replay(trace, "--against", pure).stdout  # the candidate is what it is
    assert "not pure" not in replay("verify", pure, "--weights", tiny).stdout
    assert "not pure" not in replay("show", pure).stdout


