"""The installed tree serves a C program by pkg-config and a C++ program by find_package."""

import os
import shutil
import subprocess

import pytest

from paths import BUILD, ROOT

pytestmark = pytest.mark.xdist_group("install")


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The build, installed and then moved: nothing in it may name the place."""
    folder = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BUILD, "--prefix", folder / "first")
    (folder / "first").rename(folder / "prefix")
    return folder / "prefix"


@pytest.fixture(scope="module")
def engine(prefix, tmp_path_factory):
    """examples/downstream_c, built as its reader would."""
    folder = tmp_path_factory.mktemp("c") / "downstream_c"
    shutil.copytree(ROOT / "examples/downstream_c", folder)
    pkgconfig = next(prefix.glob("lib*/**/pkgconfig"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pkgconfig), "CFLAGS": "-Werror"}
    run("make", "-C", folder, env=environment)
    return folder / "engine"


@pytest.fixture(scope="module")
def list_tensors(prefix, tmp_path_factory):
    """examples/downstream_cmake, built as its reader would."""
    folder = tmp_path_factory.mktemp("cmake")
    run("cmake", "-S", ROOT / "examples/downstream_cmake", "-B", folder,
        f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder)
    return folder / "list_tensors"


@pytest.fixture
def replay(prefix):
    return prefix / "bin/replay"


def test_a_c_program_writes_a_trace_that_replay_shows(engine, replay, tmp_path):
    trace = tmp_path / "toy.fb"
    assert "2 steps" in run(engine, trace)
    calls = run(replay, "show", trace, "--calls").splitlines()
    assert len(calls) == 4
    assert "embedding" in calls[0] and "GET_ROW" in calls[0]
    assert "head" in calls[3] and "MUL_MAT" in calls[3]
    tokens = run(replay, "show", trace, "--tokens")
    assert "2 prompt + 2 new tokens" in tokens and "step 1" in tokens
    assert "table" in run(replay, "show", trace, "--params")


def test_it_feeds_the_forced_tokens_of_a_golden(engine, replay, tmp_path):
    golden, trace = tmp_path / "gold.fb", tmp_path / "toy.fb"
    run(engine, golden)
    assert "2 steps, forced" in run(engine, trace, golden)
    verdict = run(replay, trace, "--against", golden)
    assert verdict.startswith("AGREE")


def test_a_cmake_program_reads_it(engine, list_tensors, tmp_path):
    trace = tmp_path / "toy.fb"
    run(engine, trace)
    lines = run(list_tensors, trace).splitlines()
    assert lines[0] == "toy"
    assert lines[1] == "step 0  embedding  GET_ROW  float32 1x4  3"
    assert len(lines) == 5


def test_faults_of_the_examples_have_messages(engine, list_tensors, tmp_path):
    for command in ([engine, tmp_path / "no/folder.fb"], [list_tensors, tmp_path / "none.fb"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2 and str(command[1]) in done.stderr


def test_the_library_exports_its_header_and_nothing_else(prefix):
    library = next(prefix.glob("lib*/**/libgoldentrace.so"))
    names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    header = (prefix / "include/goldentrace/goldentrace.h").read_text()
    assert all(name.startswith("goldentrace_") for name in names), sorted(names)
    assert all(f"{name}(" in header for name in names)
    assert len(names) >= 28
