"""One place of a trace: printed, exported with all that its kernel needs, and judged, where the trace
keeps no values."""

import json

import numpy
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import models
from faults.plants import cast_before_weight

STEPS = 4
MLP = "model.layers.5.mlp"
ATTENTION = "model.layers.3.self_attn"
NORM = "model.layers.2.post_attention_layernorm"


@pytest.fixture(scope="module")
def oracle(record, tiny):
    """The oracle's trace; no values in it but those of decisions."""
    return record("place-oracle", tiny, max_new_tokens=STEPS)


@pytest.fixture(scope="module")
def full(record, tiny):
    """The same run with every value."""
    return record("place-full", tiny, max_new_tokens=STEPS, rules=["scope=**:values"])


@pytest.fixture(scope="module")
def model(tiny):
    from goldentrace import hf
    return hf.load(tiny, dtype="bfloat16", attn="eager")


def one_line(answer, *words):
    assert answer.status == 2, answer.out + answer.err
    assert answer.out == "" and len(answer.err.strip().splitlines()) == 1, answer.err
    for word in words:
        assert str(word) in answer.err, answer.err


def fits(text):
    lines = text.splitlines()
    return len(lines) <= 25 and all(len(line) <= 100 for line in lines)


# ---- show ---------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def show(run, tiny):
    """show(trace, place, more arguments...) -> the JSON report."""
    def shown(trace, place, *arguments, weights=True):
        answer = run("replay", "show", trace, "--tensor", place, "--json", *arguments,
                     *(["--weights", tiny] if weights else []))
        assert answer.status == 0, answer.err
        return json.loads(answer.out)
    return shown


@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize("place", ["layers.0.linear_attn", "layers.3.self_attn/softmax", MLP,
                                   MLP + "/aten::mul.Tensor", "layers.7", "model.norm/mul#2",
                                   "model.rotary_emb", "lm_head"])
def test_a_tensor_that_was_not_kept_is_the_one_that_another_recording_keeps(place, step, oracle, full,
                                                                           show):
    computed = show(oracle, place, "--step", step)
    kept = show(full, place, "--step", step, weights=False)
    assert (computed["value"], kept["value"]) == ("computed", "kept")
    assert computed["as_recorded"] is True and kept["as_recorded"] is True
    for key in ("place", "call", "dtype", "shape", "hash", "stats", "first_elements"):
        assert computed[key] == kept[key], key
    assert computed["hash"] == computed["recorded_hash"]


def test_what_is_shown_are_the_elements_and_their_statistics(full, show, run):
    import goldentrace
    shown = show(full, MLP, weights=False)
    value = goldentrace.open(full).tensor(MLP + ".down_proj", step=0).torch().float()
    assert shown["shape"] == list(value.shape)
    assert shown["first_elements"] == value.flatten()[:1000].tolist()
    for key, want in (("min", value.min()), ("max", value.max()), ("mean", value.double().mean()),
                      ("norm", value.double().norm())):
        assert shown["stats"][key] == pytest.approx(float(want), rel=1e-6), key
    answer = run("replay", "show", full, "--tensor", MLP)
    assert answer.status == 0 and fits(answer.out)
    assert "bfloat16 [1, 100, 128]" in answer.out and "as the trace keeps it" in answer.out
    assert f"{float(value[0, 0, 0]):.4g}" in answer.out and "..." in answer.out


def test_a_place_is_found_by_its_end_or_a_glob_and_is_the_same(oracle, show):
    want = show(oracle, f"{MLP}/aten::mul.Tensor#1")
    for place in ("layers.5.mlp/mul", "*.5.mlp/mul.Tensor", "5.mlp/aten::mul#1"):
        assert show(oracle, place) == want


def test_a_promoted_run_gives_another_tensor_near_by(oracle, show):
    eager, wide = show(oracle, "lm_head"), show(oracle, "lm_head", "--promote", "float32")
    assert wide["dtype"] == "float32" and wide["as_recorded"] is None and wide["promoted"]
    x, y = (numpy.array(report["first_elements"]) for report in (eager, wide))
    assert 0.001 < numpy.linalg.norm(x - y) / numpy.linalg.norm(y) < 0.1


