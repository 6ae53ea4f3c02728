"""src/capi/goldentrace.h by ctypes. Needs neither torch nor numpy; the structs are the header's."""

import ctypes
import pathlib
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int64, c_size_t
from ctypes import c_uint16, c_uint32, c_uint64, c_void_p

NO_VALUE = (1 << 64) - 1
SKETCH_SUMS = 64
CODES = ("ok", "invalid argument", "not found", "input or output", "corrupt", "unsupported",
         "internal")
DTYPES = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6,
    "float64": 7, "complex32": 8, "complex64": 9, "complex128": 10, "bool": 11, "bfloat16": 15,
    "float8_e5m2": 23, "float8_e4m3fn": 24, "float8_e5m2fnuz": 25, "float8_e4m3fnuz": 26,
    "uint16": 27, "uint32": 28, "uint64": 29,
}
DTYPE_NAMES = {number: name for name, number in DTYPES.items()}
PLACEMENTS = ("replicated", "shard", "partial_sum")
KINDS = ("parameter", "buffer")
RECIPES = ("value", "same", "cast", "tied", "stack", "concat", "computed")
LOGPROB_KINDS = ("raw", "processed")
SEVERITIES = {0: "info", 1: "loss", 2: "error"}
COMPRESSIONS = ("fast", "small", "none")


