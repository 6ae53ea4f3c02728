"""goldentrace.Writer and goldentrace.open(): what is given comes back, as numpy and as torch."""

import gc
import math
import pathlib
import subprocess
import sys
import threading

import numpy
import pytest
import torch

import goldentrace
from paths import BUILD

DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
          "complex128", "bool", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz",
          "float8_e4m3fnuz", "uint16", "uint32", "uint64", "complex32"]

ASKEW = numpy.zeros(4, numpy.dtype({"names": ["x", "y"], "formats": ["i1", "f4"]}))["y"]
ASKEW[:] = numpy.arange(4)


def write(path, **options):
    return goldentrace.Writer(path, engine="my-engine", **options)


def bits(tensor):
    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())


@pytest.mark.parametrize("name", DTYPES)
def test_torch_tensors_of_every_dtype_come_back(trace, name):
    dtype = getattr(torch, name)
    tensor = torch.arange(6).reshape(2, 3).to(torch.float32)
    tensor = tensor.to(torch.complex64).to(dtype) if dtype.is_complex else tensor.to(dtype)
    with write(trace) as writer:
        writer.tensor("x", tensor)
    read = goldentrace.open(trace).tensor("x")
    assert (read.dtype, read.shape) == (name, (2, 3))
    back = read.torch()
    assert back.dtype == dtype and back.shape == (2, 3)
    assert bits(back) == bits(tensor) == bytes(read.bytes())


@pytest.mark.parametrize("array", [
    numpy.arange(12, dtype=numpy.float32).reshape(3, 4).T,
    numpy.arange(12, dtype=numpy.int64)[::-2],
    numpy.float64(2.5),
    numpy.zeros((2, 0), numpy.int8),
    numpy.arange(3, dtype=">i4"),
    numpy.broadcast_to(numpy.float16(3), (2, 2)),
    ASKEW,
    [1.0, 2.0],
], ids=["transposed", "backwards", "scalar", "empty", "big endian", "broadcast", "askew", "list"])
def test_numpy_arrays_of_every_shape_come_back(trace, array):
    with write(trace) as writer:
        writer.tensor("x", array)
    back = goldentrace.open(trace).tensor("x").numpy()
    want = numpy.asarray(array)
    assert back.shape == want.shape and back.dtype == want.dtype.newbyteorder("=")
    assert (back == want).all()
    assert back.flags.writeable


def test_views_of_torch_tensors_are_what_they_show(trace):
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6).requires_grad_()
    views = {"transposed": base.T, "every second": base[::2, ::3],
             "expanded": base[:1].expand(3, 6), "conjugate": torch.tensor([1 + 2j]).conj(),
             "scalar": base.sum()}
    with write(trace) as writer:
        for name, view in views.items():
            writer.tensor(name, view)
    read = goldentrace.open(trace)
    for name, view in views.items():
        assert torch.equal(read.tensor(name).torch(), view.detach().resolve_conj()), name


def test_a_tensor_keeps_its_notes(trace):
    with write(trace, dtype="bfloat16", model_config={"model_type": "tiny"}) as writer:
        writer.step(2)
        first = writer.tensor("a", numpy.ones(3, numpy.float32), op="MUL",
                              layout="q, gate in turns", placement=("shard", 0, 1, 4),
                              rows=[(7, 0, 3, 20)])
        writer.tensor("b", numpy.zeros(3, numpy.float32), inputs=[first], value=False, stats=False,
                      placement=("partial_sum", 1, 2), step=5)
        writer.tensor("c", numpy.array([1, 2]), decision=True)
        writer.tensor("d", numpy.full(3, 2, numpy.float32), value=False)
    a, b, c, d = goldentrace.open(trace).tensors()
    assert (a.name, a.op, a.step, a.foreign, a.layout) == ("a", "MUL", 2, True, "q, gate in turns")
    assert (a.placement.kind, a.placement.index, a.placement.count) == ("shard", 1, 4)
    (row,) = a.rows
    assert (row.request, row.first_row, row.count, row.position) == (7, 0, 3, 20)
    assert a.stats.count == 3 and a.stats.sum == 3 and a.has_value
    assert (b.op, b.step, b.inputs, b.stats, b.has_value) == ("tensor", 5, [a.id], None, False)
    assert (b.placement.kind, b.placement.index, b.placement.count) == ("partial_sum", 1, 2)
    assert b.hash != a.hash and len(a.hash) == 32
    assert c.decision and c.stats is None and c.placement.kind == "replicated"
    assert (a.sketch, b.sketch, c.sketch, d.has_value) == (None, None, None, False)
    assert sorted(map(abs, d.sketch)) == [0] * 61 + [2] * 3


