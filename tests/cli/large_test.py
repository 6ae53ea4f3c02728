"""Memory grows with one chunk, never with the file: the tools read 600 MB in less than 300."""

import subprocess

import numpy
import peak
import pytest

from paths import BUILD

pytestmark = pytest.mark.xdist_group("large")
MIB = 1 << 20
LIMIT = 300_000_000  # bytes; four values of 150 MiB, each in parts of 64 MiB


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.fb"
    subprocess.run([BUILD / "bin" / "make_large_trace", path, "20000", "4", str(150 * MIB)],
                   check=True)
    assert path.stat().st_size > 600_000_000
    yield path
    path.unlink()


@pytest.mark.parametrize("command", ["show {}", "show {} --calls", "show {} --tensors --json",
                                     "show {} --chunks",
                                     "check {}", "export {} --call 2 -o {}.npy",
                                     "export {} --step 0 -o {}.safetensors",
                                     "export {} -o {}.jsonl", "trim {} {}.out --scope layers.*",
                                     "trim {} {}.out --drop-values"])
def test_memory_does_not_grow_with_the_file(command, large):
    arguments = [word.replace("{}", str(large)) for word in command.split()]
    status, most, _, _ = peak.run(BUILD / "bin" / "replay", *arguments)
    if command.endswith(".npy"):
        value = numpy.load(f"{large}.npy", mmap_mode="r")
        assert value.shape == (150 * MIB // 4,)
        assert value[:2].tobytes() == (2).to_bytes(8, "little")
        assert not value[2:4096].any()
    for made in large.parent.glob(large.name + ".*"):
        made.unlink()
    assert status == 0
    assert most < LIMIT
