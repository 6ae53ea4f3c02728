"""What people get for bad input: the exit status of the contract and one clear line, never a crash."""

import json
import random
import shutil
import struct
import subprocess

import pytest
import torch
import transformers
import xxhash
from safetensors.torch import load_file

from cases import SMALL
from paths import BUILD


def assert_one_line(answer, program, *words):
    assert answer.status == 2, (answer.status, answer.out, answer.err)
    lines = answer.err.strip().splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith(program + ": ")
    for word in words:
        assert str(word) in lines[0]


def damage(gold, path, change):
    data = bytearray(gold.read_bytes())
    change(data)
    path.write_bytes(data)
    return path


def newer(data):
    struct.pack_into("<H", data, 8, 2)


DAMAGE = {
    "an empty file": (lambda data: data.clear(), "empty"),
    "a text file": (lambda data: data.__setitem__(slice(None), b"hello, trace\n" * 9), "offset 0"),
    "a flipped byte": (lambda data: data.__setitem__(70000, data[70000] ^ 1), "checksum"),
    "a newer version": (newer, "version 2.2"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_trace_is_refused_on_either_side_and_by_every_command(case, gold, tiny, run,
                                                                       tmp_path):
    change, word = DAMAGE[case]
    bad = damage(gold, tmp_path / "bad.fb", change)
    for arguments in (["replay", bad, "--against", gold], ["replay", gold, "--against", bad],
                      ["replay", "verify", bad, "--weights", tiny]):
        assert_one_line(run(*arguments), "replay", bad, "offset", word)


def test_a_cut_trace_is_compared_and_never_agrees_unless_told_so(gold, tiny, run, tmp_path):
    cut = damage(gold, tmp_path / "cut.fb",
                 lambda data: data.__delitem__(slice(len(data) * 9 // 10, None)))
    for arguments in ([cut, "--against", gold], [gold, "--against", cut]):
        answer = run("replay", *arguments)
        assert answer.status == 2, answer.out
        head, *rows = answer.out.splitlines()
        assert head.startswith("UNDECIDED") and "trace is not whole; what there is" in head
        assert any("not whole" in row and "trace_cut 1" in row for row in rows)
        told = run("replay", *arguments, "--allow-incomplete")
        assert told.status == 0 and told.out.startswith("AGREE"), told.out
    assert_one_line(run("replay", "verify", cut, "--weights", tiny), "replay", cut, "not whole")
    told = run("replay", "verify", cut, "--weights", tiny, "--allow-incomplete")
    assert told.status == 0 and "not whole" in told.out and "trace_cut 1" in told.out
    shown = run("replay", "show", cut)
    assert shown.status == 0 and "not whole: trace_cut 1" in shown.out
    for arguments in (["show", cut, "--tokens"], ["export", cut, "-o", tmp_path / "calls.jsonl"]):
        answer = run("replay", *arguments)
        assert answer.status == 0 and "not whole: trace_cut 1" in answer.err
    equal = run("replay", "diff", cut, cut)
    assert equal.status == 2 and "as far as they go" in equal.out and "not whole" in equal.err
    assert run("replay", "diff", gold, gold).status == 0
    assert run("replay", "diff", cut, gold).status == 1
    assert run("replay", "check", cut).status == 1


def test_a_cut_trace_that_differs_is_a_finding_all_the_same(gold, tiny, record, run, tmp_path):
    def scale(model):
        model.model.layers[2].mlp.up_proj.weight.mul_(1.5)
    other = record("scaled", tiny, scale, max_new_tokens=3)
    cut = damage(other, tmp_path / "cut.fb",
                 lambda data: data.__delitem__(slice(len(data) * 9 // 10, None)))
    answer = run("replay", cut, "--against", gold)
    assert answer.status == 1 and answer.out.startswith("DIVERGE"), answer.out


def test_recorded_twice_the_programs_are_equal_chunk_by_chunk(gold, tiny, record, run):
    again = record("again", tiny)
    answer = run("replay", "diff", gold, again)
    assert answer.status == 0 and "equal" in answer.out, answer.out
    def raise_one(model):
        model.model.norm.weight[3] += 1
    changed = record("changed", tiny, raise_one)
    answer = run("replay", "diff", gold, changed)
    assert answer.status == 1 and "call" in answer.out, answer.out


def test_every_tried_flip_is_refused(gold, run, tmp_path):
    choose = random.Random(0)
    size = gold.stat().st_size
    for at in [choose.randrange(size) for _ in range(40)]:
        bad = damage(gold, tmp_path / "bad.fb", lambda data: data.__setitem__(at, data[at] ^ 0x10))
        answer = run("replay_without_torch", bad, "--against", gold)
        assert_one_line(answer, "replay", bad)


def test_a_missing_file_is_named(gold, run, tmp_path):
    missing = tmp_path / "no.fb"
    assert_one_line(run("replay", missing, "--against", gold), "replay", missing, "No such file")
    assert_one_line(run("replay", "show", missing), "replay", missing, "No such file")
    assert_one_line(run("replay", "show", tmp_path), "replay", "not a regular file")


def test_traces_of_two_kinds_of_model_are_not_comparable(gold, record, run, tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("other")
    transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=1, **SMALL)) \
        .to(torch.bfloat16).save_pretrained(folder)
    other = record("other", folder, ids=[1, 2, 3], max_new_tokens=1)
    assert_one_line(run("replay", other, "--against", gold), "replay", "not comparable", "llama",
                    "qwen3_5_text")


def test_verify_needs_weights_of_the_recorded_model(gold, run, tmp_path):
    assert_one_line(run("replay", "verify", gold, "--weights", tmp_path), "replay", tmp_path,
                    "safetensors")
    assert_one_line(run("replay", "verify", gold, "--weights", tmp_path / "no"), "replay", "no")
    header = json.dumps({"other": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"1234")
    assert_one_line(run("replay", "verify", gold, "--weights", tmp_path), "replay",
                    "model.embed_tokens.weight")
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 10**9) + header)
    assert_one_line(run("replay", "verify", gold, "--weights", tmp_path), "replay",
                    "model.safetensors", "offset")


USAGE = [
    [],
    ["--no-such-flag"],
    ["one.fb"],
    ["verify"],
    ["verify", "x.fb"],
    ["show"],
    ["show", "x.fb", "--calls", "--params"],
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_a_usage_error_of_replay_is_2(arguments, run):
    answer = run("replay", *arguments)
    assert answer.status == 2
    assert answer.err.strip()


RECORD_USAGE = [
    ([], ""),
    (["hf"], ""),
    (["hf", "M", "-o", "x.fb"], "--token-ids"),
    (["hf", "M", "-o", "x.fb", "--token-ids", "1", "--prompt", "a"], "exactly one"),
    (["hf", "M", "-o", "x.fb", "--token-ids", "1,x"], "'x'"),
    (["hf", "M", "-o", "x.fb", "--token-ids", "-3"], "'-3'"),
    (["hf", "M", "-o", "x.fb", "--token-ids", "@no/such/file"], "no/such/file"),
    (["hf", "M", "-o", "x.fb", "--token-ids", "1", "--dtype", "int7"], "int7"),
    (["hf", "M", "-o", "x.fb", "--token-ids", "1", "--max-new-tokens", "0"], "0"),
    (["hf", "M", "-o", "x.fb", "--token-ids", "1", "--rule", "scope=**"], "digest"),
    (["hf", "M", "-o", "x.fb", "--token-ids", "1", "--python", "no-such-python"], "no-such-python"),
]


@pytest.mark.parametrize(("arguments", "word"), RECORD_USAGE, ids=lambda v: " ".join(v)
                         if isinstance(v, list) else None)
def test_a_usage_error_of_record_is_2(arguments, word, run, tmp_path):
    answer = run("record", *arguments, cwd=tmp_path)
    assert answer.status == 2
    assert word in answer.err
    assert not (tmp_path / "x.fb").exists()


def test_help_is_a_success_and_shows_every_default(run):
    answer = run("record", "hf", "--help")
    assert answer.status == 0
    for default in ("=16", "=bfloat16", "=eager", "=cpu"):
        assert default in answer.out.replace("[", "=").replace("]", "")
    assert run("replay", "--help").status == 0
    assert "Exit status" in run("replay", "--help").out


def test_record_refuses_a_model_that_it_can_not_run(run, tiny, tmp_path):
    def record(folder, *more):
        return run("record", "hf", folder, "--token-ids", "1,2", "-o", tmp_path / "x.fb", *more)

    assert_one_line(record(tmp_path / "no"), "record", "no such model folder")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert_one_line(record(empty), "record", "config.json")
    shutil.copy(tiny / "config.json", empty)
    assert_one_line(record(empty), "record", empty, "without weights")
    (empty / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes()[:5000])
    assert_one_line(record(empty), "record")
    (empty / "config.json").write_text("{ not json")
    assert_one_line(record(empty), "record")
    assert_one_line(run("record", "hf", tiny, "--token-ids", "1,2000", "-o", tmp_path / "x.fb"),
                    "record", "2000", "vocabulary")
    assert_one_line(run("record", "hf", tiny, "--token-ids", "1", "-o", tmp_path / "no" / "x.fb"),
                    "record", tmp_path / "no" / "x.fb", "No such file")


def test_a_replay_without_torch_reads_and_compares_but_does_not_verify(gold, tiny, tmp_path):
    program = BUILD / "bin" / "replay_without_torch"
    same = subprocess.run([program, gold, "--against", gold], capture_output=True, text=True)
    assert same.returncode == 0 and "bit-identical" in same.stdout
    refused = subprocess.run([program, "verify", gold, "--weights", tiny], capture_output=True,
                             text=True)
    assert refused.returncode == 2 and "without LibTorch" in refused.stderr
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    assert "torch" not in linked


def test_the_hash_in_a_trace_is_three_lines_of_python(tiny, run, record):
    trace = record("hash", tiny, ids=[1, 2, 3], max_new_tokens=1)
    rows = [json.loads(line)
            for line in run("replay", "show", trace, "--params", "--json").out.splitlines()]
    hashes = {row["name"]: row["hash"] for row in rows}
    name = "model.layers.3.self_attn.q_proj.weight"
    data = load_file(tiny / "model.safetensors")[name].view(torch.uint8).numpy().tobytes()
    blocks = [data[i:i + 4096].ljust(4096, b"\0") for i in range(0, len(data), 4096)]
    leaves = b"".join(xxhash.xxh3_64_intdigest(block).to_bytes(8, "little") for block in blocks)
    assert hashes[name] == xxhash.xxh3_128_hexdigest(leaves + len(data).to_bytes(8, "little"))
