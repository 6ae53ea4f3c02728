"""Recordings that are killed, and disks that are full: what was flushed is there, nothing is made up.
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

KILLS, PYTHON_KILLS = map(int, os.environ.get("GOLDENTRACE_KILLS", "20,1").split(","))
STEPS = 25000
PROGRAM, VALUES, SUMMARY = 2, 6, 7


def chunks(run, trace):
    answer = run("replay", "show", trace, "--chunks")
    assert answer.status == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


def contents(lines):
    """What does not change from run to run: programs and values, by content."""
    return [line["content"] for line in lines if line.get("kind") in (PROGRAM, VALUES)]


def whole_chunks(trace):
    """Chunks of a file whose checksums are right, found by the page's rules alone."""
    from container import check_stored, chunk_at
    from flatbuffer import Corrupt
    data, at, found = trace.read_bytes(), 16, 0
    while at < len(data):
        try:
            chunk = chunk_at(data, at, len(data))
            check_stored(data, chunk)
        except Corrupt:
            break
        at = chunk.end
        found += 1
    return found


def kill_in_the_middle(command, seconds):
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        child.stdout.readline()
        time.sleep(seconds)
        child.kill()
    return child.returncode == -signal.SIGKILL


def check_what_is_left(run, trace, reference, recovered):
    """Of a killed recording: the same by all readers, recovered whole, and a beginning of the
    reference. Returns the number of its chunks."""
    found = whole_chunks(trace)
    if found == 0:
        assert run("replay", "recover", trace, recovered).status == 2
        return 0
    left = chunks(run, trace)
    assert len(left) - ("cut" in left[-1]) == found
    # A kill that comes while the finished file is flushed to the disk costs nothing.
    closed = any(line.get("kind") == SUMMARY for line in left)
    answer = run("replay", "recover", trace, recovered)
    assert answer.status == (0 if closed else 1), answer.out
    again = chunks(run, recovered)
    assert contents(again) == contents(left) == reference[:len(contents(left))]
    assert run("replay", "check", recovered).status in (0, 1)
    if "cut" in left[-1]:
        refused = run("replay", trace, "--against", trace)
        assert refused.status == 2 and "not whole" in refused.out + refused.err
    return found


@pytest.fixture(scope="module")
def victim(build, tmp_path_factory, run):
    """The program to kill, how long it takes, and what it leaves when it is not."""
    program, trace = build / "bin/long_recording", tmp_path_factory.mktemp("whole") / "whole.fb"
    began = time.monotonic()
    subprocess.run([program, trace, str(STEPS)], check=True, stdout=subprocess.DEVNULL)
    return program, time.monotonic() - began, contents(chunks(run, trace))


def test_a_killed_recording_leaves_its_flushed_chunks(victim, run, tmp_path):
    program, seconds, reference = victim
    assert len(reference) > 10
    choose = random.Random(5)
    killed = chunks_left = 0
    for i in range(KILLS):
        trace = tmp_path / f"{i}.fb"
        if kill_in_the_middle([program, trace, str(STEPS)], choose.uniform(0, seconds)):
            killed += 1
            chunks_left += check_what_is_left(run, trace, reference, tmp_path / "recovered.fb")
        trace.unlink()
    assert killed >= KILLS / 2 and chunks_left > killed


def test_a_killed_python_recording_leaves_its_flushed_chunks(run, tiny, tmp_path, build):
    def command(trace):
        return [build / "bin/record", "hf", tiny, "--token-ids", "1,2,3", "--max-new-tokens", "30",
                "--ignore-eos", "-o", trace]
    whole = tmp_path / "whole.fb"
    subprocess.run(command(whole), check=True, capture_output=True)
    reference = contents(chunks(run, whole))
    choose = random.Random(6)
    for i in range(PYTHON_KILLS):
        trace = tmp_path / f"{i}.fb"
        with subprocess.Popen(command(trace), stdout=subprocess.DEVNULL) as child:
            # Once some of the program is written, at any moment of what is left to do.
            while child.poll() is None and not (
                    trace.exists() and trace.stat().st_size > choose.uniform(20_000, 500_000)):
                time.sleep(0.02)
            child.kill()
        if child.returncode == -signal.SIGKILL:
            assert check_what_is_left(run, trace, reference, tmp_path / "recovered.fb") >= 2


# ---- full disks -----------------------------------------------------------------------------------

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
    left = chunks(run, trace)
    assert "cut" in left[-1] and len(left) > 3
    assert run("replay", "recover", trace, trace.with_suffix(".recovered")).status == 1


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
