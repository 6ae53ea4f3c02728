"""The C interface (recorder/c_api.h) by ctypes. Loads beside torch, never instead of it."""

import ctypes
import pathlib
import platform

import torch  # the library below needs libtorch_cpu, which torch loads

from goldentrace import built

# Another torch may have another layout of what the library looks into.
_found = {"torch": torch.__version__.partition("+")[0],
          "Python": ".".join(platform.python_version_tuple()[:2])}
for _name, _built in {"torch": built.TORCH, "Python": built.PYTHON}.items():
    if _built not in ("", _found[_name]):
        raise ImportError(f"goldentrace was built with {_name} {_built}; "
                          f"this is {_name} {_found[_name]}")

_library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "libgoldentrace_record.so"))


def _declare(name, *argument_types, result=ctypes.c_int):
    function = getattr(_library, "goldentrace_" + name)
    function.argtypes = argument_types
    function.restype = result
    return function


_text, _u32 = ctypes.c_char_p, ctypes.c_uint32
last_error = _declare("last_error", result=_text)
start = _declare("start", _text, _text, _text)
stop = _declare("stop")
summary = _declare("summary", result=_text)
pause = _declare("pause", result=None)
resume = _declare("resume", result=None)
pause_all = _declare("pause_all", result=None)
resume_all = _declare("resume_all", result=None)
set_step = _declare("set_step", _u32)
parameter = _declare("parameter", _text, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, _text,
                     ctypes.POINTER(ctypes.c_uint64))
cut_short = _declare("cut_short", _text)
text = _declare("text", _text)
hash = _declare("hash", ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))


class RecordingError(RuntimeError):
    """The recorder refused, or the trace is not whole."""


def check(answer):
    """Raises RecordingError for an answer that is no success."""
    if answer != 0:
        raise RecordingError(last_error().decode())


def tensor_hash(tensor):
    """The `hash` digest of a tensor's dense bytes, as an int of 128 bits."""
    halves = (ctypes.c_uint64 * 2)()
    check(hash(tensor._cdata, halves))
    return halves[1] << 64 | halves[0]


def hash_halves(digest):
    """A hash as the C interface takes it; None stays None."""
    return None if digest is None else (ctypes.c_uint64 * 2)(digest & (1 << 64) - 1, digest >> 64)
