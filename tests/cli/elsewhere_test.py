"""A trace is verified where bits move: another instruction set, another thread count. And a C++
program's trace."""

import os
import pathlib

import pytest

ENVIRONMENTS = [{"ATEN_CPU_CAPABILITY": "default"}, {"ONEDNN_MAX_CPU_ISA": "AVX2"},
                {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}]
# A processor that has no more than AVX2 computes the same under the others.
if "avx512" not in pathlib.Path("/proc/cpuinfo").read_text():
    del ENVIRONMENTS[1:]


def name_of(environment):
    return "-".join(environment.values())


@pytest.fixture(scope="module")
def no_weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "none.safetensors"
    path.write_bytes(b"\x02" + bytes(7) + b"{}")
    return path


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=name_of)
def test_a_golden_trace_verifies_in_band_elsewhere(verify, gold, tiny, environment, monkeypatch):
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    answer, report = verify(gold, tiny)
    assert answer.status == 0, answer.out
    assert report["mode"] == "elsewhere"
    assert report["verdict"] == "in_band"
    assert report["not_executable"] == report["out_of_band"] == report["other_shapes"] == 0
    assert report["views"] == report["views_equal"]
    assert report["hashes"] == sum(report[kind] for kind in (
        "hashes_equal", "in_band", "drifted", "too_small", "not_judged")) + (
        report["decisions"] - report["decisions_equal"])
    assert report["in_band"] > 0
    assert " when recorded, " in report["environment"][0]


@pytest.mark.parametrize("environment", [*ENVIRONMENTS[:2], {"OMP_NUM_THREADS": "1"}],
                         ids=name_of)
def test_a_trace_recorded_elsewhere_verifies_here(run, verify, tiny, tmp_path, environment):
    trace = tmp_path / "elsewhere.fb"
    done = run("record", "hf", tiny, "--token-ids", "5,6,7,8,9,10,11,12", "--max-new-tokens", 3,
               "--ignore-eos", "-o", trace, env={**os.environ, **environment})
    assert done.status == 0, done.err
    answer, report = verify(trace, tiny)
    assert answer.status == 0, answer.out
    assert report["verdict"] in ("in_band", "reproduced")
    if "OMP_NUM_THREADS" in environment:  # threads are taken from the trace: the same bits
        assert report["verdict"] == "reproduced"


def test_a_write_that_was_not_seen_is_out_of_band_elsewhere(verify, no_weights, tmp_path,
                                                            monkeypatch):
    import goldentrace
    import torch
    trace = tmp_path / "hole.fb"
    with goldentrace.record(trace):
        x = torch.linspace(-1, 1, 5000)
        x.numpy()[:] = 3
        x.mul(2)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    answer, report = verify(trace, no_weights)
    assert answer.status == 1
    assert answer.out.startswith("DIVERGE  out of band, in another environment than recorded")
    assert report["findings"][0]["op"] == "aten::mul.Tensor"


def test_a_cpp_programs_trace_verifies(run, verify, no_weights, calls, tmp_path):
    trace = tmp_path / "cpp.fb"
    assert run("record_cpp", trace).status == 0
    answer, report = verify(trace, no_weights)
    assert answer.status == 0, answer.out
    assert report["verdict"] == "reproduced"
    scopes = [call["scope"] for call in calls(trace) if call["op"] == "aten::linear"]
    assert scopes == ["mlp.up", "mlp.down"] * 2