def test_what_can_not_be_shown_gets_one_line(oracle, tiny, run, tmp_path):
    def refused(*arguments, words, weights=True):
        more = ["--weights", tiny] if weights else []
        one_line(run("replay", "show", oracle, *arguments, *more), *words)

    refused("--tensor", MLP, weights=False, words=["was not kept", "--weights MODEL_DIR"])
    refused("--tensor", "layers.5.mpl", words=["no module 'layers.5.mpl'", "nearest: " + MLP])
    refused("--tensor", "mlp", words=["is 8 modules", "model.layers.0.mlp"])
    refused("--tensor", "layers.5.mlp/add", words=["calls no add", "it calls aten::mul.Tensor"])
    refused("--tensor", "layers.5.mlp/mul#2", words=["1 time, not 2"])
    refused("--tensor", "layers.5.mlp/mul#x", words=["'x' is no number"])
    refused("--tensor", "", words=["a place is SCOPE"])
    refused("--tensor", MLP, "--step", 9, words=["no step 9: it has 0 to 3"])
    refused("--tensor", MLP, "--step", "0..1", words=["one forward pass"])
    one_line(run("replay", "show", oracle, "--tensor", MLP, "--weights", tmp_path / "x"), "x")
    part = tmp_path / "part.fb"
    assert run("replay", "trim", oracle, part, "--steps", "0").status == 0
    one_line(run("replay", "show", part, "--tensor", MLP, "--weights", tiny), "trimmed away")
    for arguments in (["--tensor", MLP, "--calls"], ["--tensor", MLP, "--scope", "x"],
                      ["--weights", tiny], ["--promote", "float32"]):
        assert run("replay", "show", oracle, *arguments).status == 2


def test_other_weights_are_named_and_compute_nothing(oracle, tiny, run, tmp_path):
    tensors = load_file(tiny / "model.safetensors")
    tensors[MLP + ".up_proj.weight"][3, 7] += 1
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    one_line(run("replay", "show", oracle, "--tensor", MLP, "--weights", tmp_path),
             "not the oracle's weights", MLP + ".up_proj.weight")


# ---- export -------------------------------------------------------------------------------------

class Slice:
    def __init__(self, folder):
        self.folder = folder
        self.inputs, self.outputs, self.wide = (
            load_file(folder / f"{name}.safetensors") for name in ("inputs", "outputs", "float32"))
        self.report = json.loads((folder / "slice.json").read_text())
        self.output = self.report["outputs"][0]["name"]

    def input(self, maker):
        """What a call of this module made, the only one."""
        return next(t for name, t in self.inputs.items() if name.startswith(maker + "/"))


@pytest.fixture(scope="module")
def export(run, oracle, tiny, tmp_path_factory):
    def exported(place, *arguments, folder=None):
        folder = folder or tmp_path_factory.mktemp("slice") / "out"
        answer = run("replay", "export", oracle, "--slice", place, "--weights", tiny, "-o", folder,
                     *arguments)
        assert answer.status == 0 and answer.err == "", answer.err
        return Slice(folder)
    return exported


def mlp(x, tensors):
    gate, up, down = (tensors[f"{MLP}.{name}_proj.weight"] for name in ("gate", "up", "down"))
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


@pytest.mark.parametrize("step", [0, 2])
def test_a_kernel_runs_on_what_was_exported_and_gives_the_output(step, export, model):
    part = export("layers.5.mlp", "--step", step)
    parameters = dict(model.named_parameters())
    mine = {name for name in part.inputs if name in parameters}
    assert mine == {f"{MLP}.{name}_proj.weight" for name in ("gate", "up", "down")}
    assert all(torch.equal(part.inputs[name], parameters[name]) for name in mine)
    x = part.input("model.layers.5.post_attention_layernorm")
    assert len(part.inputs) == 4 and x.shape[1] == (100 if step == 0 else 1)
    with torch.no_grad():
        assert torch.equal(mlp(x, part.inputs), part.outputs[part.output])
        assert torch.equal(model.model.layers[5].mlp(x), part.outputs[part.output])
        wide = mlp(x.float(), {name: tensor.float() for name, tensor in part.inputs.items()})
    assert torch.allclose(wide, part.wide[part.output], rtol=1e-4, atol=1e-5)
    assert [call["op"] for call in part.report["calls"]] == [
        "aten::linear", "aten::silu", "aten::linear", "aten::mul.Tensor", "aten::linear"]


