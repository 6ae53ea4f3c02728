"""`after_import`: something to do as soon as a module has been imported. Imports nothing else, and
does not need the package: the recorder's sitecustomize loads this file alone."""

import sys


class _Watcher:
    """A finder that finds nothing itself: what the others find, it makes call back once it has run."""

    def __init__(self, name, action):
        self._name = name
        self._action = action

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._watch(spec.loader)
        return spec

    def _watch(self, loader):
        """The loader stays what it is, but for one attribute until the module has run."""
        run = loader.exec_module

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _call(self._action, module)

        loader.exec_module = exec_module


def _call(action, module):
    """No import of the script may fail for what we add to it."""
    try:
        action(module)
    except Exception:
        pass


def after_import(name, action):
    """Calls `action(module)` once the module `name` is imported: now, or when that happens. What it
    raises is dropped."""
    if name in sys.modules:
        _call(action, sys.modules[name])
    else:
        sys.meta_path.insert(0, _Watcher(name, action))
