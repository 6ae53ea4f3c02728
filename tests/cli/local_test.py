"""Replay with weights: every call of the candidate is judged from its own inputs. Planted faults are
named where they are, and nothing else is; what a correct engine may do is told from them."""

import dataclasses
import functools

import pytest
import torch

import models
from faults.plants import CLEAN, FAULTS, POLICIES, QWEN3, QWEN3_NEXT

STEPS = 4
VALUES = ["scope=**:values"]


@pytest.fixture(scope="module")
def local_gold(record, tiny):
    """The oracle's trace keeps no values: they are computed again from the weights."""
    return record("local-gold", tiny, max_new_tokens=STEPS)


@pytest.fixture(scope="module")
def fed(local_gold):
    import goldentrace
    return goldentrace.open(local_gold).requests[0].output_ids


@pytest.fixture(scope="module")
def judge(record, replay, tiny, local_gold, fed):
    """judge(name, changes, more arguments...) -> (Answer, report) of a run along the oracle's tokens."""
    def judge_here(name, plants, *arguments, folder=tiny, gold=local_gold, tokens=None, **more):
        options = functools.reduce(lambda all, plant: {**all, **plant.options}, plants, {})
        threads = options.pop("threads", None)
        before = torch.get_num_threads()
        if threads:
            torch.set_num_threads(threads)
        try:
            trace = record(name, folder, change=lambda m: [plant.change(m) for plant in plants],
                           rules=VALUES, forced=tokens or fed, max_new_tokens=None,
                           **options, **more)
        finally:
            torch.set_num_threads(before)
        answer, report = replay(trace, gold, "--weights", folder, *arguments)
        assert report is not None, answer.err
        assert report["local"]["lost"] == {} and report["local"]["wrong_parameters"] == []
        trace.unlink()
        return answer, report
    return judge_here


def modules(report, zone):
    """Every module that a finding of this zone names."""
    found = {scope for finding in report["local"]["findings"] if finding["zone"] == zone
             for scope in finding["scopes"]}
    constant = report["ops"]["first_constant"]
    return found | {constant["scope"]} if zone == "fault" and constant else found


def related(scope, module):
    return scope == module or scope.startswith(module + ".") or module.startswith(scope + ".")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_where_it_is_and_nothing_else_is(name, judge):
    plant = FAULTS[name]
    answer, report = judge(f"local-{name}".replace(" ", "-").replace("%", ""), [plant])
    assert answer.status == 1, answer.out
    found = modules(report, "fault")
    assert found and all(any(related(scope, module) for module in plant.modules)
                         for scope in found), found
    assert len(answer.out.splitlines()) <= 25


@pytest.mark.parametrize("name", POLICIES)
def test_rounding_at_other_points_is_a_policy_and_no_fault(name, judge):
    plant = POLICIES[name]
    answer, report = judge(f"policy-{name}".replace(" ", "-"), [plant])
    assert answer.status == 0, answer.out
    assert report["verdict"] == "rounding_policy" and modules(report, "fault") == set()
    found = modules(report, "rounding_policy")
    assert found and all(any(related(scope, module) for module in plant.modules)
                         for scope in found), found


def test_a_policy_is_a_difference_where_that_is_asked_for(judge):
    answer, report = judge("policy-strict", [POLICIES["1+w in bf16"]], "--strict")
    assert answer.status == 1 and report["exit"] == 1
    assert answer.out.startswith("DIVERGE  rounding policy: model.layers.5.input_layernorm")


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_run_is_silent(name, judge):
    answer, report = judge(f"clean-{name}".replace(" ", "-"), [CLEAN[name]])
    assert answer.status == 0, answer.out
    assert report["local"]["findings"] == []
    # Attention's own calls have other forms in sdpa; in float32 nothing is cast.
    least = 0.25 if name == "float32" else 0.9
    assert report["local"]["compared"] > least * report["local"]["outputs"] > 700


@pytest.mark.parametrize("length", [1, 7, 63, 64, 65, 130, 200])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_clean_run_is_silent_on_prompts_of_any_length(length, attention, judge, record, tiny):
    import goldentrace
    ids = [(7 * i + length) % 1000 for i in range(length)]
    gold = record(f"local-gold-{length}-{attention}", tiny, ids=ids, max_new_tokens=3)
    tokens = goldentrace.open(gold).requests[0].output_ids
    answer, report = judge(f"clean-{length}-{attention}", [], gold=gold, tokens=tokens, ids=ids,
                           attn=attention)
    assert answer.status == 0, answer.out
    assert report["local"]["findings"] == []


IDS = [(37 * i * i + 11) % 500 for i in range(70)]


