"""show, check, export and trim on a real recorded trace: what they write is what other tools read,
and what the trace holds."""

import json
import sys

import numpy
import pytest
import torch
import xxhash
from safetensors.torch import load_file

STEPS = 4
MODULE = "model.layers.3.mlp"


@pytest.fixture(scope="module")
def trace(tiny, record):
    return record("tools", tiny, rules=["scope=**:values"], max_new_tokens=STEPS)


@pytest.fixture(scope="module")
def tensors(trace, run):
    answer = run("replay", "show", trace, "--tensors", "--json")
    assert answer.status == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


def digest(data):
    """FORMAT.md, section 11."""
    leaves = b"".join(
        xxhash.xxh3_64_intdigest(data[i:i + 4096].ljust(4096, b"\0")).to_bytes(8, "little")
        for i in range(0, len(data), 4096))
    return xxhash.xxh3_128_hexdigest(leaves + len(data).to_bytes(8, "little"))


def ok(answer):
    assert answer.status == 0, answer.out + answer.err
    return answer


# ---- show ---------------------------------------------------------------------------------------

def test_show_tensors_lists_every_write(trace, calls, tensors):
    writes = [(call["call"], write["hash"]) for call in calls(trace) for write in call["writes"]]
    assert [(row["call"], row["hash"]) for row in tensors] == writes
    assert all(row["placement"]["kind"] == "replicated" for row in tensors)


def test_filters_select_by_scope_operator_step_call_and_hash(trace, tensors, run):
    def shown(*filters):
        lines = ok(run("replay", "show", trace, "--tensors", "--json", *filters)).out.splitlines()
        return [json.loads(line) for line in lines]

    def want(keep):
        return [row for row in tensors if keep(row)]

    assert shown("--scope", MODULE) == want(lambda row: row["scope"] == MODULE) != []
    assert shown("--scope", MODULE, "--scope", "lm_head") == want(
        lambda row: row["scope"] in (MODULE, "lm_head"))
    assert shown("--scope", f"{MODULE}.*", "--op", "aten::linear", "--step", "1..2") == want(
        lambda row: row["scope"].startswith(MODULE + ".") and row["op"] == "aten::linear"
        and row["step"] in (1, 2)) != []
    assert shown("--call", 17) == want(lambda row: row["call"] == 17)
    some = next(row for row in tensors if row["hash"] and row["step"] == 2)
    assert shown("--hash", some["hash"][:12]) == want(lambda row: row["hash"] == some["hash"])
    assert run("replay", "show", trace, "--calls", "--step", "3..1").status == 2
    assert run("replay", "show", trace, "--calls", "--hash", "xyz").status == 2
    assert run("replay", "show", trace, "--calls", "--tokens").status == 2


def test_show_says_how_the_bytes_are_spread_and_what_was_lost(trace, run):
    summary = json.loads(ok(run("replay", "show", trace, "--json")).out)
    spread = summary["spread"]
    assert sum(kind["bytes"] for kind in spread.values()) == trace.stat().st_size
    assert spread["values"]["bytes"] > spread["program"]["bytes"] > 0
    assert spread["program"]["bytes_a_call"] == pytest.approx(
        spread["program"]["bytes"] / summary["calls"])
    lines = ok(run("replay", "show", trace, "--losses", "--json")).out.splitlines()
    losses = [json.loads(line) for line in lines]
    by_name = {row["name"]: row for row in losses}
    assert by_name["holes"] == {"name": "holes", "severity": "loss", "origin": "recording",
                                "value": 0, "first": ""}
    assert by_name["recorder_errors"]["severity"] == "error"


@pytest.mark.parametrize("level, most", [("hash", 28), ("stats", 44)])
def test_a_call_with_all_its_arguments_costs_few_bytes(level, most, tiny, record, run):
    path = record(level, tiny, rules=[f"scope=**:{level}"], max_new_tokens=32)
    summary = json.loads(ok(run("replay", "show", path, "--json")).out)
    assert summary["calls"] > 30_000
    assert summary["bytes"] == path.stat().st_size <= most * summary["calls"]


