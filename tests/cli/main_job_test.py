"""Record, prove, replay: the main job on transformers' own models, by the real programs."""

import json
import subprocess
import sys

import planted_fault
import pytest
import torch
import transformers

from cases import NEW_TOKENS, PROMPT, SMALL
from paths import BUILD, ROOT

@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """model_folder(kind) -> a tiny random checkpoint of that architecture."""
    def make(kind, tied=False):
        torch.manual_seed(0)
        if kind == "llama":
            config = transformers.LlamaConfig(num_hidden_layers=3, tie_word_embeddings=tied, **SMALL)
            model = transformers.LlamaForCausalLM(config)
        else:
            config = transformers.Qwen3Config(num_hidden_layers=4, head_dim=64,
                                              tie_word_embeddings=tied, **SMALL)
            model = transformers.Qwen3ForCausalLM(config)
        folder = tmp_path_factory.mktemp(kind)
        model.to(torch.bfloat16).save_pretrained(folder)
        return folder
    return make


def assert_reproduced(answer, report, least_calls):
    assert answer.status == 0, answer.out + answer.err
    assert "every output hash reproduced" in answer.out
    assert report["calls"] == report["executed"] > least_calls
    assert report["not_executable"] == 0
    assert report["hashes"] == report["hashes_equal"] > least_calls / 2
    assert report["views"] == report["views_equal"] > 0
    assert report["scalars"] == report["scalars_equal"] > 0


def test_verify_reproduces_every_hash_of_qwen35(gold, tiny, verify):
    answer, report = verify(gold, tiny)
    assert_reproduced(answer, report, least_calls=9000)
    assert report["parameters"] == 111


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_verify_reproduces_every_hash_of_other_models(kind, model_folder, record, verify):
    folder = model_folder(kind)
    answer, report = verify(record(kind, folder), folder)
    assert_reproduced(answer, report, least_calls=1500)


def test_verify_reproduces_a_float32_run_of_a_bfloat16_checkpoint_with_a_tied_head(
        model_folder, record, verify, run):
    folder = model_folder("qwen3", tied=True)
    trace = record("cast", folder, dtype="float32")
    assert_reproduced(*verify(trace, folder), least_calls=1500)
    rows = [json.loads(line)
            for line in run("replay", "show", trace, "--params", "--json").out.splitlines()]
    recipes = {row["name"]: row["recipe"] for row in rows}
    assert recipes["model.layers.0.mlp.up_proj.weight"] == "cast"
    assert recipes["lm_head.weight"] == "tied"
    assert recipes["model.rotary_emb.inv_freq"] == "value"


def test_verify_with_other_weights_names_them(gold, tiny, verify, tmp_path):
    from safetensors.torch import load_file, save_file
    tensors = load_file(tiny / "model.safetensors")
    tensors["model.layers.5.mlp.up_proj.weight"][3, 7] += 1
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    answer, report = verify(gold, tmp_path)
    assert answer.status == 1
    assert report["wrong_parameters"] == ["model.layers.5.mlp.up_proj.weight"]


def test_the_same_run_recorded_twice_is_bit_identical(gold, tiny, record, replay):
    answer, report = replay(record("again", tiny), gold)
    assert answer.status == 0, answer.out
    assert "bit-identical" in answer.out.splitlines()[0]
    ops = report["ops"]
    assert report["verdict"] == "identical"
    assert ops["outputs"] == ops["identical"] > 4000
    assert ops["matched"] == ops["oracle_calls"] == ops["candidate_calls"]


@pytest.mark.parametrize("rules", [[], ["scope=**:values"]], ids=["stats", "values"])
def test_sdpa_against_eager_is_in_band(rules, tiny, record, replay):
    name = "values" if rules else "stats"
    oracle = record(f"eager-{name}", tiny, rules=rules, max_new_tokens=4)
    answer, report = replay(record(f"sdpa-{name}", tiny, attn="sdpa", rules=rules,
                                   max_new_tokens=4), oracle)
    assert answer.status == 0, answer.out
    ops = report["ops"]
    # Random weights make near ties; which token a tie takes is no difference.
    assert report["verdict"] in ("in_band", "tie")
    assert report["tokens"]["compared_equal"] >= 1
    assert report["logits"]["status"] == "ok"
    assert ops["out_of_band"] == 0
    assert ops["differing_calls"] > 1000
    assert f"{ops['differing_calls']:,} calls not bit-identical" in answer.out
    assert ops["unmatched_oracle"] > 0  # eager attention's own calls
    assert ops["in_band"] > 1000 and (ops["by_sketch"] >= ops["in_band"]) == (not rules)


def test_another_thread_count_is_in_band(gold, tiny, record, replay):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trace = record("one-thread", tiny)
    finally:
        torch.set_num_threads(threads)
    answer, report = replay(trace, gold)
    assert answer.status == 0, answer.out
    assert report["ops"]["out_of_band"] == 0


