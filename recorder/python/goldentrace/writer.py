"""goldentrace.Writer: a trace of any engine, tensor by tensor.

    with goldentrace.Writer("engine.fb", engine="my-engine") as trace:
        trace.request(prompt_ids=[1, 2, 3])
        trace.tensor("layers.0.attn", array, op="attention")
        trace.logits(row)
        trace.step(1)
        ...
"""

import ctypes
import json
import math
import os
import re
import sys
from ctypes import byref, c_char_p, c_float, c_int64, c_uint64

import numpy

from goldentrace import arrays, capi

_NO_VALUE, _NO_STATS, _DECISION = 1, 2, 4


def _text(value, encode=str.encode):
    text = None if value is None else encode(value)
    if text and b"\0" in text:
        raise ValueError(f"{value!r} has a zero byte, at which the library would end it")
    return text


def _uint32(what, number):
    if not 0 <= number < 1 << 32:
        raise ValueError(f"{what} {number} is not in 0 .. 4294967295")
    return number


def _step(step):
    return -1 if step is None else _uint32("step", step)


def _raw(value):
    """str or bytes as the library's Bytes."""
    data = value.encode() if isinstance(value, str) else bytes(value)
    return capi.Bytes(data, len(data))


def _array(kind, values):
    """A C array; None stays None, so that it means "not given"."""
    if values is None:
        return None
    values = list(values)
    return (kind * len(values))(*values)


def _ids(values):
    """Token ids as a C array and their number."""
    ids = numpy.ascontiguousarray([] if values is None else values, dtype=numpy.int64).reshape(-1)
    return (c_int64 * len(ids)).from_buffer_copy(ids) if len(ids) else None, len(ids)


def _pieces(values, count):
    if values is None:
        return None
    if len(values) != count:
        raise ValueError(f"{len(values)} pieces for {count} ids")
    return _array(capi.Bytes, (_raw(value) for value in values))


def _numbers(values, count):
    if values is None:
        return None
    if len(values) != count:
        raise ValueError(f"{len(values)} numbers for {count} ids")
    return _array(c_float, (float(value) for value in values))


def _rows(rows):
    rows = [capi.Row(_uint32("request", request), _uint32("first_row", first),
                     _uint32("count", count), 0, position)
            for request, first, count, position in rows or ()]
    return {"rows": _array(capi.Row, rows) if rows else None, "rows_count": len(rows)}


def _placement(placement):
    if placement is None:
        return capi.Placement(0, 0, 0, 1)
    kind, *rest = placement
    if kind == "partial_sum":
        rest = [0, *rest]
    return capi.Placement(_number(capi.PLACEMENTS, kind, "placement"),
                          *(_uint32("placement", number) for number in rest))


def _number(names, name, what):
    if name not in names:
        raise ValueError(f"{what} {name!r} is none of {', '.join(names)}")
    return names.index(name)


def _hash(digits):
    if digits is None:
        return None
    if not re.fullmatch("[0-9a-fA-F]{32}", digits):
        raise ValueError(f"hash {digits!r} is not 32 hexadecimal digits")
    return ctypes.pointer(capi.Hash(int(digits[16:], 16), int(digits[:16], 16)))


def _setting(name, value):
    value, origin = value if isinstance(value, tuple) else (value, "request")
    text = value if isinstance(value, str) else json.dumps(value)
    return capi.Setting(_text(name), _text(text), _text(origin))