# ---- check --------------------------------------------------------------------------------------

def test_a_recorded_trace_is_sound(trace, gold, run, tmp_path):
    for path in (trace, gold):
        answer = ok(run("replay", "check", path, "--json", tmp_path / "report.json"))
        assert answer.out.startswith("SOUND  ")
        assert len(answer.out.splitlines()) <= 25
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["verdict"] == "sound"
        assert report["faults"] == report["unsupported"] == report["notes"] == []
        assert report["parameters"] == 111


def test_what_a_script_recorded_is_sound(tiny, run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, torch, transformers\n"
                      "model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])\n"
                      "torch.manual_seed(0)\n"
                      "model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=3,\n"
                      "               do_sample=True)\n")
    out = tmp_path / "script.fb"
    ok(run("record", "-o", out, "--", sys.executable, script, tiny))
    report = json.loads(ok(run("replay", "check", out, "--json", "-")).out)
    assert report["verdict"] == "sound" and report["calls"] > 1000


def test_damage_cuts_and_other_files_have_their_exit_status(trace, run, tmp_path):
    data = trace.read_bytes()
    bad = tmp_path / "bad.fb"
    bad.write_bytes(data[:70000] + bytes([data[70000] ^ 1]) + data[70001:])
    answer = run("replay", "check", bad)
    assert answer.status == 1 and answer.err == ""
    assert answer.out.startswith("DAMAGED  ") and "at offset" in answer.out
    bad.write_bytes(data[:len(data) // 2])
    answer = run("replay", "check", bad)
    assert answer.status == 1 and "replay recover" in answer.out
    bad.write_bytes(b"hello, trace\n" * 9)
    assert run("replay", "check", bad).status == 2
    assert run("replay", "check", tmp_path / "missing.fb").status == 2
    assert run("replay", "check").status == 2


# ---- export -------------------------------------------------------------------------------------

def test_an_exported_npy_is_the_value(trace, tensors, run, tmp_path):
    row = next(r for r in tensors if r["scope"] == MODULE and r["dtype"] == "bfloat16")
    path = tmp_path / "x.npy"
    answer = ok(run("replay", "export", trace, "--call", row["call"], "-o", path))
    assert "float32, exactly" in answer.err
    wide = numpy.load(path)
    assert wide.dtype == numpy.float32 and list(wide.shape) == row["shape"]
    ok(run("replay", "export", trace, "--call", row["call"], "-o", path, "--bits"))
    bits = numpy.load(path)
    assert bits.dtype == numpy.uint16 and list(bits.shape) == row["shape"]
    assert digest(bits.tobytes()) == row["hash"]
    as_torch = torch.from_numpy(bits.view(numpy.int16)).view(torch.bfloat16)
    assert torch.equal(as_torch.float(), torch.from_numpy(wide))
    for dtype in ("int64", "float32", "bool"):
        row = next(r for r in tensors if r["dtype"] == dtype and r["value_kept"])
        ok(run("replay", "export", trace, "--call", row["call"], "--hash", row["hash"], "-o", path))
        value = numpy.load(path)
        assert str(value.dtype) == dtype and list(value.shape) == row["shape"]
        assert digest(value.tobytes()) == row["hash"]


def test_an_exported_safetensors_file_holds_all_that_was_selected(trace, tensors, run, tmp_path):
    path = tmp_path / "x.safetensors"
    ok(run("replay", "export", trace, "--scope", "model.layers.0.**", "--scope", "", "-o", path))
    loaded = load_file(path)
    names, seen = {}, {}
    for row in tensors:
        if row["scope"] and not row["scope"].startswith("model.layers.0."):
            continue
        base = f'{row["scope"]}/{row["op"]}' if row["scope"] else row["op"]
        base += f'/step {row["step"]}' if row["step"] else ""
        seen[base] = seen.get(base, 0) + 1
        if row["value_kept"]:
            names[base + (f"#{seen[base]}" if seen[base] > 1 else "")] = row
    assert loaded.keys() == names.keys() and len(names) > 100
    for name, row in names.items():
        value = loaded[name].contiguous()
        assert str(value.dtype) == f"torch.{row['dtype']}" and list(value.shape) == row["shape"]
        assert digest(value.reshape(-1).view(torch.uint8).numpy().tobytes()) == row["hash"]


def test_exported_calls_are_those_that_show_prints(trace, run, tmp_path):
    path = tmp_path / "x.jsonl"
    ok(run("replay", "export", trace, "--scope", MODULE, "-o", path))
    shown = run("replay", "show", trace, "--calls", "--json", "--scope", MODULE).out
    assert path.read_text() == shown != ""


def test_what_can_not_be_exported_is_refused_with_a_reason(trace, gold, run, tmp_path):
    def refused(path, *arguments, word):
        answer = run("replay", "export", path, *arguments)
        assert answer.status == 2 and word in answer.err, answer.err
        assert len(answer.err.splitlines()) == 1

    out = tmp_path / "x.npy"
    refused(trace, "--scope", MODULE, "-o", out, word="4 tensors are selected")
    refused(gold, "--scope", MODULE, "--step", "0", "-o", out, word="values'")
    refused(trace, "--scope", "nowhere", "-o", out, word="no tensor is selected")
    refused(trace, "-o", tmp_path / "x.pt", word=".safetensors")
    refused(trace, "-o", trace, word="name a file that ends")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error(trace, run, tmp_path):
    full = tmp_path / "x.safetensors"
    full.symlink_to("/dev/full")
    answer = run("replay", "export", trace, "--scope", MODULE, "-o", full)
    assert answer.status == 2 and "No space" in answer.err
    answer = run("replay", "trim", trace, "/dev/full", "--drop-values")
    assert answer.status == 2 and "No space" in answer.err


# ---- trim ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("options", [["--scope", f"{MODULE}.**", "--scope", MODULE],
                                     ["--steps", "0"], ["--steps", "1..2"],
                                     ["--scope", "model.layers.*.mlp.**", "--steps", "2..3",
                                      "--drop-values", "--drop-timings"]],
                         ids=["scopes", "prefill", "steps", "all"])
