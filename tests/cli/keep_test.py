"""What `record` keeps: --keep, --rule, --dry-run and --only-where-differs, as a user types them."""

import json
import re
import sys
import textwrap

import planted_fault
import pytest

import goldentrace
from goldentrace import hf
from goldentrace.dry_run import _NoRecording

pytestmark = pytest.mark.xdist_group("keep")  # one process makes the traces that all of it reads

IDS = [1, 2, 3, 4, 5]
STEPS = 10
DROPPED = range(5, 9)  # between the first four decode steps and the last
KEEPS = ["tokens", "golden", "cuts", "all"]
ARGUMENTS = ["--token-ids", ",".join(map(str, IDS)), "--ignore-eos", "--max-new-tokens"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("keep")


@pytest.fixture(scope="module")
def record_hf(run, tiny, folder):
    """record_hf(name, *options) -> the trace of that run."""
    def record(name, *options, steps=STEPS, model=tiny):
        trace = folder / f"{name}.fb"
        answer = run("record", "hf", model, *ARGUMENTS, steps, *options, "-o", trace)
        assert answer.status == 0, answer.err
        return trace
    return record


@pytest.fixture(scope="module")
def kept(record_hf):
    """The same run by each word of --keep."""
    return {keep: record_hf(keep, "--keep", keep) for keep in KEEPS}


def writes_of(rows, *, only=lambda row: True):
    return [write for row in rows if only(row) for write in row["writes"] if not write["undefined"]]


def is_bare(write):
    return write["hash"] is write["stats"] is write["sketch"] is None


def assert_refused(answer, trace, *words):
    """Status 2, one line of ours with these words in it, and nothing written."""
    assert answer.status == 2, (answer.status, answer.out, answer.err)
    assert answer.out == ""
    lines = [line for line in answer.err.splitlines() if not line.startswith("Run with --help")]
    assert len(lines) == 1, answer.err
    for word in words:
        assert str(word) in lines[0]
    assert not trace.exists()


# ---- --keep -----------------------------------------------------------------------------------------

def test_tokens_keeps_text_and_logits_and_no_call(kept, calls, run):
    tokens, golden = (json.loads(run("replay", "show", kept[keep], "--tokens", "--json").out)
                      for keep in ("tokens", "golden"))
    assert calls(kept["tokens"]) == []
    assert tokens["requests"] == golden["requests"]
    assert [step["top_logits"] for step in tokens["steps"]] == [
        step["top_logits"] for step in golden["steps"]]
    assert len(tokens["steps"]) == STEPS


def test_golden_keeps_digests_of_the_prefill_the_first_four_steps_and_the_last(kept, calls):
    rows = calls(kept["golden"])
    for step in range(STEPS):
        writes = writes_of(rows, only=lambda row: row["step"] == step)
        floats = [write for write in writes if write["type"].startswith(("bfloat16", "float32"))]
        assert len(floats) > 400
        if step in DROPPED:
            # What control needs is kept by value.
            assert all(is_bare(write) != write["value_kept"] for write in writes)
            assert [write["decision"] for write in writes if write["value_kept"]] == [True]
        else:
            assert all(write["hash"] for write in writes)
            assert all(write["stats"] and write["sketch"] for write in floats)


def test_golden_keeps_the_program_of_every_step(kept, calls):
    def program(keep):
        return [(row["step"], row["scope"], row["op"], row["arguments"]) for row in calls(kept[keep])]
    assert program("golden") == program("all")
    assert {step for step, *_ in program("golden")} == set(range(STEPS))


def test_golden_rounds_the_times_of_steps_without_digests_to_microseconds(kept, calls, run):
    steps = [row["step"] for row in calls(kept["golden"])]
    chunks = [json.loads(line)
              for line in run("replay", "show", kept["golden"], "--chunks").out.splitlines()]
    times = [time for chunk in chunks for time in chunk.get("timings", ())]
    assert len(times) == len(steps)
    rounded = [start % 1000 == duration % 1000 == 0 for _, start, duration in times]
    assert all(r for r, step in zip(rounded, steps) if step in DROPPED)
    assert not all(r for r, step in zip(rounded, steps) if step not in DROPPED)


def test_all_keeps_the_value_of_every_tensor_that_came_into_being(kept, calls):
    writes = writes_of(calls(kept["all"]))
    assert len(writes) > 6000
    assert all(write["hash"] and write["value_kept"] for write in writes)


def test_more_is_kept_and_more_is_written_from_word_to_word(kept):
    sizes = [kept[keep].stat().st_size for keep in KEEPS]
    assert sizes == sorted(sizes)
    assert sizes[3] > 10 * sizes[2] > 10 * sizes[1] > 100 * sizes[0]


class Steps(_NoRecording):
    """Tells which step runs."""
    now = None

    def step(self, number):
        self.now = number


def tensors_in(value):
    import torch
    if isinstance(value, torch.Tensor):
        yield value
    else:
        items = value.values() if hasattr(value, "values") else value
        for item in items if isinstance(items, (list, tuple)) or items is not value else ():
            yield from tensors_in(item)


def handed_back(model, steps):
    """What each module call of a plain run hands back: (step, class, the hashes of its floats)."""
    from torch.nn.modules.module import register_module_forward_hook
    now, out = Steps(), []

    def note(module, _inputs, output):
        hashes = [f"{goldentrace.tensor_hash(tensor):032x}" for tensor in tensors_in(output)
                  if tensor.is_floating_point()]
        out.append((now.now, type(module).__name__, hashes))

    hook = register_module_forward_hook(note)
    try:
        hf.generate(now, model, IDS, steps)
    finally:
        hook.remove()
    return out


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_cuts_keeps_the_values_that_modules_hand_back_and_those_of_control(dtype, tiny, record_hf,
                                                                           calls):
    """Of a module that hands back several tensors, the one that was computed last."""
    rows = calls(record_hf(f"cuts-{dtype}", "--keep", "cuts", "--dtype", dtype, steps=3))
    values = {write["hash"] for write in writes_of(rows) if write["value_kept"]}
    control = {write["hash"] for write in writes_of(rows) if write["decision"]}
    handed = handed_back(hf.load(tiny, dtype=dtype), 3)
    assert len(handed) > 300
    assert [(step, name) for step, name, hashes in handed if not values & set(hashes)] == []
    prompt = next(write["hash"] for write in writes_of(rows) if write["type"] == "int64 [1, 5]")
    assert values - {h for _, _, hashes in handed for h in hashes} - {prompt} == control


def test_a_cut_is_the_tensor_that_transformers_own_run_has_there(kept, tiny):
    import torch
    model, name, got = hf.load(tiny), "model.layers.0.mlp.down_proj", []
    hook = model.get_submodule(name).register_forward_hook(
        lambda module, inputs, output: got.append(output.clone()))
    hf.generate(Steps(), model, IDS, STEPS)
    hook.remove()
    with goldentrace.open(kept["cuts"]) as trace:
        for step in range(STEPS):
            assert torch.equal(trace.tensor(name, step=step).torch(), got[step])
        assert not trace.tensor("model.layers.0.linear_attn", op="aten::rsqrt", step=0).has_value


@pytest.mark.parametrize("keep", ["golden", "cuts", "all"])
def test_what_has_a_program_is_reproduced(keep, kept, tiny, verify, calls):
    answer, report = verify(kept[keep], tiny)
    assert answer.status == 0, answer.out
    hashes = sum(write["hash"] is not None for write in writes_of(calls(kept[keep])))
    assert report["executed"] == report["calls"] > 10000
    assert report["hashes"] == report["hashes_equal"] == hashes > 4000


def test_a_trace_of_tokens_has_no_call_to_verify(kept, tiny, verify):
    answer, _ = verify(kept["tokens"], tiny)
    assert answer.status == 2
    assert "no call" in answer.out.splitlines()[0]


@pytest.mark.parametrize("keep", ["golden", "cuts", "all"])
def test_the_same_run_agrees_whatever_was_kept_of_it(keep, kept, replay):
    answer, report = replay(kept[keep], kept["golden"])
    assert answer.status == 0, answer.out
    assert report["verdict"] == "identical"
    assert report["ops"]["matched"] == report["ops"]["oracle_calls"] > 10000
    row = next(line for line in answer.out.splitlines() if line.startswith("  ops"))
    assert "6 of 10 steps" in row  # what the golden trace has digests of


# ---- --rule -----------------------------------------------------------------------------------------

def test_a_rule_for_values_keeps_them_in_steps_that_lose_their_digests(record_hf, calls):
    rows = calls(record_hf("rule-values", "--rule", "scope=**:values", steps=7))
    writes = writes_of(rows)
    assert {row["step"] for row in rows} == set(range(7))
    assert all(write["hash"] and write["value_kept"] for write in writes)


def test_a_rule_for_a_module_keeps_values_there_and_nothing_more_elsewhere(record_hf, calls):
    scope = "model.layers.0.mlp.down_proj"
    rows = calls(record_hf("rule-module", "--rule", f"scope={scope}:values", steps=7))
    there = writes_of(rows, only=lambda row: row["scope"] == scope)
    assert len(there) == 7 and all(write["value_kept"] for write in there)
    elsewhere = writes_of(rows, only=lambda row: row["scope"] != scope)
    assert sum(write["value_kept"] for write in elsewhere) == 7  # the tokens that were chosen
    assert any(is_bare(write) for write in elsewhere)


def test_a_rule_for_none_leaves_digests_out_and_the_program_whole(record_hf, calls, tiny, verify):
    trace = record_hf("rule-none", "--rule", "scope=model.layers.0.**:none", steps=2)
    rows = calls(trace)
    inside = [row for row in rows if row["scope"].startswith("model.layers.0.")]
    assert all(is_bare(write) for write in writes_of(inside))
    assert len(writes_of(inside)) > 50
    outside = writes_of(rows, only=lambda row: not row["scope"].startswith("model.layers.0."))
    assert all(write["hash"] for write in outside)
    assert verify(trace, tiny)[0].status == 0


def test_the_last_rule_that_fits_decides(record_hf, calls):
    rows = calls(record_hf("rule-last", "--keep", "all", "--rule", "step=1:hash", "--rule",
                           "op=aten::linear,step=1:stats", steps=2))
    linear = writes_of(rows, only=lambda row: row["step"] == 1 and row["op"] == "aten::linear")
    others = writes_of(rows, only=lambda row: row["step"] == 1 and row["op"] != "aten::linear")
    assert all(write["stats"] and not write["value_kept"] for write in linear)
    assert all(write["hash"] and not write["stats"] for write in others)
    assert all(write["value_kept"] for write in writes_of(rows, only=lambda row: row["step"] == 0))


# ---- what is refused --------------------------------------------------------------------------------

REFUSED = {
    "another word": (["--keep", "some"], ["--keep", "some", "tokens,golden,cuts,all"]),
    "a rule without a digest": (["--rule", "op=aten::mul"], ["rule 'op=aten::mul'", "no digest"]),
    "a rule of another key": (["--rule", "layer=3:hash"], ["unknown key 'layer'"]),
    "a rule of another digest": (["--rule", "scope=**:sums"], ["unknown digest 'sums'"]),
    "tokens with a rule": (["--keep", "tokens", "--rule", "scope=**:values"],
                           ["--keep tokens", "no calls", "--rule"]),
    "tokens with another trace": (["--keep", "tokens", "--only-where-differs", "gold.fb"],
                                   ["--keep tokens", "no calls", "--only-where-differs"]),
    "no golden trace": (["--only-where-differs", "gold.fb"], ["gold.fb", "No such file"]),
    "a golden trace that is none": (["--only-where-differs", "text.fb"],
                                    ["text.fb", "not a goldentrace file"]),
    "a folder for a golden trace": (["--only-where-differs", "."], ["not a regular file"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_make_no_sense_are_refused_before_anything_is_written(case, run, tiny, tmp_path):
    options, words = REFUSED[case]
    (tmp_path / "text.fb").write_text("hello, trace\n" * 9)
    trace = tmp_path / "out.fb"
    answer = run("record", "hf", tiny, *ARGUMENTS, 2, *options, "-o", trace, cwd=tmp_path)
    assert_refused(answer, trace, *words)


@pytest.mark.parametrize("case", [case for case in REFUSED if "golden trace" not in case])
def test_options_that_make_no_sense_are_refused_before_the_script_runs(case, run, tmp_path):
    options, words = REFUSED[case]
    trace = tmp_path / "out.fb"
    answer = run("record", "-o", trace, *options, "--", sys.executable, "-c", "print('ran')")
    assert_refused(answer, trace, *words)


def test_a_golden_trace_without_calls_is_refused(kept, run, tiny, tmp_path):
    trace = tmp_path / "out.fb"
    answer = run("record", "hf", tiny, *ARGUMENTS, 2, "--only-where-differs", kept["tokens"],
                 "-o", trace)
    assert_refused(answer, trace, kept["tokens"], "no calls")


@pytest.mark.parametrize("case", ["no golden trace", "a golden trace that is none"])
def test_a_script_without_its_golden_trace_is_not_recorded(case, run, tmp_path):
    options, words = REFUSED[case]
    (tmp_path / "text.fb").write_text("hello, trace\n" * 9)
    trace = tmp_path / "out.fb"
    answer = run("record", "-o", trace, *options, "--", sys.executable, "-c",
                 "import torch; torch.ones(1)", cwd=tmp_path)
    assert answer.status == 2
    assert all(word in answer.err.splitlines()[-1] for word in words)
    assert not trace.exists()


# ---- --dry-run --------------------------------------------------------------------------------------

@pytest.mark.parametrize("keep", ["tokens", "golden", "all"])
def test_a_dry_run_writes_nothing_and_says_what_the_recording_will_cost(keep, run, tiny, kept, calls,
                                                                        tmp_path):
    answer = run("record", "hf", tiny, *ARGUMENTS, STEPS, "--keep", keep, "--dry-run",
                 "-o", tmp_path / "dry.fb")
    assert answer.status == 0, answer.err
    assert list(tmp_path.iterdir()) == []
    head, columns, *rows = answer.out.splitlines()
    assert "dry.fb was not written" in head and f"--keep {keep}" in head
    assert columns.split() == ["calls", "bytes", "seconds", "without"]
    rows = [re.split(r"\s{2,}", row.strip()) for row in rows]
    assert [name for name, *_ in rows] == ["prefill", "step", f"all of {STEPS} tokens"]
    figures = [[float(figure.replace(",", "")) for figure in row] for _, *row in rows]
    steps = [row["step"] for row in calls(kept[keep])]
    assert [row[0] for row in figures] == [steps.count(0), steps.count(1), len(steps)]
    assert figures[2][1] == pytest.approx(kept[keep].stat().st_size, rel=0.25)


# ---- --only-where-differs ---------------------------------------------------------------------------

@pytest.fixture(scope="module")
def faulty(kept, tiny, folder):
    """A norm of layer 2 lacks its 1 +, and only where that shows values were kept."""
    import torch
    trace, model = folder / "faulty.fb", hf.load(tiny)
    with torch.no_grad():
        planted_fault.FAULTS["norm-without-one"](model.model.layers[2])
    hf.record_model(model, IDS, trace, folder=tiny, max_new_tokens=STEPS, ignore_eos=True,
                    only_where_differs=kept["golden"])
    return trace


def with_values(rows):
    """Calls whose results have values, but for those of control."""
    return [row for row in rows if any(write["value_kept"] and not write["decision"]
                                       for write in row["writes"])]


def test_the_first_calls_that_differ_have_their_results_by_value(faulty, kept, calls):
    rows, golden = calls(faulty), calls(kept["golden"])
    first, *others = with_values(rows)
    assert (first["scope"], first["op"]) == ("model.layers.2.post_attention_layernorm",
                                             "aten::mul.Tensor")
    assert len(others) == 7
    assert [row["call"] for row in others] == list(range(first["call"] + 1, first["call"] + 8))
    hashes = [[write["hash"] for write in row["writes"]] for row in golden[:first["call"]]]
    assert [[w["hash"] for w in row["writes"]] for row in rows[:first["call"]]] == hashes


def test_the_first_call_that_differs_can_be_computed_from_what_was_kept(faulty, calls):
    import torch
    first = with_values(calls(faulty))[0]["call"]
    with goldentrace.open(faulty) as trace:
        tensors = {tensor.id: tensor for tensor in trace.tensors() if tensor.call <= first}
        result = next(tensor for tensor in tensors.values() if tensor.call == first)
        x, weight = (tensors[number].torch() for number in result.inputs)
        assert torch.equal(x * weight, result.torch())


def test_what_is_kept_where_runs_differ_is_sound_and_reproduced(faulty, tiny, run, verify):
    answer = run("replay", "check", faulty)
    assert answer.status == 0 and answer.out.startswith("SOUND"), answer.out
    answer, report = verify(faulty, tiny)
    assert answer.status == 0, answer.out
    assert report["executed"] == report["calls"] > 10000
    assert report["holes"] == 0


def test_a_run_that_differs_nowhere_keeps_no_value_but_control(kept, record_hf, calls, run):
    trace = record_hf("same", "--only-where-differs", kept["golden"])
    assert with_values(calls(trace)) == []
    assert sum(write["decision"] for write in writes_of(calls(trace))) == STEPS
    shown = json.loads(run("replay", "show", trace, "--json").out)
    assert shown["counters"]["calls_differing"]["value"] == 0


def test_as_many_calls_are_kept_as_were_asked_for(kept, tiny, record_hf, calls, folder):
    from safetensors.torch import load_file, save_file
    other = folder / "other"
    other.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        if (tiny / name).exists():
            (other / name).write_bytes((tiny / name).read_bytes())
    tensors = load_file(tiny / "model.safetensors")
    tensors["model.layers.5.mlp.up_proj.weight"][3] += 1
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    rows = calls(record_hf("other-weights", "--only-where-differs", kept["golden"],
                           "--differing-calls", 2, steps=2, model=other))
    assert [(row["step"], row["scope"]) for row in with_values(rows)] == [
        (0, "model.layers.5.mlp.up_proj"), (0, "model.layers.5.mlp")]


# ---- scripts ----------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def record_script(run, folder):
    """record_script(name, options, *arguments) -> the trace of a small model's script."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent("""
        import sys, torch
        net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(*sys.argv[1:]),
                                  torch.nn.Linear(16, 4))
        for parameter in net.parameters():
            torch.nn.init.constant_(parameter, 0.25)
        with torch.no_grad():
            for _ in range(2):
                net(torch.linspace(-1, 1, 8))
        """))

    def record(name, options, *arguments):
        trace = folder / f"script-{name}.fb"
        answer = run("record", "-o", trace, *options, "--", sys.executable, path, *arguments)
        assert answer.status == 0, answer.err
        return trace
    return record


@pytest.fixture(scope="module")
def no_weights(folder):
    path = folder / "none.safetensors"
    path.write_bytes(b"\x02" + bytes(7) + b"{}")
    return path


def test_a_script_is_kept_as_it_is_asked_for(record_script, calls):
    rows = {keep: calls(record_script(keep, ["--keep", keep])) for keep in KEEPS}
    assert rows["tokens"] == []
    assert not any(write["value_kept"] for write in writes_of(
        rows["golden"], only=lambda row: not row["random"]))
    cuts = [row["scope"] for row in with_values(rows["cuts"]) if not row["random"]]
    assert cuts == ["0", "1", "2"] * 2
    assert all(write["value_kept"] for write in writes_of(rows["all"]))
    assert len(writes_of(rows["all"])) > 6


def test_a_script_keeps_values_only_where_it_differs(record_script, calls, verify, no_weights):
    gold = record_script("gold", [])
    other = record_script("differs", ["--only-where-differs", gold], "tanh")
    differing = [(row["step"], row["scope"], row["op"])
                 for row in with_values(calls(other)) if not row["random"]]
    assert differing == [(step, scope, op) for step in (0, 1)
                         for scope, op in (("1", "aten::gelu"), ("2", "aten::linear"))]
    assert verify(other, no_weights)[0].status == 0
    same = record_script("same", ["--only-where-differs", gold])
    assert [row for row in with_values(calls(same)) if not row["random"]] == []