@pytest.fixture(scope="module", params=["qwen3", "qwen3_next"])
def other(request, record, tmp_path_factory):
    """(its name, arguments for judge) of another architecture."""
    import goldentrace
    folder = tmp_path_factory.mktemp(request.param)
    models.make(getattr(models, request.param)).save_pretrained(folder)
    gold = record(f"gold-{request.param}", folder, ids=IDS, max_new_tokens=STEPS)
    tokens = goldentrace.open(gold).requests[0].output_ids
    return request.param, dict(folder=folder, gold=gold, tokens=tokens, ids=IDS)


@pytest.mark.parametrize("options", [{}, {"attn": "sdpa"}, {"dtype": "float32"}, {"threads": 1}],
                         ids=str)
def test_clean_runs_of_other_models_are_silent(options, other, judge):
    name, arguments = other
    clean = dataclasses.replace(CLEAN["again"], options=options)
    answer, report = judge(f"{name}-clean", [clean], **arguments)
    assert answer.status == 0, answer.out
    assert report["local"]["findings"] == [] and report["local"]["compared"] > 300


def test_faults_in_other_models_are_named_where_they_are(other, judge):
    model, arguments = other
    for name, plant in {"qwen3": QWEN3, "qwen3_next": QWEN3_NEXT}[model].items():
        answer, report = judge(f"{model}-{name}".replace(" ", "-"), [plant], **arguments)
        assert answer.status == 1, name + answer.out
        found = modules(report, "fault")
        assert found and all(any(related(scope, module) for module in plant.modules)
                             for scope in found), (name, found)


def test_what_other_experts_compute_is_not_judged_and_said(judge, record, tmp_path_factory):
    """Where tokens go to other experts the module runs another program: no fault of its kernels."""
    import goldentrace
    folder = tmp_path_factory.mktemp("moe")
    models.make(models.qwen3_next).save_pretrained(folder)
    gold = record("gold-moe", folder, ids=IDS, max_new_tokens=STEPS)
    tokens = goldentrace.open(gold).requests[0].output_ids
    answer, report = judge("moe-router", [QWEN3_NEXT["missing +1"]], folder=folder, gold=gold,
                           tokens=tokens, ids=IDS)
    rerouted = report["local"]["rerouted"]
    assert "model.layers.1.mlp" in rerouted and report["local"]["rerouted_outputs"] > 10
    assert "outputs not judged after other decisions" in answer.out
    assert modules(report, "fault") == {"model.layers.1.post_attention_layernorm"}


@pytest.mark.parametrize("names", [
    ("int8 up_proj", "missing +1"), ("4 rows of v_proj 5 %", "gelu for silu"),
    ("lost state", "o_proj 1.01"), ("rotary shifted", "bias of down_proj", "k_norm weight"),
    ("out_proj 2 %", "attention scale", "missing +1, last")], ids=" and ".join)
def test_faults_do_not_hide_each_other(names, judge):
    plants = [FAULTS[name] for name in names]
    answer, report = judge("together", plants)
    assert answer.status == 1
    found = modules(report, "fault")
    for plant in plants:
        assert any(related(scope, module) for scope in found for module in plant.modules), plant
    for scope in found:
        assert any(related(scope, module) for plant in plants for module in plant.modules), scope


def test_the_report_says_what_was_judged_and_how(judge):
    answer, report = judge("layout", [FAULTS["int8 up_proj"]])
    lines = answer.out.splitlines()
    assert lines[0].startswith("DIVERGE  weights") and all(len(line) <= 100 for line in lines)
    local = next(line for line in lines if line.startswith("  local"))
    assert "judged from the candidate's own inputs" in local and "2 out of band" in local
    assert any("model.layers.5.mlp.up_proj" in line for line in lines)
    assert any("eager's own error" in line for line in lines)
    cut = report["local"]["findings"][0]["cuts"][0]
    assert cut["op"] == "aten::linear" and cut["ratio"] > 3 and cut["zone"] == "fault"


def test_the_tokens_that_a_fault_touches_are_told(judge):
    answer, report = judge("tokens-state", [FAULTS["lost state"]])
    assert {cut["step"] for finding in report["local"]["findings"] for cut in finding["cuts"]} == {0}
    answer, report = judge("tokens-base", [FAULTS["rotary base"]])
    assert "clean up to position 0, all dirty from 1 on" in answer.out
    assert report["local"]["findings"][0]["cuts"][0]["tokens"] == 100


def test_weights_that_are_not_the_oracles_are_named(record, replay, tiny, local_gold, tmp_path):
    from safetensors.torch import load_file, save_file
    tensors = load_file(tiny / "model.safetensors")
    tensors["model.layers.5.mlp.up_proj.weight"][3, 7] += 1
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    answer, _ = replay(local_gold, local_gold, "--weights", tmp_path)
    assert answer.status == 2 and "model.layers.5.mlp.up_proj.weight" in answer.err