def test_bits_under_another_dtype(trace):
    with write(trace) as writer:
        writer.tensor("x", numpy.array([0x3f80, 0xc000], numpy.uint16), dtype="bfloat16")
        with pytest.raises(TypeError, match="bits of uint16 are not those of float32"):
            writer.tensor("y", numpy.zeros(2, numpy.uint16), dtype="float32")
        with pytest.raises(TypeError, match="no dtype"):
            writer.tensor("y", numpy.zeros(2, numpy.uint16), dtype="float7")
    assert goldentrace.open(trace).tensor("x").torch().tolist() == [1.0, -2.0]


def test_numpy_has_no_bfloat16_of_its_own(trace, monkeypatch):
    with write(trace) as writer:
        writer.tensor("x", torch.ones(2, dtype=torch.bfloat16))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="numpy has no bfloat16: install ml_dtypes, or use .torch"):
        goldentrace.open(trace).tensor("x").numpy()


def test_the_text_of_a_run_comes_back(trace):
    with write(trace) as writer:
        writer.request(prompt="Hi", prompt_ids=[1, 2])
        writer.result(chosen=30, top_ids=[7, 30], top_logits=[1.0, 2.0],
                      top_pieces=["seven", b"\x00\xff"], rows=[(0, 0, 2, 0)])
        writer.step(1)
        writer.result(chosen=40, logprob=-0.25, logprob_kind="processed", top_ids=[40],
                      top_logprobs=[-0.25])
        writer.request(prompt="Hi", prompt_ids=[1, 2], prompt_pieces=["H", b"\xf0\x00i"],
                       sampling={"do_sample": False, "top_k": (5, "model")}, stop_ids=[9],
                       output_ids=numpy.array([30, 40]), output="so", finish_reason="length",
                       forced=True)
    read = goldentrace.open(trace)
    (request,) = read.requests
    assert request.forced and request.output_ids == [30, 40]
    assert request.prompt_pieces == [b"H", b"\xf0\x00i"] and request.output_pieces == []
    assert request.sampling["do_sample"] == ("false", "request")
    assert request.sampling["top_k"] == ("5", "model")
    assert (request.prompt, request.output, request.finish_reason) == ("Hi", "so", "length")
    prefill, decode = read.steps
    assert (prefill.chosen, prefill.top_ids, prefill.top_logits) == (30, [30, 7], [2.0, 1.0])
    assert prefill.top_pieces == [b"\x00\xff", b"seven"] and math.isnan(prefill.logprob)
    assert (decode.step, decode.logprob_kind, decode.top_logprobs) == (1, "processed", [-0.25])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_logits_give_the_numbers_of_record_hf(trace, dtype):
    from goldentrace import hf
    row = (torch.randn(1000) * 5).to(dtype)
    row[17] = row[900] = row.max()
    with write(trace) as writer:
        writer.logits(row)
        writer.logits(torch.stack([row, row], 1)[:, 0])  # with gaps
    want = hf.step_record(0, row, 17, 0, 1)
    for step in goldentrace.open(trace).steps:
        assert step.chosen == 17 and step.top_ids == want["top_ids"]
        assert step.top_logits == torch.tensor(want["top_logits"], dtype=torch.float32).tolist()
        assert step.gap_ulp == want["gap_ulp"]
        assert step.logprob == pytest.approx(want["logprob"], rel=1e-12)
        assert step.logits_rms == pytest.approx(want["logits_rms"], rel=1e-12)