# Fault, layer that it is planted in, module that the report must name.
FAULTS = [
    ("norm-without-one", 2, "model.layers.2.post_attention_layernorm"),
    ("norm-without-one", 7, "model.layers.7.post_attention_layernorm"),
    ("gelu-for-silu", 3, "model.layers.3.mlp"),
    ("lost-state", 4, "model.layers.4.linear_attn"),
]


@pytest.mark.parametrize(("fault", "layer", "module"), FAULTS)
def test_a_planted_fault_is_found_in_its_own_module(fault, layer, module, gold, tiny, record, replay):
    trace = record(f"{fault}-{layer}", tiny,
                   change=lambda model: planted_fault.FAULTS[fault](model.model.layers[layer]))
    answer, report = replay(trace, gold)
    assert answer.status == 1
    assert report["verdict"] == "ops_out_of_band"
    assert report["ops"]["first_out_of_band"]["scope"] == module
    assert module in answer.out.splitlines()[0]
    # What was before it is fine, and said to be.
    assert report["ops"]["compared_before_first"] == report["ops"]["identical_before_first"] > 300


def test_a_missing_call_is_named(gold, tiny, record, replay):
    trace = record("missing", tiny, change=lambda model: planted_fault.FAULTS["norm-without-one"](
        model.model.layers[1]))
    _, report = replay(trace, gold)
    assert [call["op"] for call in report["ops"]["missing_in_module"]] == ["aten::add.Tensor"]


def test_another_eps_is_found_although_its_numbers_are_in_band(gold, tiny, record, replay):
    trace = record("eps", tiny, change=lambda model: planted_fault.FAULTS["wrong-eps"](
        model.model.layers[3]))
    answer, report = replay(trace, gold)
    assert answer.status == 1
    assert report["verdict"] == "structure_differs"
    assert report["ops"]["first_constant"]["scope"] == "model.layers.3.input_layernorm"
    assert report["ops"]["first_constant"]["oracle"] == 1e-6
    assert report["ops"]["first_constant"]["candidate"] == 1e-5


def test_other_weights_are_blamed_on_the_weights(gold, tiny, record, replay):
    trace = record("int8", tiny, change=lambda model: planted_fault.FAULTS["int8-weights"](
        model.model.layers[2]))
    answer, report = replay(trace, gold)
    assert answer.status == 1
    assert report["verdict"] == "weights_differ"
    assert report["weights"]["details"] == ["differs: model.layers.2.mlp.up_proj.weight"]


def test_another_prompt_is_blamed_on_the_inputs_and_nothing_else(gold, tiny, record, replay):
    answer, report = replay(record("prompt", tiny, ids=[1, 2, 3], max_new_tokens=2), gold)
    assert answer.status == 1
    assert report["verdict"] == "inputs_differ"
    assert report["ops"]["outputs"] == 0


def test_step_and_scope_of_every_call_are_known(gold, calls):
    rows = calls(gold)
    assert sorted({row["step"] for row in rows}) == list(range(9))
    scopes = {row["scope"] for row in rows}
    assert {"model.layers.0.linear_attn", "model.layers.3.self_attn.q_proj", "lm_head"} <= scopes
    linear = [row for row in rows if row["op"] == "aten::linear"]
    assert linear and all(row["scope"] for row in linear)
    assert all(row["executable"] and not row["failed"] for row in rows)


def test_the_tokens_are_those_that_transformers_generates(gold, tiny, run):
    model = transformers.Qwen3_5ForCausalLM.from_pretrained(
        tiny, dtype=torch.bfloat16, attn_implementation="eager").eval()
    want = model.generate(torch.tensor([PROMPT]), max_new_tokens=NEW_TOKENS, do_sample=False,
                          eos_token_id=None, pad_token_id=0)[0, len(PROMPT):].tolist()
    tokens = json.loads(run("replay", "show", gold, "--tokens", "--json").out)
    assert tokens["requests"][0]["prompt_ids"] == PROMPT
    assert tokens["requests"][0]["output_ids"] == want
    assert [step["chosen"] for step in tokens["steps"]] == want
    assert all(step["top_ids"][0] == step["chosen"] for step in tokens["steps"])


def test_a_debug_build_records_as_many_calls_as_a_release_build(gold, tiny, run, tmp_path):
    dev = BUILD / "dev" / "bin" / "record"
    if not dev.exists():
        pytest.skip("no dev build beside the release build; `make test` makes it")
    path = tmp_path / "dev.fb"
    done = subprocess.run([dev, "hf", tiny, "--token-ids", "@" + str(gold.parent / "ids.txt"),
                           "--max-new-tokens", "9", "--ignore-eos", "-o", path],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = [json.loads(run("replay", "show", trace, "--json").out)["calls"]
              for trace in (gold, path)]
    assert counts[0] == counts[1] > 9000


def test_the_demo_names_the_faulty_module():
    done = subprocess.run(["sh", ROOT / "examples" / "demo.sh", BUILD, sys.executable],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every output hash reproduced" in done.stdout
    assert "DIVERGE  kernel: model.layers.2.post_attention_layernorm computes something else" in done.stdout
