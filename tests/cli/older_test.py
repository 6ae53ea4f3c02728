"""Traces cross between torch versions. `make test-older` builds against an older torch and names its
build folder in GOLDENTRACE_OLDER."""

import os
import pathlib
import subprocess

import pytest

OLDER = os.environ.get("GOLDENTRACE_OLDER")
pytestmark = pytest.mark.skipif(
    OLDER is None, reason="needs a build against an older torch: make test-older")


@pytest.fixture(scope="module")
def older(run, tiny, traces):
    """A trace recorded with the older torch."""
    path = traces / "older.fb"
    done = run(pathlib.Path(OLDER).resolve() / "bin" / "record", "hf", tiny, "--token-ids",
               "5,6,7,8,9,10,11,12", "--max-new-tokens", 3, "--ignore-eos", "-o", path)
    assert done.status == 0, done.err
    return path


def first_line(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[0]


def test_an_older_recording_verifies_there_and_here(build, older, tiny):
    there = pathlib.Path(OLDER) / "bin" / "replay"
    assert first_line(there, "verify", older, "--weights", tiny).startswith(
        "VERIFIED  every output hash reproduced")
    assert first_line(build / "bin/replay", "verify", older, "--weights", tiny).startswith(
        "VERIFIED  in band, in another environment")
    assert first_line(build / "bin/replay", "verify", older, "--weights", tiny, "--promote",
                      "float32").startswith("RUNS  promoted to float32")


def test_a_newer_recording_verifies_there(gold, tiny):
    assert first_line(pathlib.Path(OLDER) / "bin" / "replay", "verify", gold, "--weights",
                      tiny).startswith("VERIFIED  in band, in another environment")


def test_the_two_recordings_agree(replay, record, older, tiny):
    here = record("newer", tiny, ids=list(range(5, 13)), max_new_tokens=3)
    answer, _ = replay(older, here)
    assert answer.status == 0, answer.out