def test_a_trimmed_trace_is_sound_and_agrees_with_the_whole(options, trace, run, replay, verify,
                                                            tiny, tmp_path):
    part = tmp_path / "part.fb"
    ok(run("replay", "trim", trace, part, *options))
    assert part.stat().st_size < trace.stat().st_size
    ok(run("replay", "check", part))
    for candidate, oracle in ((part, trace), (trace, part)):
        answer, report = replay(candidate, oracle)
        assert answer.status == 0, answer.out
        assert report["ops"]["outputs"] == report["ops"]["identical"] > 0
        assert report["weights"]["status"] == "ok"
        assert report["tokens"]["compared_equal"] > 0
    answer, _ = verify(part, tiny)
    assert answer.status == 2 and "trimmed away" in answer.err
    assert "trimmed: " in run("replay", "show", part).out


def test_values_that_are_dropped_can_be_computed_again(trace, tiny, run, verify, tmp_path):
    small = tmp_path / "small.fb"
    ok(run("replay", "trim", trace, small, "--drop-values", "--drop-timings"))
    assert small.stat().st_size < trace.stat().st_size / 5
    ok(run("replay", "check", small))
    answer, report = verify(small, tiny)
    assert answer.status == 0 and report["verdict"] == "reproduced"


def test_trimming_nothing_or_everything_is_refused(trace, run, tmp_path):
    out = tmp_path / "x.fb"
    for arguments in ([], ["--scope", "nowhere"], ["--steps", "9..99"]):
        assert run("replay", "trim", trace, out, *arguments).status == 2
    assert run("replay", "trim", trace, trace, "--drop-values").status == 2
    assert list(tmp_path.iterdir()) == []
