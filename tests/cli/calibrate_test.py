"""Golden traces with bands: how far rounding moves each output, measured from twins. Candidates without
values are judged by them, from sketches and stats."""

import json
import random

import pytest

from cases import PROMPT
from faults.plants import CLEAN, FAULTS

STEPS = 4
TWINS = ["fp32", "threads", "attn", "perturb", "batch", "prefill"]
VALUES = ["scope=**:values"]


@pytest.fixture(scope="module")
def calibrated(run, tiny, tmp_path_factory):
    """(trace with bands, what `record` said, the tokens)."""
    import goldentrace
    trace = tmp_path_factory.mktemp("calibrated") / "gold.fb"
    answer = run("record", "hf", tiny, "--token-ids", ",".join(map(str, PROMPT)), "--ignore-eos",
                 "--max-new-tokens", STEPS, "--calibrate", ",".join(TWINS), "-o", trace)
    assert answer.status == 0, answer.err
    return trace, answer.out, goldentrace.open(trace).requests[0].output_ids


@pytest.fixture(scope="module")
def judge(record, replay, tiny, calibrated):
    """judge(name, plant) -> (Answer, report) of a run that keeps no value, without weights."""
    trace, _, tokens = calibrated

    def judge_here(name, plant):
        import torch
        options = dict(plant.options)
        threads = options.pop("threads", torch.get_num_threads())
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            candidate = record(name.replace(" ", "-"), tiny, change=plant.change, forced=tokens,
                               max_new_tokens=None, **options)
        finally:
            torch.set_num_threads(before)
        return replay(candidate, trace)
    return judge_here


def test_every_twin_is_measured_and_the_trace_says_so(calibrated, run):
    trace, said, _ = calibrated
    lines = [line.split() for line in said.splitlines() if line.startswith("  ")]
    names = [" ".join(line[:next(i for i, word in enumerate(line) if "," in word or i == 3)])
             for line in lines]
    assert len(lines) == 7, names
    for kind in ("threads", "attn sdpa", "perturb 1", "perturb 2", "batch", "one prefill", "fp32"):
        assert f"  {kind}" in said
    assert run("replay", "check", trace).status == 0
    shown = run("replay", "show", trace, "--chunks").out.splitlines()
    chunks = [json.loads(line) for line in shown]
    bands = [chunk for chunk in chunks if chunk["kind"] == 9]
    writes = sum(len(call["writes"]) for chunk in chunks if chunk["kind"] == 2
                 for call in chunk["calls"])
    measured = sum(value != "7fc00000" for chunk in bands for value in chunk["largest"])
    assert sum(len(chunk["largest"]) for chunk in bands) == writes and measured > 0.9 * writes
    assert dict(chunks[0]["environment"])["calibration"].startswith("threads ")


def test_the_calibrated_trace_is_still_proven(calibrated, run, tiny):
    assert run("replay", "verify", calibrated[0], "--weights", tiny).status == 0


@pytest.mark.parametrize("name, module, verdict", [
    ("missing +1", "model.layers.2.post_attention_layernorm", "ops_out_of_band"),
    ("missing +1, last", "model.norm", "ops_out_of_band"),
    ("q and gate swapped", "model.layers.7.self_attn", "ops_out_of_band"),
    ("gelu for silu", "model.layers.3.mlp", "ops_out_of_band"),
    ("gate and up swapped", "model.layers.6.mlp", "ops_out_of_band"),
    ("rotary base", "model.rotary_emb", "weights_differ"),
    ("rotary shifted", "model.rotary_emb", "ops_out_of_band"),
    ("lost state", "model.layers.4.linear_attn", "ops_out_of_band")])
def test_a_fault_is_told_by_sketches_alone(name, module, verdict, judge):
    answer, report = judge(name, FAULTS[name])
    assert answer.status == 1 and report["verdict"] == verdict, answer.out
    first = report["ops"]["first_out_of_band"]
    assert first["scope"].startswith(module), first
    # The rotary tables are the same whatever rounds: only a default band is known for them.
    assert first["evidence"] == "sketch" and report["ops"]["measured_bands"] > 0
    assert "measured by the oracle's twins" in answer.out


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_run_is_silent(name, judge):
    answer, report = judge(f"clean {name}", CLEAN[name])
    assert answer.status == 0, answer.out
    assert report["ops"]["out_of_band"] == 0


@pytest.mark.parametrize("rows", [2, 3])
def test_the_prompt_in_a_batch_is_judged_and_faults_in_it_are_found(rows, calibrated, replay, tiny,
                                                                    tmp_path):
    import torch
    from goldentrace import calibrate, hf
    from goldentrace.checkpoint import Checkpoint
    from goldentrace.parameters import KnownParameters
    trace, _, tokens = calibrated
    others = [random.Random(row).sample(PROMPT, len(PROMPT)) for row in range(1, rows)]
    for name, status in ((None, 0), ("int8 up_proj", 1), ("missing +1", 1)):
        model = hf.load(tiny)
        if name:
            with torch.no_grad():
                FAULTS[name].change(model)
        calibrate.record_batch(model, [others[0], PROMPT, *others[1:]], tmp_path / "batch.fb", tokens,
                               rules=VALUES, parameters=KnownParameters(Checkpoint(tiny)))
        answer, report = replay(tmp_path / "batch.fb", trace, "--weights", tiny)
        assert answer.status == status, answer.out
        assert report["local"]["compared"] > 0.9 * report["local"]["outputs"]
        assert report["tokens"]["compared_equal"] == STEPS or name == "missing +1"
        found = {scope for finding in report["local"]["findings"] for scope in finding["scopes"]}
        assert found == (set(FAULTS[name].modules) if name else set())
        if name != "int8 up_proj":  # too little for any band that is not local
            assert replay(tmp_path / "batch.fb", trace)[0].status == status


def test_a_twin_of_other_tokens_is_refused(calibrated, run, record, tiny, tmp_path):
    other = record("other-tokens", tiny, ids=[5, 6, 7], max_new_tokens=2)
    answer = run("replay", "calibrate", calibrated[0], "--twin", f"x={other}", "-o", tmp_path / "o.fb")
    assert answer.status == 2 and "ran other tokens" in answer.err
    assert not (tmp_path / "o.fb").exists()
    answer = run("replay", "calibrate", calibrated[0], "--twin", str(other), "-o", tmp_path / "o.fb")
    assert answer.status == 2 and "NAME=TRACE" in answer.err
    answer = run("record", "hf", tiny, "--token-ids", "1,2", "--calibrate", "noise", "-o",
                 tmp_path / "o.fb")
    assert answer.status == 2 and "fp32" in answer.err


def test_bands_are_written_anew_and_the_program_stays(calibrated, run, tmp_path):
    trace, _, _ = calibrated
    again = tmp_path / "again.fb"
    assert run("replay", "calibrate", trace, "-o", again, "--twin", f"itself={trace}").status == 0
    assert run("replay", "diff", trace, again).status == 0
    header = json.loads(run("replay", "show", again, "--chunks").out.splitlines()[0])
    assert dict(header["environment"])["calibration"] == "itself"
