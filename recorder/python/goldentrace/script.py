"""The recording of a script that knows nothing of it: from its `import torch` to its end.

Started by the sitecustomize that `record -- COMMAND` puts on PYTHONPATH. Options are in
$GOLDENTRACE_SCRIPT as JSON: output, keep. Nothing here may disturb the script."""

import contextlib
import functools
import json
import os
import pathlib
import platform
import signal
import sys
import threading

from goldentrace import native  # noqa: F401  first of all: it refuses another torch or Python
from goldentrace import journal
from goldentrace.adoption import Adoption
from goldentrace.imports import after_import
from goldentrace.recording import Recording, RecordingError

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_mask = ()  # of the thread that forks
_recording = None
_process = None  # that began it; its forked children record nothing


def begin():
    """Begins this process's recording."""
    global _recording, _process
    options = json.loads(os.environ["GOLDENTRACE_SCRIPT"])
    output = pathlib.Path(options["output"])
    if not journal.is_main():
        output = output.with_name(f"{output.stem}.{os.getpid()}{output.suffix}")
    command = [os.fsencode(word).decode("utf-8", "replace") for word in sys.orig_argv]
    header = {"command": command, "environment": {
        "python": platform.python_version(), "platform": platform.platform()}}
    adoption = Adoption()
    _recording = Recording(output, header=header, adopt=adoption.adopt, **options["keep"])
    adoption.recording = _recording
    _process = os.getpid()
    os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_through,
                        after_in_child=_begin_fork)
    after_import("transformers.modeling_utils", _leave_loading_out)
    journal.tell("recording", str(output))
    _end_at_the_end_of_a_forked_process()
    _end_at_signals()


def end():
    """Closes the trace; again, or in a forked child, it does nothing."""
    global _recording
    recording, _recording = _recording, None
    if recording is None or os.getpid() != _process:
        return
    try:
        recording.close()
    except RecordingError as error:
        journal.fail(error)


def _leave_loading_out(modeling_utils):
    """transformers' loading is no part of the program: the parameters come from the checkpoint. It
    would put every weight into the trace, through the threads that it loads with."""
    method = modeling_utils.PreTrainedModel.from_pretrained.__func__

    @functools.wraps(method)
    def from_pretrained(cls, *arguments, **options):
        native.pause_all()
        try:
            return method(cls, *arguments, **options)
        finally:
            native.resume_all()

    modeling_utils.PreTrainedModel.from_pretrained = classmethod(from_pretrained)


def _end_at_the_end_of_a_forked_process():
    """A process that multiprocessing forked ends without atexit."""
    util = sys.modules.get("multiprocessing.util")
    if util is None or os.getpid() == journal.STARTED:
        return
    exit_function = util._exit_function

    def exit_function_then_end(*arguments, **options):
        try:
            exit_function(*arguments, **options)
        finally:
            end()

    util._exit_function = exit_function_then_end


def _end_at_signals():
    """Where the default handler would end the process, the trace is closed first. The process still
    ends by the signal, and a handler that the script installs takes this one's place."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end_by_signal)


def _ours():
    """Signals that would end the process, were it not for us."""
    return [number for number in _SIGNALS if signal.getsignal(number) is _end_by_signal]


def _hold_signals():
    """Python forgets a signal that a fork gets before it has come to itself."""
    global _mask
    _mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ours())


def _let_signals_through():
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask)


def _begin_fork():
    """A forked process records nothing, and signals end it as they would have."""
    for number in _ours():
        signal.signal(number, signal.SIG_DFL)
    if _recording is not None:
        with contextlib.suppress(Exception):
            journal.tell("forked")
    _let_signals_through()


def _end_by_signal(number, _frame):
    signal.signal(number, signal.SIG_IGN)  # it may come twice: from a terminal's group and `record`
    end()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
