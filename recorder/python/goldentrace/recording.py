"""`with goldentrace.record(...)`: one recording, its module scopes and its parameter dictionary."""

import contextlib
import functools
import json
import weakref

import torch
from torch.nn.parameter import is_lazy

from goldentrace import _hooks, native, purity, scopes
from goldentrace import compilers  # noqa: F401  for its effect
from goldentrace.native import RecordingError, check, tensor_hash  # noqa: F401  tensor_hash: public
from goldentrace.parameters import KnownParameters


def _path(prefix, name):
    """`name` below `prefix`, without the wrappers that torch.compile puts around modules."""
    parts = [prefix, *name.split(".")]
    return ".".join(part for part in parts if part and part != "_orig_mod")


def _cuda_environment():
    """What decides bits on a GPU; nothing where none is in use."""
    if not torch.cuda.is_initialized():
        return {}
    major, minor = torch.cuda.get_device_capability()
    return {"cuda": str(torch.version.cuda), "gpu": torch.cuda.get_device_name(),
            "sm": f"{major}.{minor}", "driver": str(torch._C._cuda_getDriverVersion())}


class Recording:
    """A running recording, from `Recording(path)` until `close()`. `record` is the usual way.

    `keep`, `rules`, `compress`, `only_where_differs` and `differing_calls` are the options of the
    `record` program: what is kept of the tensors that calls write. `check_reads` hashes whatever a
    call reads again, so that no write behind torch's back is missed; `fail_at_call` forces a fault
    inside the recorder, for tests.

    `adopt(module)`, if given, is called with each module that is called outside every named one
    and has no name yet; it may give one by `name_modules`."""

    def __init__(self, path, *, header=None, adopt=None, keep="golden", rules=(),
                 compress="values=fast", only_where_differs="", differing_calls=8,
                 check_reads=False, fail_at_call=0):
        facts = {"engine": "torch", "engine_version": torch.__version__, **(header or {})}
        facts["environment"] = {"torch": torch.__version__, **_cuda_environment(),
                                **facts.get("environment", {})}
        options = {"keep": keep, "rules": list(rules), "compress": compress,
                   "only_where_differs": str(only_where_differs),
                   "differing_calls": differing_calls, "check_reads": check_reads,
                   "fail_at_call": fail_at_call}
        check(native.start(str(path).encode(), json.dumps(facts).encode(),
                           json.dumps(options).encode()))
        self._modules = {}  # id: weak reference
        _hooks.start(adopt)
        if keep != "tokens":
            scopes.watch()

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

    @contextlib.contextmanager
    def idle(self):
        """No thread's calls inside the block are recorded, and torch runs as fast as without us. No
        module may be entered before the block and left in it."""
        native.pause_all()
        try:
            with scopes.unwatched():
                yield
        finally:
            native.resume_all()

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
        self.name_modules(model)
        self.enter_parameters(model, parameters)
        parameters.save()

    def name_modules(self, model, prefix="", counts_steps=False):
        """Names `model` and its modules below `prefix`; the first name of a module stands. With
        `counts_steps`, every forward of `model` begins the next step. Keeps no module alive."""
        roots = (model, getattr(model, "_orig_mod", model))
        for name, module in model.named_modules(remove_duplicate=False):
            self._name(module, _path(prefix, name), counts_steps and module in roots)

    def leave_unnamed(self, module):
        """`module` is not to be offered for adoption again."""
        self._name(module, None, False)

    def _name(self, module, path, counts_steps):
        address = id(module)
        if address not in self._modules:
            self._modules[address] = weakref.ref(module, functools.partial(self._forget, address))
        _hooks.name(module, path, counts_steps)

    def _forget(self, address, _reference):
        """The module is gone; its address may be another's next."""
        if self._modules.pop(address, None) is not None:
            _hooks.forget(address)

    def enter_parameters(self, model, parameters, prefix="", strict=True):
        """Enters `model`'s parameters and buffers below `prefix`. Those without memory of their own
        (meta, wrapper subclasses) raise, or are left out where `strict` is false."""
        with self.paused():
            for kind, named in enumerate((model.named_parameters, model.named_buffers)):
                for name, tensor in named(remove_duplicate=False):
                    if is_lazy(tensor):
                        continue
                    try:
                        self._enter_parameter(name, prefix, kind, tensor, parameters)
                    except Exception:
                        if strict:
                            raise

    def _enter_parameter(self, name, prefix, kind, tensor, parameters):
        digest, recipe, sources = parameters.of(_path("", name), tensor)
        check(native.parameter(_path(prefix, name).encode(), kind, tensor._cdata, recipe,
                               json.dumps(sources).encode(), native.hash_halves(digest)))

    def close(self):
        """Ends the recording; RecordingError when the trace is not whole."""
        scopes.unwatch()
        _hooks.stop()
        self._modules = {}
        check(native.stop())


@contextlib.contextmanager
def record(path, model=None, *, checkpoint=None, parameters=None, header=None, strict=False,
           **options):
    """Records every dispatcher call of the block into the trace file `path`.

    `checkpoint` and `parameters` are those of `add_model`; `header` overrides header fields; the
    other options are `Recording`'s. Raises RecordingError at the end when the trace is not whole; an
    exception of the block itself passes untouched. What in `model` is not its authors' code, or
    makes it a doubtful oracle, is stored in the trace; `strict` raises RecordingError instead,
    before anything is written."""
    facts = dict(header or {})
    if model is not None:
        facts["modules"], impurities = purity.inspect_model(model)
        facts["warnings"] = purity.warnings_of(model, impurities)
        refused = purity.refusals(facts["warnings"])
        if strict and refused:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise RecordingError(f"strict: {refused[0]}{more}")
    recording = Recording(path, header=facts, **options)
    try:
        if model is not None:
            recording.add_model(model, checkpoint, parameters)
        yield recording
    except BaseException as error:
        with contextlib.suppress(RecordingError):
            check(native.cut_short(type(error).__name__.encode()))
            recording.close()
        raise
    recording.close()
