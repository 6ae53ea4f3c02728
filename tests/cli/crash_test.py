"""Recordings that are killed, and disks that are full: what was flushed is there, nothing is made
up.
GOLDENTRACE_KILLS=200,10 kills that many C++ and Python recordings."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
import xxhash

KILLS, PYTHON_KILLS = map(int, os.environ.get("GOLDENTRACE_KILLS", "20,1").split(","))
STEPS = 25000
PROGRAM, VALUES, SUMMARY, INDEX = 2, 6, 7, 8


def chunks(trace):
    """Kind and content of a file's chunks whose checksums are right, the index left out; found by
    the page's rules alone."""
    from container import check_stored, chunk_at, decode
    from flatbuffer import Corrupt
    data, at, found = trace.read_bytes(), 16, []
    while at < len(data):
        try:
            chunk = chunk_at(data, at, len(data))
            raw = decode(check_stored(data, chunk), chunk)
        except Corrupt:
            break
        at = chunk.end
        if chunk.kind != INDEX:
            found.append((chunk.kind, xxhash.xxh3_128_hexdigest(raw)))
    return found


def contents(found):
    """What does not change from run to run: programs and values."""
    return [content for kind, content in found if kind in (PROGRAM, VALUES)]


def shown(run, trace):
    answer = run("replay_without_torch", "show", trace, "--json")
    assert answer.status == 0, answer.err
    return json.loads(answer.out)


def kill_after(command, seconds=None):
    """How long the recording took, where it ended before it was killed, or None."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        child.stdout.readline()
        began = time.monotonic()
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
    assert child.returncode in (0, -signal.SIGKILL)
    return time.monotonic() - began if child.returncode == 0 else None


def check_what_is_left(run, trace, reference, recovered):
    """Of a killed recording: the same by all readers, recovered whole, and a beginning of the
    reference. Returns the number of its chunks."""
    found = chunks(trace)
    if not found:
        assert run("replay_without_torch", "recover", trace, recovered).status == 2
        return 0
    summary = shown(run, trace)
    assert summary["chunks"] == len(found)
    cut = "trace_cut" in summary["counters"]
    # A kill that comes after the summary costs nothing, or half an index.
    closed = any(kind == SUMMARY for kind, _ in found)
    answer = run("replay_without_torch", "recover", trace, recovered)
    assert answer.status == 1 or closed and answer.status == 0, answer.out
    assert contents(chunks(recovered)) == contents(found) == reference[:len(contents(found))]
    assert run("replay_without_torch", "check", recovered).status == 0
    if cut:
        refused = run("replay_without_torch", trace, "--against", trace)
        assert refused.status == 2 and "not whole" in refused.out + refused.err
    return len(found)


@pytest.fixture(scope="module")
def victim(build, tmp_path_factory, run):
    """The program to kill, how long it takes, and what it leaves when it is not."""
    program, trace = build / "bin/long_recording", tmp_path_factory.mktemp("whole") / "whole.fb"
    seconds = kill_after([program, trace, str(STEPS)])
    return program, seconds, contents(chunks(trace))


def test_a_killed_recording_leaves_its_flushed_chunks(victim, run, tmp_path):
    program, seconds, reference = victim
    assert len(reference) > 10
    choose = random.Random(5)
    killed = chunks_left = 0
    while killed < KILLS:
        trace = tmp_path / "killed.fb"
        ended = kill_after([program, trace, str(STEPS)], choose.uniform(0, seconds))
        if ended is None:
            killed += 1
            chunks_left += check_what_is_left(run, trace, reference, tmp_path / "recovered.fb")
        else:  # A machine that has become faster.
            seconds = min(seconds, ended)
        trace.unlink()
    assert chunks_left > killed


def test_a_killed_python_recording_leaves_its_flushed_chunks(run, tiny, tmp_path, build):
    def command(trace):
        return [build / "bin/record", "hf", tiny, "--token-ids", "1,2,3", "--max-new-tokens", "30",
                "--ignore-eos", "-o", trace]
    whole = tmp_path / "whole.fb"
    subprocess.run(command(whole), check=True, capture_output=True)
    reference = contents(chunks(whole))
    choose = random.Random(6)
    killed = 0
    while killed < PYTHON_KILLS:
        trace = tmp_path / "killed.fb"
        size = choose.uniform(20_000, 500_000)  # Some of the program, and more is to come.
        with subprocess.Popen(command(trace), stdout=subprocess.DEVNULL) as child:
            while child.poll() is None and not (trace.exists() and trace.stat().st_size > size):
                time.sleep(0.02)
            child.kill()
        assert child.returncode in (0, -signal.SIGKILL)
        if child.returncode != 0:
            killed += 1
            assert check_what_is_left(run, trace, reference, tmp_path / "recovered.fb") >= 2
        trace.unlink()


# ---- full disks ---------------------------------------------------------------------------------

SCRIPT = """
import torch
x = torch.linspace(0, 1, 4096)
for _ in range(3000):
    x = torch.tanh(x * 1.5)
print("the run is done", float(x.sum()) > 0)
"""


def record_script(build, trace, folder, **options):
    script = folder / "script.py"
    script.write_text(SCRIPT)
    return subprocess.run(
        [build / "bin/record", "-o", trace, "--rule", "scope=**:values", "--", sys.executable,
         script], capture_output=True, text=True, **options)


def check_full_disk(done, trace, run, words):
    assert done.returncode == 2
    assert "the run is done True" in done.stdout, done.stderr  # the script's own run goes on
    assert words in done.stderr and str(trace.name) in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    left = shown(run, trace)
    assert "trace_cut" in left["counters"] and left["chunks"] > 2
    recovered = trace.with_suffix(".recovered")
    assert run("replay_without_torch", "recover", trace, recovered).status == 1


def test_a_file_that_may_not_grow_is_told_and_the_run_goes_on(build, run, tmp_path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # noqa: E731
    trace = tmp_path / "out.fb"
    done = record_script(build, trace, tmp_path, preexec_fn=limit)
    check_full_disk(done, trace, run, "File too large")


def test_a_full_disk_is_told_and_the_run_goes_on(build, run, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        done = record_script(build, disk / "out.fb", tmp_path)
        saved = tmp_path / "out.fb"
        saved.write_bytes((disk / "out.fb").read_bytes())
    finally:
        subprocess.run(["umount", disk], check=True)
    check_full_disk(done, saved, run, "No space left on device")


def test_a_disk_that_is_full_from_the_start_is_told(run, tiny):
    answer = run("record", "hf", tiny, "--token-ids", "1,2", "-o", "/dev/full")
    assert answer.status == 2
    assert answer.err.splitlines()[-1] == "record: /dev/full: can't write: No space left on device"