def test_weights_are_found_along_a_path(record, replay, tiny, local_gold, tmp_path, run):
    from safetensors.torch import load_file, save_file
    tensors = load_file(tiny / "model.safetensors")
    other, lacking = tmp_path / "other", tmp_path / "lacking"
    for folder in (other, lacking):
        folder.mkdir()
    lacking_tensors = {k: v for k, v in tensors.items() if "layers.7" not in k}
    save_file(lacking_tensors, lacking / "model.safetensors", metadata={"format": "pt"})
    tensors["model.layers.1.linear_attn.A_log"] += 1
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    path = f"{lacking}:{other}:{tiny}"
    answer, report = replay(local_gold, local_gold, "--weights", path)
    assert answer.status == 0 and report["local"]["calls"] > 1000
    assert run("replay", "verify", local_gold, "--weights", path).status == 0
    answer, _ = replay(local_gold, local_gold, "--weights", f"{lacking}:{other}")
    assert answer.status == 2
    assert "has no tensor 'model.layers.7" in answer.err and "A_log' is another" in answer.err


def test_of_two_candidates_the_one_that_left_is_named(record, run, tiny, local_gold, fed, tmp_path):
    import json
    common = dict(rules=VALUES, forced=fed, max_new_tokens=None)
    sdpa = record("two-sdpa", tiny, attn="sdpa", **common)
    wrong = record("two-wrong", tiny, change=FAULTS["lost state"].change, **common)
    report = tmp_path / "report.json"
    answer = run("replay", sdpa, wrong, "--against", local_gold, "--weights", tiny, "--json", report)
    assert answer.status == 1
    lines = answer.out.splitlines()
    assert lines[0].startswith("DIVERGE  ") and lines[0].endswith("exit 1")
    assert "two-wrong.fb: DIVERGE  kernel: model.layers.4.linear_attn" in lines[2]
    assert "two-wrong.fb left the oracle, " in lines[0] and "two-sdpa.fb did not" in lines[0]
    assert "AGREE  in band" in lines[1]
    whole = json.loads(report.read_text())
    assert whole["report"] == "replay_candidates" and whole["left"] == [str(wrong)]
    assert [candidate["exit"] for candidate in whole["candidates"]] == [0, 1]
    assert run("replay", sdpa, sdpa, "--against", local_gold).status == 0


def test_only_the_steps_that_are_asked_for_are_judged(judge):
    answer, report = judge("steps", [FAULTS["lost state"]], "--steps", "2..3")
    assert report["local"]["findings"] == []  # the state is lost when the prefill ends
    answer, report = judge("steps", [FAULTS["lost state"]], "--steps", "0")
    assert [finding["scopes"] for finding in report["local"]["findings"]] == [
        ["model.layers.4.linear_attn"]]


def test_what_is_left_of_a_trimmed_oracle_can_not_be_executed(run, replay, tiny, local_gold, tmp_path):
    part = tmp_path / "part.fb"
    assert run("replay", "trim", local_gold, part, "--steps", "0").status == 0
    answer, _ = replay(local_gold, part, "--weights", tiny)
    assert answer.status == 2 and "trimmed away" in answer.err


def test_a_damaged_file_is_no_answer_and_no_crash(run, replay, tiny, local_gold, record, fed, tmp_path):
    candidate = record("to-damage", tiny, forced=fed, max_new_tokens=None, rules=VALUES)
    data = bytearray(candidate.read_bytes())
    for place in (len(data) // 3, len(data) // 2, 2 * len(data) // 3):
        damaged = tmp_path / "damaged.fb"
        changed = data.copy()
        changed[place] ^= 0x55
        damaged.write_bytes(changed)
        answer, _ = replay(damaged, local_gold, "--weights", tiny)
        assert answer.status == 2 and "damaged.fb" in answer.err


def test_a_candidate_without_values_is_told_what_it_lacks(replay, tiny, local_gold):
    answer, report = replay(local_gold, local_gold, "--weights", tiny)
    assert answer.status == 0
    assert report["local"]["compared"] == 0
    assert "no value of the candidate's" in answer.out


def test_progress_is_shown_on_a_terminal_that_waits_and_nowhere_else(build, record, tiny, run):
    import os
    import pty
    import subprocess
    import goldentrace
    gold = record("long-gold", tiny, max_new_tokens=160)
    tokens = goldentrace.open(gold).requests[0].output_ids
    long = record("long", tiny, forced=tokens, max_new_tokens=None, rules=VALUES)
    command = [build / "bin" / "replay", long, "--against", gold, "--weights", tiny]
    assert run("replay", *command[1:]).err == ""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    told = b""
    while True:
        try:
            told += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait() == 0
    assert b" % of the program, " in told and b" s left" in told
    assert told.endswith(b"\r\x1b[K")  # nothing of it is left
