"""goldentrace.open(): what a trace holds, its tensors as numpy and torch have them.

    trace = goldentrace.open("gold.fb")
    trace.requests[0].output_ids                      # what a forced run was fed
    trace.tensor("model.layers.0.mlp", step=0).torch()
"""

import ctypes
import dataclasses
import math
import os
import threading
from ctypes import POINTER, byref

import numpy

from goldentrace import arrays, capi


def _text(value):
    return (value or b"").decode(errors="replace")


def _list(pointer, count):
    return list(pointer[:count]) if count else []


def _hex(digest):
    return f"{digest.high:016x}{digest.low:016x}"


def _raw(value):
    # The field itself would end at the first zero byte.
    data = ctypes.c_void_p.from_buffer(value, capi.Bytes.data.offset).value
    return ctypes.string_at(data, value.size) if value.size else b""


@dataclasses.dataclass(frozen=True)
class Header:
    engine: str
    engine_version: str
    device: str
    dtype: str
    model_config: str  # JSON
    environment: dict
    command: list
    mesh: str
    rank: int
    world: int
    started_unix_ns: int
    calls: int
    duration_ns: int
    format: str


@dataclasses.dataclass(frozen=True)
class Counter:
    name: str
    severity: str  # "info", "loss", "error"; "3", say, where only a later version knows it
    value: int
    first: str


@dataclasses.dataclass(frozen=True)
class Row:
    request: int
    first_row: int
    count: int
    position: int


@dataclasses.dataclass(frozen=True)
class Placement:
    kind: str = "replicated"  # "shard", "partial_sum"
    dim: int = 0
    index: int = 0
    count: int = 1


@dataclasses.dataclass(frozen=True)
class Request:
    id: int
    prompt: str
    prompt_ids: list
    prompt_pieces: list  # bytes, one an id, or empty
    sampling: dict  # name: (value, origin)
    stop_ids: list
    output_ids: list
    output_pieces: list
    output: str
    finish_reason: str

    @property
    def forced(self):
        """The run was fed output_ids, whatever the model chose."""
        return self.sampling.get("forced", ("",))[0] == "true"


@dataclasses.dataclass(frozen=True)
class Step:
    step: int
    rows: list
    chosen: int  # -1: none
    top_ids: list
    top_logits: list
    top_logprobs: list
    top_pieces: list  # bytes
    gap_ulp: float  # NaN: unknown
    logprob: float
    logits_rms: float
    logprob_kind: str


@dataclasses.dataclass(frozen=True)
class Stats:
    count: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    sentinel: int
    zero: int
    min: float
    max: float
    sum: float
    sum_squares: float


class Value:
    """Bytes that a trace keeps under a hash, read when asked for, each time anew. Numbers are read
    into the memory that the array then has: nothing is copied on the way."""

    def __init__(self, trace, digest, size, dtype, shape):
        self._trace, self._size = trace, size
        self.hash = None if digest is None else _hex(digest)  # 32 hexadecimal digits
        self.dtype, self.shape = dtype, shape

    @property
    def has_value(self):
        return self._size != capi.NO_VALUE

    def bytes(self):
        """The dense row-major bytes, as a memoryview."""
        return memoryview(self._read())

    def numpy(self):
        """A numpy array; bfloat16 and float8 need ml_dtypes."""
        dtype = arrays.numpy_dtype(self.dtype)
        return self._read().view(dtype).reshape(self.shape)

    def torch(self):
        """A torch tensor on the host."""
        import torch
        dtype = getattr(torch, self.dtype)
        memory = self._read()
        if not len(memory):
            return torch.empty(self.shape, dtype=dtype)
        return torch.frombuffer(memory, dtype=dtype).reshape(self.shape)

    def _read(self):
        if not self.has_value:
            raise capi.TraceError("not found", f"{self}: the trace keeps no bytes of it")
        if self._size != math.prod(self.shape) * arrays.item_size(self.dtype):
            raise capi.TraceError("corrupt", f"{self}: its value has another size")
        memory = numpy.empty(self._size, numpy.uint8)
        digest = capi.Hash(int(self.hash[16:], 16), int(self.hash[:16], 16))
        with self._trace._lock:
            capi.check(capi.reader_value(self._trace._open(), byref(digest), memory.ctypes.data,
                                         self._size))
        return memory


class Tensor(Value):
    """One tensor that came into being: what one call wrote."""

    def __init__(self, trace, record):
        super().__init__(trace, record.hash.contents if record.hash else None, record.value_size,
                         capi.DTYPE_NAMES[record.dtype], tuple(_list(record.sizes, record.rank)))
        self.call, self.step, self.id = record.call, record.step, record.id
        self.name, self.op, self.layout = map(_text, (record.name, record.op, record.layout))
        self.foreign, self.decision = bool(record.foreign), bool(record.decision)
        self.inputs = _list(record.inputs, record.inputs_count)
        self.placement = _placement(record.placement)
        self.rows = _rows(record)
        self.stats = _stats(record.stats.contents) if record.stats else None
        self.sketch = _list(record.sketch, capi.SKETCH_SUMS) if record.sketch else None

    def __repr__(self):
        return f"<tensor {self.name!r} of {self.op}, step {self.step}, {self.dtype} {self.shape}>"