def test_parameters_come_back(trace):
    weight = torch.randn(2, 3)
    with write(trace) as writer:
        writer.parameter("w", weight)
        writer.parameter("w.same", weight, sources=["model.w"])
        writer.parameter("b", numpy.zeros(2, numpy.float32), kind="buffer")
        with pytest.raises(ValueError, match="give an array, or hash"):
            writer.parameter("x")
    read = {entry.name: entry for entry in goldentrace.open(trace).parameters}
    assert torch.equal(read["w"].torch(), weight)
    assert (read["w.same"].recipe, read["w.same"].sources) == ("same", ["model.w"])
    assert read["w.same"].hash == read["w"].hash and read["b"].kind == "buffer"
    with write(trace) as writer:
        writer.parameter("w", hash=read["w"].hash, dtype="float32", shape=(2, 3),
                         sources=["model.w"])
    (entry,) = goldentrace.open(trace).parameters
    assert (entry.hash, entry.shape, entry.has_value) == (read["w"].hash, (2, 3), False)
    with pytest.raises(goldentrace.TraceError, match="keeps no bytes"):
        entry.numpy()


def test_lookup_by_name_op_step_and_occurrence(trace):
    with write(trace) as writer:
        for step in range(3):
            writer.step(step)
            for op in ("mul", "add", "mul"):
                writer.tensor("layer", numpy.array([step]), op=op)
    read = goldentrace.open(trace)
    assert read.tensor("layer").call == 0
    assert read.tensor("layer", op="add", step=2).call == 7
    assert read.tensor("layer", op="mul", occurrence=3).call == 5
    with pytest.raises(goldentrace.TraceError, match="no tensor 'layer' of op add, not so often"):
        read.tensor("layer", op="add", occurrence=3)


def test_an_exception_in_the_block_cuts_the_run_short(trace):
    with pytest.raises(ZeroDivisionError):
        with write(trace) as writer:
            writer.tensor("x", numpy.ones(1))
            1 / 0
    read = goldentrace.open(trace)
    assert not read.whole and len(list(read.tensors())) == 1
    (counter,) = (counter for counter in read.counters if counter.name == "run_cut_short")
    assert counter.severity == "error" and counter.first == "ZeroDivisionError: division by zero"


def test_an_exception_that_is_no_utf8_cuts_the_run_short_too(trace):
    with pytest.raises(OSError, match="\udcff"):
        with write(trace):
            raise OSError("no file \udcff")
    (counter,) = goldentrace.open(trace).counters
    assert (counter.name, counter.first) == ("run_cut_short", "OSError: no file ?")


def test_a_severity_of_a_later_version_is_its_number(trace, monkeypatch):
    with write(trace) as writer:
        writer.cut_short("why")
    monkeypatch.delitem(goldentrace.capi.SEVERITIES, 2)
    assert [counter.severity for counter in goldentrace.open(trace).counters] == ["2"]


def test_a_writer_that_is_not_closed_leaves_a_cut_file(trace):
    writer = write(trace)
    writer.tensor("x", numpy.ones(1))
    writer.flush()
    del writer
    gc.collect()
    read = goldentrace.open(trace)
    assert not read.whole and [counter.name for counter in read.counters] == ["trace_cut"]
    assert read.tensor("x").numpy().tolist() == [1.0]


def test_faults_are_exceptions(trace, tmp_path):
    with pytest.raises(goldentrace.TraceError) as error:
        goldentrace.open(tmp_path / "none.fb")
    assert error.value.code == "not found" and "none.fb" in str(error.value)
    with pytest.raises(goldentrace.TraceError):
        write(tmp_path / "no" / "folder.fb")
    writer = write(trace)
    with pytest.raises(TypeError, match="no array of <U1"):
        writer.tensor("x", numpy.array(["a"]))
    with pytest.raises(TypeError, match="meta tensor"):
        writer.tensor("x", torch.empty(2, device="meta"))
    with pytest.raises(TypeError, match="sparse"):
        writer.tensor("x", torch.eye(2).to_sparse())
    with pytest.raises(goldentrace.TraceError, match="input 5 is no tensor of this writer"):
        writer.tensor("x", numpy.ones(1), inputs=[5])
    with pytest.raises(ValueError, match="placement 'half' is none of"):
        writer.tensor("x", numpy.ones(1), placement=("half", 1))
    with pytest.raises(ValueError, match="1 pieces for 2 ids"):
        writer.request(prompt_ids=[1, 2], prompt_pieces=["a"])
    with pytest.raises(ValueError, match="one dimension"):
        writer.logits(numpy.ones((1, 2)))
    writer.close()
    writer.close()
    with pytest.raises(goldentrace.TraceError, match="closed"):
        writer.step(1)
    read = goldentrace.open(trace)
    read.close()
    with pytest.raises(goldentrace.TraceError, match="closed"):
        read.requests