def test_a_module_of_several_inputs_and_outputs_is_exported_whole(export, model, full):
    import goldentrace
    part = export(ATTENTION)
    rotary = [name for name in part.inputs if name.startswith("model.rotary_emb/")]
    mask = [name for name in part.inputs if name.startswith("model/")]
    with torch.no_grad():
        output, _ = model.model.layers[3].self_attn(
            part.input("model.layers.3.input_layernorm"), attention_mask=part.inputs[mask[0]],
            position_embeddings=tuple(part.inputs[name] for name in sorted(rotary)))
    assert torch.equal(output, part.outputs[part.output])
    # The two caches, which the next step reads.
    others = sorted(set(part.outputs) - {part.output})
    assert others == [f"{ATTENTION}/aten::cat", f"{ATTENTION}/aten::cat#2"]
    assert {part.outputs[name].shape for name in others} == {(1, 2, 100, 64)}
    assert part.outputs.keys() == part.wide.keys()
    assert goldentrace.open(full).tensor(ATTENTION + ".o_proj", step=0).torch().equal(output)
    for entry in part.report["outputs"]:
        want = part.wide[entry["name"]]
        error = (part.outputs[entry["name"]].float() - want).norm() / want.norm()
        assert entry["band"]["eager"] == pytest.approx(float(error), rel=1e-3)
        assert 1 < entry["band"]["limit"] < 1.5 and entry["band"]["rounded"] > 0


def test_a_state_of_an_earlier_step_is_an_input(export):
    part = export("layers.4.linear_attn", "--step", 2)
    states = [name for name in part.inputs if "/step 1" in name]
    assert len(states) == 2 and {part.inputs[name].dim() for name in states} == {3, 4}
    assert len(part.outputs) == 3


def test_one_call_is_a_slice_too(export):
    part = export("layers.5.mlp/mul")
    assert len(part.report["calls"]) == 1 and len(part.inputs) == 2
    x, y = part.inputs.values()
    assert torch.equal(x * y, part.outputs[part.output])


def test_only_a_folder_of_ours_is_written_over(export, run, oracle, tiny, tmp_path):
    folder = tmp_path / "out"
    export("layers.5.mlp", folder=folder)
    again = export("layers.3.self_attn", folder=folder)
    assert again.report["place"] == ATTENTION and len(list(folder.iterdir())) == 4
    other = tmp_path / "other"
    other.mkdir()
    export("layers.5.mlp", folder=other)  # empty
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "slice.json").write_text('["mine"]')
    (tmp_path / "file").write_text("mine")
    for name, word in (("mine", "holds other files"), ("file", "is no folder"),
                       ("no/such", "can't create")):
        one_line(run("replay", "export", oracle, "--slice", MLP, "--weights", tiny, "-o",
                     tmp_path / name), word)
    assert (tmp_path / "mine" / "slice.json").read_text() == '["mine"]'
    assert not (tmp_path / "no").exists()
    one_line(run("replay", "export", oracle, "--slice", MLP, "-o", tmp_path / "new"), "--weights")
    one_line(run("replay", "export", oracle, "--slice", "x", "--weights", tiny, "-o",
                 tmp_path / "new"), "no module 'x'")
    assert not (tmp_path / "new").exists()


# ---- one tensor against a place -----------------------------------------------------------------

@pytest.fixture(scope="module")
def judge(replay, oracle, tiny, tmp_path_factory):
    """judge(tensor or array, place, more arguments...) -> (Answer, report)."""
    def judged(value, place, *arguments):
        path = tmp_path_factory.mktemp("candidates") / "x.npy"
        if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
            value = value.contiguous().view(torch.int16).numpy().view(numpy.uint16)
        numpy.save(path, numpy.asarray(value))
        answer, report = replay(path, oracle, "--weights", tiny, "--at", place, *arguments)
        assert report is not None, answer.err
        assert fits(answer.out) and report["as_recorded"] is True, answer.out
        return answer, report
    return judged


def agrees(answered, verdict="in_band"):
    answer, report = answered
    assert answer.status == report["exit"] == 0 and answer.out.startswith("AGREE  "), answer.out
    assert report["verdict"] == verdict
    return report


def diverges(answered):
    answer, report = answered
    assert answer.status == report["exit"] == 1 and answer.out.startswith("DIVERGE  "), answer.out
    assert report["verdict"] == "fault"
    return answer.out, report


@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize("place", ["layers.5.mlp", "layers.3.self_attn", "layers.4.linear_attn",
                                   "layers.2.post_attention_layernorm", "layers.6", "lm_head",
                                   "layers.5.mlp/mul", "model.embed_tokens"])
def test_the_oracles_own_output_agrees_in_both_dtypes(place, step, export, judge):
    part = export(place, "--step", step)
    eager, wide = part.outputs[part.output], part.wide[part.output]
    report = agrees(judge(eager, place, "--step", step))
    assert report["identical"] and report["ratio"] in (0, 1)
    report = agrees(judge(wide, place, "--step", step))
    assert report["ratio"] < 0.01


