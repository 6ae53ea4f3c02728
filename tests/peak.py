"""How much memory a program took at most. It is started from a small process of its own: what a process
took before exec counts as its own, and one that has imported torch takes hundreds of megabytes."""

import json
import subprocess
import sys

_RUN = """
import json, os, sys, time
began = time.perf_counter()
to_null = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=to_null)
_, status, usage = os.wait4(pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024,
                  time.perf_counter() - began, usage.ru_utime + usage.ru_stime]))
"""


def run(*command):
    """(exit status, peak of resident bytes, seconds, those of the processor) of a program whose output is
    thrown away."""
    done = subprocess.run([sys.executable, "-S", "-E", "-c", _RUN, *map(str, command)],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)