@pytest.mark.parametrize("call, message", [
    (lambda writer, x: writer.step(-1), "step -1 is not in"),
    (lambda writer, x: writer.step(1 << 32), "step 4294967296 is not in"),
    (lambda writer, x: writer.tensor("x", x, step=-1), "step -1 is not in"),
    (lambda writer, x: writer.tensor("x", x, rows=[(-1, 0, 2, 0)]), "request -1 is not in"),
    (lambda writer, x: writer.result(rows=[(0, 0, 1 << 32, 0)]), "count 4294967296 is not in"),
    (lambda writer, x: writer.tensor("x", x, placement=("shard", -1, 0, 2)), "placement -1 is"),
    (lambda writer, x: writer.request(-1), "id -1 is not in"),
    (lambda writer, x: writer.logits(x, top=-1), "top -1 is not in"),
    (lambda writer, x: writer.tensor("x\0y", x), "zero byte"),
    (lambda writer, x: writer.request(sampling={"top_k": "1\0"}), "zero byte"),
    (lambda writer, x: writer.parameter("x", hash="0" * 33, dtype="int8", shape=(2,),
                                        sources=["x"]), "32 hexadecimal digits"),
    (lambda writer, x: writer.parameter("x", hash="-" + "0" * 31, dtype="int8", shape=(2,),
                                        sources=["x"]), "32 hexadecimal digits"),
])
def test_what_the_library_would_take_otherwise_is_refused(trace, call, message):
    with write(trace) as writer:
        with pytest.raises(ValueError, match=message):
            call(writer, numpy.ones(2, numpy.float32))
        writer.tensor("x", numpy.ones(2), step=(1 << 32) - 1, placement=("shard", 0, 0, 2))
    (tensor,) = goldentrace.open(trace).tensors()
    assert tensor.step == (1 << 32) - 1


@pytest.mark.parametrize("options, message", [({"rank": 1 << 32}, "rank 4294967296"),
                                              ({"world": -1}, "world -1"),
                                              ({"dtype": "bfloat16\0"}, "zero byte")])
def test_a_header_that_would_be_another_is_refused(trace, options, message):
    with pytest.raises(ValueError, match=message):
        write(trace, **options)
    assert not trace.exists()


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_told_at_the_end():
    with pytest.raises(goldentrace.TraceError) as error:
        with write("/dev/full", compression="none") as writer:
            writer.tensor("x", numpy.arange(1 << 20))
    assert error.value.code == "input or output"


def test_a_writer_serves_many_threads(trace):
    def work(thread):
        for step in range(50):
            writer.tensor(f"thread{thread}", numpy.full(8, 100 * thread + step), step=step)
    with write(trace) as writer:
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    read = goldentrace.open(trace)
    seen = {}
    for tensor in read.tensors():
        assert tensor.numpy()[0] == 100 * int(tensor.name[6:]) + seen.setdefault(tensor.name, 0)
        seen[tensor.name] += 1
    assert seen == {f"thread{thread}": 50 for thread in range(4)}


def test_replay_reads_what_the_writer_wrote(trace, calls):
    with write(trace) as writer:
        writer.tensor("blk.0", numpy.ones((2, 2), numpy.float32), op="GGML_OP_MUL_MAT")
    (call,) = calls(trace)
    assert call["scope"] == "blk.0" and call["op"] == "GGML_OP_MUL_MAT"


def test_neither_writing_nor_reading_imports_torch(tmp_path):
    program = """
import sys
sys.modules["torch"] = None
import numpy
import goldentrace
with goldentrace.Writer(sys.argv[1], engine="numpy") as writer:
    writer.tensor("x", numpy.arange(3))
assert goldentrace.open(sys.argv[1]).tensor("x").numpy().tolist() == [0, 1, 2]
assert "open" not in goldentrace.__all__
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "t.fb"], check=True,
                   env={"PYTHONPATH": str(BUILD / "python")})
