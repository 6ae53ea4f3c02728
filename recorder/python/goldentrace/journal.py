"""How the processes below `record -- COMMAND` tell `record` what became of them.

The folder $GOLDENTRACE_JOURNAL holds `journal`, one line an event: event, process id and text,
separated by tabs. Events: `python` (a Python started), `recording` (text: the trace's path),
`forked` (a recorded process made one that is not recorded), `failed` (text: why). Whoever makes
`main` there first records into the file that was asked for."""

import os
import sys

STARTED = os.getpid()  # of the process that this Python started in; a fork has another
_first = False


def _file(name):
    return os.path.join(os.environ["GOLDENTRACE_JOURNAL"], name)


def tell(event, text=""):
    line = f"{event}\t{os.getpid()}\t{text}\n".encode("utf-8", "surrogateescape")
    file = os.open(_file("journal"), os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def fail(text):
    """Tells the user and `record`; never raises, as there is nobody left to tell."""
    text = " ".join(str(text).split())
    try:
        print(f"record: {text}", file=sys.stderr)
        tell("failed", text)
    except Exception:
        pass


def start():
    """A Python started; the first one has the trace that was asked for, whoever imports torch first."""
    global _first
    tell("python")
    try:
        os.close(os.open(_file("main"), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        _first = True
    except FileExistsError:
        pass


def is_main():
    """True in the first process, and not in its forks."""
    return _first and os.getpid() == STARTED
