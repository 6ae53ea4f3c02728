"""Names for the modules of a script that gives none."""

import collections
import pathlib

from goldentrace.checkpoint import Checkpoint
from goldentrace.parameters import KnownParameters


class Adoption:
    """Adopts each module that is called from outside every named one: names its submodules and
    enters its parameters and buffers.

    The first one with parameters is the main model: it has no prefix, and each of its forwards
    begins the next step. Later ones are named by their class, `-2`, `-3` where that repeats. A
    module without any tensor stays without a name."""

    def __init__(self):
        self.recording = None  # set before the first module is called
        self._main = False
        self._classes = collections.Counter()

    def adopt(self, module):
        if not any(True for _ in module.parameters()) and not any(True for _ in module.buffers()):
            self.recording.leave_unnamed(module)
            return
        prefix, main = "", False
        if not self._main and any(True for _ in module.parameters()):
            self._main = main = True
        else:
            kind = type(getattr(module, "_orig_mod", module)).__name__
            self._classes[kind] += 1
            repeat = self._classes[kind]
            prefix = kind if repeat == 1 else f"{kind}-{repeat}"
        self.recording.name_modules(module, prefix, counts_steps=main)
        # The hashes that a checkpoint's folder keeps are used, but a script's folders not written to.
        parameters = KnownParameters(_checkpoint_of(module))
        self.recording.enter_parameters(module, parameters, prefix, strict=False)


def _checkpoint_of(module):
    """The folder that a transformers model was loaded from, if it is one of this machine."""
    config = getattr(module, "config", None)
    folder = getattr(config, "_name_or_path", None) or getattr(config, "name_or_path", None)
    if not isinstance(folder, str) or not folder or not pathlib.Path(folder).is_dir():
        return None
    try:
        return Checkpoint(folder)
    except Exception:  # no safetensors in it, or damaged ones: the parameters go by value
        return None
