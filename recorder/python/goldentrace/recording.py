"""`with goldentrace.record(...)`: one recording, its module scopes and its parameter dictionary."""

import contextlib
import ctypes
import json

import torch
from torch.nn.modules import module as module_hooks

from goldentrace import _hooks, native, purity
from goldentrace.checkpoint import Recipe


class RecordingError(RuntimeError):
    """The recorder refused, or the trace is not whole."""


def _check(answer):
    if answer != 0:
        raise RecordingError(native.last_error().decode())


def tensor_hash(tensor):
    """The `hash` digest of a tensor's dense bytes, as an int of 128 bits."""
    halves = (ctypes.c_uint64 * 2)()
    _check(native.hash(tensor._cdata, halves))
    return halves[1] << 64 | halves[0]


class Recording:
    """A running recording. Made by `record`."""

    def __init__(self):
        self._hooks = []
        self._names = {}

    def step(self, number):
        """Calls from now on belong to forward pass `number`; 0 is the prefill."""
        _check(native.set_step(number))

    @contextlib.contextmanager
    def paused(self):
        """Calls of this thread inside the block are not recorded."""
        native.pause()
        try:
            yield
        finally:
            native.resume()

    def text(self, requests=(), steps=()):
        """Adds prompts, tokens and steps; dicts with the fields of src/event/run.h."""
        _check(native.text(json.dumps({"requests": list(requests), "steps": list(steps)}).encode()))

    def summary(self):
        """Calls and counters so far."""
        return json.loads(native.summary())

    def add_model(self, model, checkpoint=None):
        """Names `model`'s modules for scopes and enters its parameters and buffers.

        With a `goldentrace.checkpoint.Checkpoint`, a parameter that it reproduces is stored as a
        recipe; the others are stored by value."""
        for name, module in model.named_modules(remove_duplicate=False):
            self._names.setdefault(module, name)
        _hooks.set_names(self._names)
        if not self._hooks:
            self._hooks = [
                module_hooks.register_module_forward_pre_hook(_hooks.enter),
                module_hooks.register_module_forward_hook(_hooks.leave, always_call=True),
            ]
        with self.paused():
            for kind, named in enumerate((model.named_parameters, model.named_buffers)):
                for name, tensor in named(remove_duplicate=False):
                    recipe, sources = Recipe.VALUE, []
                    if checkpoint is not None:
                        recipe, sources = checkpoint.recipe(name, tensor)
                    _check(native.parameter(name.encode(), kind, tensor._cdata, recipe,
                                            json.dumps(sources).encode()))

    def _close(self):
        for hook in self._hooks:
            hook.remove()
        _hooks.clear_names()
        self._names = {}
        _check(native.stop())


@contextlib.contextmanager
def record(path, model=None, *, checkpoint=None, header=None, rules=(), fail_at_call=0,
           strict=False, check_reads=False):
    """Records every dispatcher call of the block into the trace file `path`.

    `rules` are `--rule` texts; `header` overrides header fields. Raises RecordingError at the end
    when the trace is not whole; an exception of the block itself passes untouched. What in `model`
    is not its authors' code, or makes it a doubtful oracle, is stored in the trace; `strict`
    raises RecordingError instead, before anything is written. `check_reads` hashes whatever a call
    reads again, so that no write behind torch's back is missed. `fail_at_call` forces a fault
    inside the recorder, for tests."""
    facts = {"engine": "torch", "engine_version": torch.__version__, **(header or {})}
    facts["environment"] = {"torch": torch.__version__, **facts.get("environment", {})}
    if model is not None:
        facts["modules"], impurities = purity.inspect_model(model)
        facts["warnings"] = purity.warnings_of(model, impurities)
        refused = purity.refusals(facts["warnings"])
        if strict and refused:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise RecordingError(f"strict: {refused[0]}{more}")
    options = {"rules": list(rules), "fail_at_call": fail_at_call, "check_reads": check_reads}
    _check(native.start(str(path).encode(), json.dumps(facts).encode(),
                        json.dumps(options).encode()))
    recording = Recording()
    try:
        if model is not None:
            recording.add_model(model, checkpoint)
        yield recording
    except BaseException:
        with contextlib.suppress(RecordingError):
            recording._close()
        raise
    recording._close()
