"""`with goldentrace.record(...)`: one recording, its module scopes and its parameter dictionary."""

import contextlib
import json

import torch
from torch.nn.modules import module as module_hooks

from goldentrace import _hooks, native
from goldentrace.native import RecordingError, check
from goldentrace.parameters import KnownParameters


class Recording:
    """A running recording. Made by `record`."""

    def __init__(self):
        self._hooks = []
        self._names = {}

    def step(self, number):
        """Calls from now on belong to forward pass `number`; 0 is the prefill."""
        check(native.set_step(number))

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
        check(native.text(json.dumps({"requests": list(requests), "steps": list(steps)}).encode()))

    def summary(self):
        """Calls and counters so far."""
        return json.loads(native.summary())

    def add_model(self, model, checkpoint=None, parameters=None):
        """Names `model`'s modules for scopes and enters its parameters and buffers.

        With a `goldentrace.checkpoint.Checkpoint`, a parameter that it reproduces is stored as a
        recipe; the others are stored by value. `parameters`, a
        `goldentrace.parameters.KnownParameters`, takes the checkpoint's place where one model is
        recorded many times."""
        parameters = parameters or KnownParameters(checkpoint)
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
                    digest, recipe, sources = parameters.of(name, tensor)
                    check(native.parameter(name.encode(), kind, tensor._cdata, recipe,
                                           json.dumps(sources).encode(),
                                           native.hash_halves(digest)))
            parameters.save()

    def _close(self):
        for hook in self._hooks:
            hook.remove()
        _hooks.clear_names()
        self._names = {}
        check(native.stop())


@contextlib.contextmanager
def record(path, model=None, *, checkpoint=None, parameters=None, header=None, rules=(),
           fail_at_call=0):
    """Records every dispatcher call of the block into the trace file `path`.

    `checkpoint` and `parameters` are those of `add_model`. `rules` are `--rule` texts; `header`
    overrides header fields. Raises RecordingError at the end when the trace is not whole; an
    exception of the block itself passes untouched.
    `fail_at_call` forces a fault inside the recorder, for tests."""
    facts = {"engine": "torch", "engine_version": torch.__version__, **(header or {})}
    facts["environment"] = {"torch": torch.__version__, **facts.get("environment", {})}
    options = {"rules": list(rules), "fail_at_call": fail_at_call}
    check(native.start(str(path).encode(), json.dumps(facts).encode(),
                       json.dumps(options).encode()))
    recording = Recording()
    try:
        if model is not None:
            recording.add_model(model, checkpoint, parameters)
        yield recording
    except BaseException:
        with contextlib.suppress(RecordingError):
            recording._close()
        raise
    recording._close()