class Writer:
    """Writes one trace. May be used from several threads at once. Arrays are those of numpy, or
    tensors of torch, bfloat16 included; they are copied before a call returns, those on another
    device to the host first (the C interface copies them behind the engine's back). A fault of
    writing raises TraceError in a later call, in close() at the latest."""

    def __init__(self, path, *, engine, engine_version="", device="cpu", dtype="",
                 model_config=None, environment=None, command=None, rank=0, world=1, mesh="",
                 compression="fast", max_queued_bytes=0):
        """model_config: the configuration as a dict or as JSON. environment: {name: text}, keys as
        in FORMAT.md. command: the words of the command line; this process's by default.
        compression of values: "fast", "small" (slower) or "none"."""
        self._handle = None
        config = json.dumps(model_config) if isinstance(model_config, dict) else model_config
        pairs = [capi.Pair(_text(str(key)), _text(str(value)))
                 for key, value in (environment or {}).items()]
        words = [_text(word, os.fsencode) for word in (sys.argv if command is None else command)]
        options = capi.new(
            capi.WriterOptions, engine=_text(engine), engine_version=_text(engine_version),
            device=_text(device), dtype=_text(dtype), model_config=_text(config),
            environment=_array(capi.Pair, pairs), environment_count=len(pairs),
            command=_array(c_char_p, words), command_count=len(words), mesh=_text(mesh),
            rank=_uint32("rank", rank), world=_uint32("world", world),
            max_queued_bytes=max_queued_bytes,
            compression=_number(capi.COMPRESSIONS, compression, "compression"))
        handle = ctypes.c_void_p()
        capi.check(capi.writer_open(_text(path, os.fsencode), byref(options), byref(handle)))
        self._handle = handle

    def step(self, step):
        """What follows belongs to this forward pass; 0, the prefill, at first."""
        capi.check(capi.writer_step(self._open(), _uint32("step", step)))

    def tensor(self, name, array, *, op=None, inputs=(), layout=None, placement=None, rows=None,
               step=None, value=True, stats=True, decision=False, dtype=None):
        """Keeps a tensor under `name`; returns its number, for `inputs` of later ones.

        op: the engine's kind of operation. layout: how the elements are laid out, in words.
        placement: ("shard", dim, index, count) or ("partial_sum", index, count) among ranks.
        rows: [(request, first_row, count, position)] where they are not the step's. value=False
        keeps hash, stats and sketch only. decision: integers computed from floats. dtype: what the bits
        are, "bfloat16" for uint16, say."""
        data = arrays.describe(array, dtype)
        flags = (0 if value else _NO_VALUE) | (0 if stats else _NO_STATS)
        inputs = list(inputs)
        tensor = capi.new(
            capi.Tensor, name=_text(name), op=_text(op), layout=_text(layout),
            step=_step(step), flags=flags | (_DECISION if decision else 0),
            inputs=_array(c_uint64, inputs), inputs_count=len(inputs),
            placement=_placement(placement), **_rows(rows), **_data(data))
        number = c_uint64()
        capi.check(capi.writer_tensor(self._open(), byref(tensor), byref(number)))
        return number.value

    def parameter(self, name, array=None, *, hash=None, dtype=None, shape=None, kind="parameter",
                  recipe=None, sources=(), placement=None):
        """A weight or buffer of the model. The bytes are kept unless `recipe` says how they come
        from the checkpoint: "same" or "cast" of sources[0], "stack" or "concat" of all. Instead of
        an array, `hash` (32 hexadecimal digits), `dtype` and `shape` tell what it is."""
        sources = [_text(source) for source in sources]
        if recipe is None:
            recipe = "same" if sources else "value"
        if array is None:
            if hash is None or dtype not in capi.DTYPES or shape is None:
                raise ValueError("give an array, or hash, dtype and shape")
            data = arrays.Described(None, None, dtype, shape, ())
        else:
            data = arrays.describe(array, dtype)
        parameter = capi.new(
            capi.Parameter, name=_text(name), kind=_number(capi.KINDS, kind, "kind"),
            recipe=_number(capi.RECIPES, recipe, "recipe"), hash=_hash(hash),
            sources=_array(c_char_p, sources), sources_count=len(sources),
            placement=_placement(placement), **_data(data))
        number = c_uint64()
        capi.check(capi.writer_parameter(self._open(), byref(parameter), byref(number)))
        return number.value

    def request(self, id=0, *, prompt="", prompt_ids=(), prompt_pieces=None, sampling=None,
                stop_ids=(), output_ids=(), output_pieces=None, output="", finish_reason="",
                forced=False):
        """What was asked and what came out; of several with one id the last one counts. sampling:
        {name: value}, or {name: (value, origin)} with origin "request", "model" or "default".
        forced: output_ids were fed whatever the model chose."""
        prompt_array, prompt_count = _ids(prompt_ids)
        stop_array, stop_count = _ids(stop_ids)
        output_array, output_count = _ids(output_ids)
        settings = dict(sampling or {})
        if forced:
            settings["forced"] = "true"
        settings = [_setting(name, value) for name, value in settings.items()]
        request = capi.new(
            capi.Request, id=_uint32("id", id), prompt=_raw(prompt), prompt_ids=prompt_array,
            prompt_count=prompt_count, prompt_pieces=_pieces(prompt_pieces, prompt_count),
            sampling=_array(capi.Setting, settings), sampling_count=len(settings),
            stop_ids=stop_array, stop_count=stop_count, output_ids=output_array,
            output_count=output_count, output_pieces=_pieces(output_pieces, output_count),
            output=_raw(output), finish_reason=_text(finish_reason))
        capi.check(capi.writer_request(self._open(), byref(request)))

    def result(self, *, chosen=-1, top_ids=(), top_logits=None, top_logprobs=None, top_pieces=None,
               gap_ulp=math.nan, logprob=math.nan, logits_rms=0.0, logprob_kind="raw", rows=None,
               step=None):
        """What a step gave one request, as far as the engine tells; logits() finds it itself."""
        top_array, count = _ids(top_ids)
        result = capi.new(
            capi.StepResult, step=_step(step), chosen=chosen, top_count=count,
            top_ids=top_array, top_logits=_numbers(top_logits, count),
            top_logprobs=_numbers(top_logprobs, count), top_pieces=_pieces(top_pieces, count),
            gap_ulp=gap_ulp, logprob=logprob, logits_rms=logits_rms,
            logprob_kind=_number(capi.LOGPROB_KINDS, logprob_kind, "logprob_kind"), **_rows(rows))
        capi.check(capi.writer_result(self._open(), byref(result)))

    def logits(self, row, *, chosen=-1, top=32, rows=None, step=None, dtype=None):
        """A step's result from its whole row of logits (one dimension). chosen: -1 for the highest
        one, else what the sampler took."""
        data = arrays.describe(row, dtype)
        if len(data.sizes) != 1:
            raise ValueError(f"logits of one position have one dimension, not {len(data.sizes)}")
        if data.strides != (1,):
            data = arrays.describe(numpy.ascontiguousarray(row) if isinstance(row, numpy.ndarray)
                                   else row.contiguous(), dtype)
        logits = capi.new(capi.Logits, step=_step(step), data=data.pointer, count=data.sizes[0],
                          dtype=capi.DTYPES[data.dtype], top=_uint32("top", top), chosen=chosen,
                          **_rows(rows))
        capi.check(capi.writer_logits(self._open(), byref(logits)))

    def cut_short(self, why):
        """The run ended early; readers are told."""
        capi.check(capi.writer_cut_short(self._open(), why.encode(errors="replace")))

    def flush(self):
        """Returns when everything given so far is in the file."""
        capi.check(capi.writer_flush(self._open()))

    def close(self):
        """Completes the file. Raises TraceError when the trace is not whole. Again: nothing."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        try:
            capi.check(capi.writer_close(handle))
        finally:
            capi.writer_destroy(handle)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is None:
            self.close()
            return
        try:  # the block's own exception is the one to see
            if self._handle is not None:
                self.cut_short(f"{kind.__name__}: {error}")
            self.close()
        except capi.TraceError as also:
            if hasattr(error, "add_note"):  # Python 3.11
                error.add_note(f"the trace is not whole: {also}")

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            capi.writer_destroy(self._handle)
            self._handle = None

    def _open(self):
        if self._handle is None:
            raise capi.TraceError("invalid argument", "the writer is closed")
        return self._handle


def _data(data):
    """The fields of a struct that tell what an array is."""
    return {"data": data.pointer, "dtype": capi.DTYPES[data.dtype], "rank": len(data.sizes),
            "sizes": _array(c_int64, data.sizes),
            "strides": _array(c_int64, data.strides) if data.strides else None}
