"""Runs at the start of every Python below `record -- COMMAND`, before the script does.

Waits for the script to import torch, begins the recording then, and costs nothing until that.
Makes room for the sitecustomize that would have run without this one."""

import atexit
import os
import sys

_SITE = os.path.dirname(os.path.abspath(__file__))


def _wait_for_torch():
    sys.path.insert(0, os.path.dirname(_SITE))
    try:
        from goldentrace import journal
        from goldentrace.imports import after_import
    finally:
        del sys.path[0]
    journal.start()
    atexit.register(_end)  # the first one registered runs last: after the script's own
    after_import("torch", _begin)


def _begin(_torch):
    from goldentrace import journal
    try:
        from goldentrace import script
        script.begin()
    except Exception as error:  # the script goes on, whatever is wrong with us
        journal.fail(f"this process is not recorded: {error or type(error).__name__}")


def _end():
    script = sys.modules.get("goldentrace.script")
    if script is not None:
        script.end()


if "GOLDENTRACE_JOURNAL" in os.environ:
    try:
        _wait_for_torch()
    except Exception as _error:
        print(f"record: this process is not recorded: {_error}", file=sys.stderr)

# What is chained to may be absent; then site is told so, as it would be without this file.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _SITE]
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401