class TraceError(RuntimeError):
    """The library refused, or a trace can't be read or written; `code` is one of CODES."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def _struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": fields})


Bytes = _struct("Bytes", ("data", c_char_p), ("size", c_size_t))
Pair = _struct("Pair", ("key", c_char_p), ("value", c_char_p))
Setting = _struct("Setting", ("name", c_char_p), ("value", c_char_p), ("origin", c_char_p))
Row = _struct("Row", ("request", c_uint32), ("first_row", c_uint32), ("count", c_uint32),
              ("reserved", c_uint32), ("position", c_int64))
Placement = _struct("Placement", ("kind", c_uint32), ("dim", c_uint32), ("index", c_uint32),
                    ("count", c_uint32))
Hash = _struct("Hash", ("low", c_uint64), ("high", c_uint64))
Stats = _struct("Stats", *((name, c_uint64) for name in (
    "count", "nan", "positive_infinity", "negative_infinity", "sentinel", "zero")),
    *((name, c_double) for name in ("min", "max", "sum", "sum_squares")))
WriterOptions = _struct(
    "WriterOptions", ("size", c_size_t), ("engine", c_char_p), ("engine_version", c_char_p),
    ("device", c_char_p), ("dtype", c_char_p), ("model_config", c_char_p),
    ("environment", POINTER(Pair)), ("environment_count", c_size_t),
    ("command", POINTER(c_char_p)), ("command_count", c_size_t), ("mesh", c_char_p),
    ("rank", c_uint32), ("world", c_uint32), ("compression", c_uint32), ("reserved", c_uint32),
    ("max_queued_bytes", c_uint64))
Tensor = _struct(
    "Tensor", ("size", c_size_t), ("name", c_char_p), ("op", c_char_p), ("data", c_void_p),
    ("dtype", c_uint32), ("rank", c_uint32), ("sizes", POINTER(c_int64)),
    ("strides", POINTER(c_int64)), ("step", c_int64), ("flags", c_uint32),
    ("inputs_count", c_uint32), ("inputs", POINTER(c_uint64)), ("layout", c_char_p),
    ("placement", Placement), ("rows", POINTER(Row)), ("rows_count", c_size_t),
    ("device", c_void_p), ("stream", c_void_p))
Parameter = _struct(
    "Parameter", ("size", c_size_t), ("name", c_char_p), ("kind", c_uint32), ("dtype", c_uint32),
    ("rank", c_uint32), ("recipe", c_uint32), ("sizes", POINTER(c_int64)),
    ("strides", POINTER(c_int64)), ("data", c_void_p), ("hash", POINTER(Hash)),
    ("sources", POINTER(c_char_p)), ("sources_count", c_size_t), ("placement", Placement),
    ("device", c_void_p), ("stream", c_void_p))
Request = _struct(
    "Request", ("size", c_size_t), ("id", c_uint32), ("reserved", c_uint32), ("prompt", Bytes),
    ("prompt_ids", POINTER(c_int64)), ("prompt_count", c_size_t),
    ("prompt_pieces", POINTER(Bytes)), ("sampling", POINTER(Setting)),
    ("sampling_count", c_size_t), ("stop_ids", POINTER(c_int64)), ("stop_count", c_size_t),
    ("output_ids", POINTER(c_int64)), ("output_count", c_size_t),
    ("output_pieces", POINTER(Bytes)), ("output", Bytes), ("finish_reason", c_char_p))
StepResult = _struct(
    "StepResult", ("size", c_size_t), ("step", c_int64), ("rows", POINTER(Row)),
    ("rows_count", c_size_t), ("chosen", c_int64), ("top_count", c_size_t),
    ("top_ids", POINTER(c_int64)), ("top_logits", POINTER(c_float)),
    ("top_logprobs", POINTER(c_float)), ("top_pieces", POINTER(Bytes)), ("gap_ulp", c_double),
    ("logprob", c_double), ("logits_rms", c_double), ("logprob_kind", c_uint32),
    ("reserved", c_uint32))
Logits = _struct(
    "Logits", ("size", c_size_t), ("step", c_int64), ("rows", POINTER(Row)),
    ("rows_count", c_size_t), ("data", c_void_p), ("count", c_uint64), ("dtype", c_uint32),
    ("top", c_uint32), ("chosen", c_int64), ("device", c_void_p), ("stream", c_void_p))
Info = _struct(
    "Info", ("engine", c_char_p), ("engine_version", c_char_p), ("device", c_char_p),
    ("dtype", c_char_p), ("model_config", c_char_p), ("environment", POINTER(Pair)),
    ("environment_count", c_size_t), ("command", POINTER(c_char_p)), ("command_count", c_size_t),
    ("mesh", c_char_p), ("rank", c_uint32), ("world", c_uint32), ("started_unix_ns", c_int64),
    ("calls", c_uint64), ("duration_ns", c_uint64), ("file_size", c_uint64),
    ("format_major", c_uint16), ("format_minor", c_uint16), ("whole", c_uint32))
Counter = _struct("Counter", ("name", c_char_p), ("severity", c_uint32), ("reserved", c_uint32),
                  ("value", c_uint64), ("first", c_char_p))
ParameterRecord = _struct(
    "ParameterRecord", ("name", c_char_p), ("kind", c_uint32), ("dtype", c_uint32),
    ("rank", c_uint32), ("recipe", c_uint32), ("sizes", POINTER(c_int64)), ("hash", Hash),
    ("value_size", c_uint64), ("sources", POINTER(c_char_p)), ("sources_count", c_size_t),
    ("placement", Placement), ("id", c_uint64))
Record = _struct(
    "Record", ("call", c_uint64), ("step", c_uint32), ("write", c_uint32), ("name", c_char_p),
    ("op", c_char_p), ("id", c_uint64), ("dtype", c_uint32), ("rank", c_uint32),
    ("sizes", POINTER(c_int64)), ("foreign", c_uint32), ("decision", c_uint32),
    ("inputs", POINTER(c_uint64)), ("inputs_count", c_size_t), ("layout", c_char_p),
    ("placement", Placement), ("rows", POINTER(Row)), ("rows_count", c_size_t),
    ("hash", POINTER(Hash)), ("stats", POINTER(Stats)), ("value_size", c_uint64),
    ("sketch", POINTER(c_float)))
Query = _struct("Query", ("size", c_size_t), ("name", c_char_p), ("op", c_char_p),
                ("step", c_int64), ("occurrence", c_uint64))

_library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "libgoldentrace.so"))


def _declare(name, *argument_types, result=c_int):
    function = getattr(_library, "goldentrace_" + name)
    function.argtypes = argument_types
    function.restype = result
    return function


_message = _declare("message", result=c_char_p)
version = _declare("version", result=c_char_p)
writer_open = _declare("writer_open", c_char_p, POINTER(WriterOptions), POINTER(c_void_p))
writer_step = _declare("writer_step", c_void_p, c_uint32)
writer_tensor = _declare("writer_tensor", c_void_p, POINTER(Tensor), POINTER(c_uint64))
writer_parameter = _declare("writer_parameter", c_void_p, POINTER(Parameter), POINTER(c_uint64))
writer_request = _declare("writer_request", c_void_p, POINTER(Request))
writer_result = _declare("writer_result", c_void_p, POINTER(StepResult))
writer_logits = _declare("writer_logits", c_void_p, POINTER(Logits))
writer_cut_short = _declare("writer_cut_short", c_void_p, c_char_p)
writer_flush = _declare("writer_flush", c_void_p)
writer_close = _declare("writer_close", c_void_p)
writer_destroy = _declare("writer_destroy", c_void_p, result=None)
reader_open = _declare("reader_open", c_char_p, POINTER(c_void_p))
reader_destroy = _declare("reader_destroy", c_void_p, result=None)
reader_info = _declare("reader_info", c_void_p, result=POINTER(Info))
reader_counter = _declare("reader_counter", c_void_p, c_size_t, POINTER(POINTER(Counter)))
reader_request = _declare("reader_request", c_void_p, c_size_t, POINTER(POINTER(Request)))
reader_result = _declare("reader_result", c_void_p, c_size_t, POINTER(POINTER(StepResult)))
reader_parameter = _declare("reader_parameter", c_void_p, c_size_t,
                            POINTER(POINTER(ParameterRecord)))
reader_next = _declare("reader_next", c_void_p, POINTER(POINTER(Record)))
reader_find = _declare("reader_find", c_void_p, POINTER(Query), POINTER(POINTER(Record)))
reader_value = _declare("reader_value", c_void_p, POINTER(Hash), c_void_p, c_uint64)


def check(status):
    """Raises TraceError for a status that is no success."""
    if status != 0:
        raise TraceError(CODES[status], _message().decode(errors="replace"))


def new(struct, **fields):
    """A struct with its size set, and everything else as `fields` say or zero."""
    return struct(size=ctypes.sizeof(struct), **fields)


def items(function, handle, struct):
    """Yields what a list of a reader's holds; each is valid until the reader is destroyed."""
    index, found = 0, POINTER(struct)()
    while True:
        check(function(handle, index, byref(found)))
        if not found:
            return
        yield found.contents
        index += 1