@pytest.mark.parametrize("kind", ["float32", "qwen3_next"])
def test_places_of_other_runs_are_computed_and_judged(kind, record, run, tiny, tmp_path):
    """float32 against float64, and experts that tokens are routed to."""
    folder, dtype = tiny, "float32"
    if kind != dtype:
        folder, dtype = tmp_path / "model", "bfloat16"
        models.make(getattr(models, kind)).save_pretrained(folder)
    trace = record(f"place-{kind}", folder, dtype=dtype, max_new_tokens=2,
                   ids=[(37 * i * i + 11) % 500 for i in range(70)])
    for place, step in (("layers.0", 0), ("layers.0.mlp", 1), ("layers.3", 0)):
        common = ["--weights", folder, "--step", step]
        answer = run("replay", "export", trace, "--slice", place, *common, "-o", tmp_path / "out")
        assert answer.status == 0 and answer.err == "", answer.err
        part = Slice(tmp_path / "out")
        assert part.report["as_recorded"] is True
        for name, value in (("own", part.outputs), ("wide", part.wide)):
            save_file({"x": value[part.output]}, tmp_path / f"{name}.safetensors")
            answer = run("replay", tmp_path / f"{name}.safetensors", "--against", trace, "--at",
                         place, *common)
            assert answer.status == 0, (place, answer.out, answer.err)
        save_file({"x": part.outputs[part.output].double() * 1.02}, tmp_path / "off.safetensors")
        answer = run("replay", tmp_path / "off.safetensors", "--against", trace, "--at", place,
                     *common)
        assert answer.status == 1, (place, answer.out, answer.err)


def test_few_elements_blame_nobody_and_agree_with_eager(export, judge):
    place = "layers.0.linear_attn.in_proj_a"
    part = export(place, "--step", 2)
    value = part.outputs[part.output]
    assert value.numel() < 16
    agrees(judge(value, place, "--step", 2))
    answer, report = judge(value.float() * 1.1, place, "--step", 2)
    assert answer.status == 2 and report["verdict"] == "too_small"
    assert answer.out.startswith("UNDECIDED  too few elements")


def test_another_kernel_agrees(export, judge, tiny):
    from goldentrace import hf
    part = export(ATTENTION)
    attention = hf.load(tiny, dtype="bfloat16", attn="sdpa").model.layers[3].self_attn
    rotary = sorted(name for name in part.inputs if name.startswith("model.rotary_emb/"))
    with torch.no_grad():
        output, _ = attention(part.input("model.layers.3.input_layernorm"), attention_mask=None,
                              position_embeddings=tuple(part.inputs[name] for name in rotary))
    report = agrees(judge(output, ATTENTION))
    assert not report["identical"] and 0.3 < report["ratio"] < 1.2
    # float16 and float64 are held against it as well, and a batch of one may be left out.
    agrees(judge(output.double(), ATTENTION))
    agrees(judge(output.half()[0], ATTENTION))
    agrees(judge(numpy.asfortranarray(output.float().numpy()), ATTENTION))


def test_another_order_of_roundings_is_a_policy(export, judge, model):
    import copy
    part = export(NORM)
    norm = copy.deepcopy(model.model.layers[2].post_attention_layernorm)
    cast_before_weight(norm)
    with torch.no_grad():
        output = norm(part.input("model.layers.2"))
    report = agrees(judge(output, NORM), "rounding_policy")
    assert report["ratio"] > report["band"] and report["rounded_ratio"] <= report["rounded_band"]
    answer, report = judge(output, NORM, "--strict")
    assert answer.status == 1 and answer.out.startswith("DIVERGE  rounding policy: " + NORM)


def test_faults_are_told_from_noise(export, judge):
    part = export(MLP)
    wide = part.wide[part.output]
    noisy = wide.bfloat16()
    text, report = diverges(judge(noisy.float() * 1.02, MLP))
    assert report["ratio"] > 3 and report["biased"] and report["scale"] == pytest.approx(0.02, rel=0.1)
    assert "replay export" in text and f"--slice {MLP}" in text

    channel = part.outputs[part.output].float()
    channel[..., 40] *= 1.05
    text, report = diverges(judge(channel, MLP))
    assert report["sliced"] and report["worst_slice"]["name"] == "channel 40"
    assert "channel 40: " in text

    token = part.outputs[part.output].float()
    token[0, 17] += 0.05 * token[0, 17].roll(1)
    text, report = diverges(judge(token, MLP))
    assert report["worst_slice"]["name"] == "the token at position 17"

    hole = wide.clone()
    hole[0, 3, 5] = float("nan")
    text, report = diverges(judge(hole, MLP))
    assert report["one_sided"] == 1 and "1 element" in text

    embedding = export("model.embed_tokens")
    moved = embedding.outputs[embedding.output].float()
    moved[0, 0, 0] += 0.01
    text, report = diverges(judge(moved, "model.embed_tokens"))
    assert report["exact"] and "moves numbers only, and is not exact" in text