class Parameter(Value):
    """A weight or buffer of the model. Most keep no bytes but a recipe from the checkpoint."""

    def __init__(self, trace, record):
        super().__init__(trace, record.hash, record.value_size, capi.DTYPE_NAMES[record.dtype],
                         tuple(_list(record.sizes, record.rank)))
        self.name, self.id = _text(record.name), record.id
        self.kind, self.recipe = capi.KINDS[record.kind], capi.RECIPES[record.recipe]
        self.sources = [_text(source) for source in _list(record.sources, record.sources_count)]
        self.placement = _placement(record.placement)

    def __repr__(self):
        return f"<{self.kind} {self.name!r}, {self.dtype} {self.shape}>"


class Trace:
    """One trace. May be used from several threads, which then wait for each other."""

    def __init__(self, path):
        self._handle, self._lock = None, threading.Lock()
        self._path = os.fsencode(path)
        self._handle = _reader(self._path)
        info = capi.reader_info(self._handle).contents
        self.whole = bool(info.whole)
        self.header = _header(info)
        self.counters = [Counter(_text(entry.name),
                                 capi.SEVERITIES.get(entry.severity, str(entry.severity)),
                                 entry.value, _text(entry.first))
                         for entry in capi.items(capi.reader_counter, self._handle, capi.Counter)]

    @property
    def requests(self):
        return self._all(capi.reader_request, capi.Request, _request)

    @property
    def steps(self):
        return self._all(capi.reader_result, capi.StepResult, _step)

    @property
    def parameters(self):
        return self._all(capi.reader_parameter, capi.ParameterRecord,
                         lambda entry: Parameter(self, entry))

    def tensors(self):
        """Yields every tensor in the order of calls; memory grows with a chunk, not the file."""
        handle = _reader(self._path)
        try:
            record = POINTER(capi.Record)()
            while True:
                capi.check(capi.reader_next(handle, byref(record)))
                if not record:
                    return
                yield Tensor(self, record.contents)
        finally:
            capi.reader_destroy(handle)

    def tensor(self, name, op=None, step=None, occurrence=0):
        """The tensor of a name; of several that fit, the one that `occurrence` counts to."""
        query = capi.new(capi.Query, name=name.encode(), op=None if op is None else op.encode(),
                         step=-1 if step is None else step, occurrence=occurrence)
        record = POINTER(capi.Record)()
        with self._lock:
            capi.check(capi.reader_find(self._open(), byref(query), byref(record)))
            return Tensor(self, record.contents)

    def close(self):
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            capi.reader_destroy(handle)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            capi.reader_destroy(self._handle)
            self._handle = None

    def _open(self):
        if self._handle is None:
            raise capi.TraceError("invalid argument", "the trace is closed")
        return self._handle

    def _all(self, function, struct, convert):
        with self._lock:
            return [convert(entry) for entry in capi.items(function, self._open(), struct)]


def _reader(path):
    handle = ctypes.c_void_p()
    capi.check(capi.reader_open(path, byref(handle)))
    return handle


def _header(info):
    return Header(
        engine=_text(info.engine), engine_version=_text(info.engine_version),
        device=_text(info.device), dtype=_text(info.dtype), model_config=_text(info.model_config),
        environment={_text(pair.key): _text(pair.value)
                     for pair in _list(info.environment, info.environment_count)},
        command=[_text(word) for word in _list(info.command, info.command_count)],
        mesh=_text(info.mesh), rank=info.rank, world=info.world,
        started_unix_ns=info.started_unix_ns, calls=info.calls, duration_ns=info.duration_ns,
        format=f"{info.format_major}.{info.format_minor}")


def _placement(placement):
    return Placement(capi.PLACEMENTS[placement.kind], placement.dim, placement.index,
                     placement.count)


def _rows(entry):
    return [Row(row.request, row.first_row, row.count, row.position)
            for row in _list(entry.rows, entry.rows_count)]


def _stats(stats):
    return Stats(**{field.name: getattr(stats, field.name) for field in dataclasses.fields(Stats)})


def _pieces(pointer, count):
    return [_raw(piece) for piece in _list(pointer, count)] if pointer else []


def _request(entry):
    return Request(
        id=entry.id, prompt=_raw(entry.prompt).decode(errors="replace"),
        prompt_ids=_list(entry.prompt_ids, entry.prompt_count),
        prompt_pieces=_pieces(entry.prompt_pieces, entry.prompt_count),
        sampling={_text(setting.name): (_text(setting.value), _text(setting.origin))
                  for setting in _list(entry.sampling, entry.sampling_count)},
        stop_ids=_list(entry.stop_ids, entry.stop_count),
        output_ids=_list(entry.output_ids, entry.output_count),
        output_pieces=_pieces(entry.output_pieces, entry.output_count),
        output=_raw(entry.output).decode(errors="replace"),
        finish_reason=_text(entry.finish_reason))


def _step(entry):
    def numbers(pointer):
        return _list(pointer, entry.top_count) if pointer else []
    return Step(
        step=entry.step, rows=_rows(entry), chosen=entry.chosen,
        top_ids=_list(entry.top_ids, entry.top_count), top_logits=numbers(entry.top_logits),
        top_logprobs=numbers(entry.top_logprobs),
        top_pieces=_pieces(entry.top_pieces, entry.top_count), gap_ulp=entry.gap_ulp,
        logprob=entry.logprob, logits_rms=entry.logits_rms,
        logprob_kind=capi.LOGPROB_KINDS[entry.logprob_kind])


def open(path):
    """The trace at `path`. One that was cut opens too; `whole` tells. TraceError otherwise."""
    return Trace(path)
