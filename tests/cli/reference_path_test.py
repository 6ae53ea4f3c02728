"""`record hf` keeps the reference path by itself, and refuses where it is told to be strict."""

import os

import pytest

from cases import PROMPT

IDS = PROMPT[:12]
NEW = 3

# What transformers would call on sight, with wrong numbers. {package: (distribution, version, files)}
FAKES = {
    "fla": ("flash-linear-attention", "9.9", {
        "__init__.py": "__version__ = '9.9'\n",
        "ops/__init__.py": "",
        "ops/gated_delta_rule.py": """
import torch

def chunk_gated_delta_rule(query, key, value, g, beta, output_final_state=False, **kwargs):
    state = torch.ones(query.shape[0], value.shape[2], query.shape[-1], value.shape[-1])
    return value * 3, state if output_final_state else None

def fused_recurrent_gated_delta_rule(query, key, value, g, beta, initial_state=None, **kwargs):
    return value * 5, initial_state
"""}),
    "causal_conv1d": ("causal_conv1d", "9.9", {"__init__.py": """
def causal_conv1d_fn(hidden_states, weight, bias=None, activation=None, **kwargs):
    return hidden_states * 2

def causal_conv1d_update(hidden_states, conv_state, weight, bias=None, activation=None):
    return hidden_states * 2
"""}),
    "kernels": ("kernels", "0.18.3", {"__init__.py": """
class Anything:
    ALL = 1
    def __init__(self, *arguments, **keywords):
        pass

CUDAProperties = Device = KernelizeFallback = LayerRepository = LocalLayerRepository = Anything
Mode = ROCMProperties = FuncRepository = use_kernel_mapping = Anything
register_kernel_mapping = replace_kernel_forward_from_hub = kernelize = get_kernel = Anything

def use_kernel_forward_from_hub(name):
    def doubled(layer):
        if not isinstance(layer, type):
            return lambda *arguments, **keywords: layer(*arguments, **keywords)
        forward = layer.forward
        layer.forward = lambda self, x, *arguments: forward(self, x, *arguments) * 2
        return layer
    return doubled

def use_kernelized_func(*functions):
    return lambda layer: layer
"""}),
}

pytestmark = pytest.mark.xdist_group("reference path")


@pytest.fixture(scope="module")
def fake_packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    for package, (distribution, version, files) in FAKES.items():
        for name, text in files.items():
            path = folder / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        facts = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (facts / "top_level.txt").write_text(package + "\n")
    return folder


@pytest.fixture(scope="module")
def with_fakes(run, tiny, fake_packages, traces):
    """(answer, trace) of a run with kernel packages on the Python path."""
    path = traces / "with-fakes.fb"
    answer = run("record", "hf", tiny, "--token-ids", ",".join(map(str, IDS)), "--ignore-eos",
                 "--max-new-tokens", NEW, "--strict", "--selfcheck", "-o", path,
                 env={**os.environ, "PYTHONPATH": str(fake_packages), "USE_HUB_KERNELS": "YES"})
    assert answer.status == 0, answer.out + answer.err
    return answer, path


def test_kernel_packages_on_the_path_change_no_call_and_no_hash(with_fakes, tiny, record, calls):
    want = calls(record("without-fakes", tiny, ids=IDS, max_new_tokens=NEW))
    got = calls(with_fakes[1])
    assert len(got) > 3000
    assert got == want


def test_selfcheck_prints_one_line_a_check(with_fakes):
    lines = [line for line in with_fakes[0].out.splitlines() if line.startswith("selfcheck")]
    assert lines == [
        f"selfcheck  on/off ok: {NEW} logit rows bit-equal without recording",
        f"selfcheck  causality ok: {len(IDS) - 1} positions are not moved by a later token",
        f"selfcheck  holes ok: no memory changed outside the {with_fakes[0].out.split()[2]} calls",
        "selfcheck  verify ok: every output hash reproduced"]


def test_strict_refuses_weights_that_the_checkpoint_lacks_and_leaves_no_trace(
        tiny, run, tmp_path):
    from safetensors.torch import load_file, save_file
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((tiny / name).read_bytes())
    tensors = load_file(tiny / "model.safetensors")
    del tensors["model.layers.5.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    trace = tmp_path / "refused.fb"
    answer = run("record", "hf", tmp_path, "--token-ids", "1,2", "--strict", "-o", trace)
    assert answer.status == 2
    assert answer.err.splitlines() == [
        "record: strict: initialised: model.layers.5.mlp.up_proj.weight: the checkpoint lacks it"]
    assert not trace.exists()