def test_a_wrong_gate_is_wrong_at_its_own_call_and_at_the_module(export, judge):
    part = export(MLP)
    x = part.input("model.layers.5.post_attention_layernorm")
    gelu = F.gelu(F.linear(x, part.inputs[MLP + ".gate_proj.weight"]))
    up = F.linear(x, part.inputs[MLP + ".up_proj.weight"])
    diverges(judge(gelu * up, MLP + "/mul"))
    diverges(judge(F.linear(gelu * up, part.inputs[MLP + ".down_proj.weight"]), MLP))
    # The next call is judged from the oracle's own inputs: nothing is wrong there.
    agrees(judge(part.outputs[part.output], "layers.5.mlp.down_proj"))


def test_a_safetensors_file_is_taken_too(export, replay, oracle, tiny, tmp_path):
    part = export(MLP)
    value = part.outputs[part.output]
    for tensors in ({"whatever": value}, {MLP: value, "another": value * 2}):
        save_file(tensors, tmp_path / "x.safetensors")
        answer, report = replay(tmp_path / "x.safetensors", oracle, "--weights", tiny, "--at", MLP)
        assert answer.status == 0 and report["identical"]


def test_what_can_not_be_judged_gets_one_line(run, oracle, tiny, tmp_path):
    def save(name, array):
        numpy.save(tmp_path / name, array)
        return tmp_path / name

    good = save("good.npy", numpy.zeros((1, 100, 128), numpy.float32))

    def refused(candidate, *words, place=MLP, more=()):
        one_line(run("replay", candidate, "--against", oracle, "--weights", tiny, "--at", place,
                     *more), *words)

    refused(save("shape.npy", numpy.zeros((1, 128, 100), numpy.float32)),
            "float32 [1, 128, 100]", MLP + " is bfloat16 [1, 100, 128]")
    refused(save("int.npy", numpy.zeros((1, 100, 128), numpy.int64)), "int64 can't be held against")
    refused(save("text.npy", numpy.array(["a"])), "can't be read")
    refused(save("big.npy", numpy.zeros((1, 100, 128), ">f4")), "'>f4'")
    cut = tmp_path / "cut.npy"
    cut.write_bytes(good.read_bytes()[:-1])
    refused(cut, "51199 bytes of elements", "takes 51200")
    cut.write_bytes(b"")
    refused(cut, "is no .npy file")
    refused(tmp_path / "missing.npy", "missing.npy")
    refused(oracle, "one tensor: a .npy or .safetensors file")
    save_file({"a": torch.zeros(2), "b": torch.zeros(2)}, tmp_path / "two.safetensors")
    refused(tmp_path / "two.safetensors", "holds 2 tensors and none of the name")
    refused(good, "no module 'x'", place="x")
    refused(good, "int64 [1, 1]", "bands are for float tensors", place="/argmax")
    refused(good, "no step 7", more=["--step", 7])
    one_line(run("replay", good, good, "--against", oracle, "--weights", tiny, "--at", MLP),
             "give one candidate")
    one_line(run("replay", good, "--against", oracle, "--weights", tiny), "--at PLACE")
    one_line(run("replay", good, "--against", oracle, "--weights", tmp_path, "--at", MLP),
             f"{tmp_path}: the checkpoint has no tensor")
    for arguments in (["--at", MLP], ["--step", 1, "--weights", tiny],
                      ["--at", MLP, "--weights", tiny, "--depth", "local"],
                      ["--at", MLP, "--weights", tiny, "--device", "cuda"]):
        assert run("replay", good, "--against", oracle, *arguments).status == 2


def test_without_torch_only_what_is_kept_is_shown(run, build, oracle, full, tiny, tmp_path):
    program = build / "bin" / "replay_without_torch"
    answer = run(program, "show", full, "--tensor", MLP)
    assert answer.status == 0 and answer.out == run("replay", "show", full, "--tensor", MLP).out
    numpy.save(tmp_path / "x.npy", numpy.zeros((1, 100, 128), numpy.float32))
    for arguments in (["show", oracle, "--tensor", MLP],
                      ["export", oracle, "--slice", MLP, "-o", tmp_path / "out"],
                      [tmp_path / "x.npy", "--against", oracle, "--at", MLP]):
        one_line(run(program, *arguments, "--weights", tiny), "built without LibTorch")
