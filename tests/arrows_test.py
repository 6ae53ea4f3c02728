"""Who may include what. The folders' order is what keeps `replay` free of Torch and the recorder free
of the replayer; the compiler does not hold it, because every header is on one include path."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("src", "recorder", "replayer", "tests", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".h", ".cpp", ".cu", ".cc", ".hpp"}
)

# (why, pattern of the included header, pattern of the files that may include it)
ONLY_IN = [
    (
        "replay is built and run on machines without Torch",
        r"(ATen|c10|torch|caffe2)/",
        r"recorder/|replayer/execute/|tests/recorder/|tests/replayer/execute/|tests/bench/empty_callback.cpp|examples/",
    ),
    ("one place decides how chunks are compressed", r"zstd\.h$|zdict\.h$", r"src/format/"),
    ("hashes are defined by the digest and the container", r"xxh\w*\.h$", r"src/(digest|format)/|tests/bench/digest_speed.cpp"),
    (
        "the wire form is the format's own business",
        r"flatbuffers/|.*_generated\.h$",
        r"src/format/|tests/src/format/|tests/golden/",
    ),
    ("libraries take options, not command lines", r"CLI/", r".*_main\.cpp$"),
    ("libraries do not print", r"spdlog/", r".*_main\.cpp$|recorder/"),
    ("the recorder is not a part of replaying", r"recorder/", r"recorder/|tests/|examples/"),
    ("the replayer is not a part of recording", r"replayer/", r"replayer/|tests/|examples/"),
    ("product code does not rest on tests", r"tests/|gtest/|gmock/", r"tests/"),
    # src/base <- src/event, src/digest <- src/format <- src/capi
    ("base knows nothing above it", r"src/(event|digest)/", r"(?!src/base/)"),
    ("the format rests on what it stores, never the other way", r"src/format/", r"(?!src/(base|event|digest)/)"),
    (
        "src stands below the C interface; recorder and replayer need nothing of it",
        r"src/capi/",
        r"src/capi/|tests/src/capi/|tests/fuzz/|examples/",
    ),
    ("what is recorded and how it is digested are apart", r"src/event/", r"(?!src/digest/)"),
]


def includes(path):
    return INCLUDE.findall((ROOT / path).read_text(encoding="utf-8"))


def test_sources_are_found():
    assert len(SOURCES) > 30


@pytest.mark.parametrize(("why", "header", "allowed"), ONLY_IN, ids=[row[0] for row in ONLY_IN])
def test_includes_follow_the_arrows(why, header, allowed):
    wrong = [
        f"{path} includes {name}: {why}"
        for path in SOURCES
        if not re.match(allowed, path)
        for name in includes(path)
        if re.match(header, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_includes_of_the_project_start_at_the_root():
    wrong = [
        f"{path} includes {name}"
        for path in SOURCES
        for name in includes(path)
        if name.startswith(".") or ("/" not in name and (ROOT / path).parent.joinpath(name).exists())
    ]
    assert not wrong, "\n".join(wrong)
