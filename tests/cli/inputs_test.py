"""Many prompts with one load, and the same inputs by one flag, by the real programs."""

import json
import pathlib

import pytest

from cases import PROMPT

pytestmark = pytest.mark.xdist_group("inputs")


@pytest.fixture(scope="module")
def tokens(run):
    """tokens(trace) -> its only request and its steps."""
    def read(trace):
        answer = run("replay", "show", trace, "--tokens", "--json")
        assert answer.status == 0, answer.err
        text = json.loads(answer.out)
        return text["requests"][0], text["steps"]
    return read


@pytest.fixture(scope="module")
def text_trace(run, tiny, traces):
    """A trace of a prompt as text, which has the tokens' pieces."""
    path = traces / "text.fb"
    answer = run("record", "hf", tiny, "--prompt", "def f(x):", "--max-new-tokens", 3,
                 "--ignore-eos", "-o", path)
    assert answer.status == 0, answer.err
    return path


@pytest.fixture(scope="module")
def many(run, tiny, traces, tokens, text_trace):
    """(Answer, folder) of a batch: ids, text, what a trace generated, and a line that fails."""
    request, _ = tokens(text_trace)
    lines = [{"prompt_ids": PROMPT, "max_new_tokens": 2},
             {"prompt": "def f(x):", "id": "text"},
             {"token_ids": [1, 5000], "id": "outside"},
             {"prompt": "def f(x):", "id": "own", "output_ids": request["output_ids"]},
             {"prompt": "def f(x):", "id": 7, "output_text": " return x"}]
    file = traces / "prompts.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    out = traces / "many"
    answer = run("record", "hf", tiny, "--prompts", file, "--ignore-eos", "--max-new-tokens", 3,
                 "-o", out)
    return answer, out


def test_a_prompt_that_fails_is_told_and_the_others_are_recorded(many):
    answer, out = many
    assert answer.status == 2
    assert sorted(path.name for path in out.iterdir()) == ["001.fb", "7.fb", "own.fb", "text.fb"]
    assert len(answer.out.splitlines()) == 4
    assert all(line.startswith("recorded ") for line in answer.out.splitlines())
    [error] = answer.err.splitlines()
    assert "prompts.jsonl:3: 5000 is outside the vocabulary" in error


def test_a_trace_of_many_is_the_trace_of_one(many, text_trace, gold, tiny, replay, verify, tokens):
    _, out = many
    answer, report = replay(out / "text.fb", text_trace)
    assert (answer.status, report["verdict"]) == (0, "identical")
    answer, report = replay(out / "001.fb", gold)
    assert answer.status == 0
    assert report["ops"]["identical"] == report["ops"]["outputs"] > 1000
    assert verify(out / "7.fb", tiny)[0].status == 0  # forced along text, and the last of them
    request, steps = tokens(out / "7.fb")
    assert "".join(request["output_pieces"]) == " return x"[:len("".join(request["output_pieces"]))]
    assert [step["chosen"] for step in steps] != request["output_ids"]
    assert all(step["top_ids"][0] == step["chosen"] for step in steps)
    assert {"name": "forced", "value": "true", "origin": "request"} in request["sampling"]


def test_a_run_forced_along_its_own_tokens_is_the_run_itself(many, text_trace, replay):
    _, out = many
    answer, report = replay(out / "own.fb", text_trace)
    assert (answer.status, report["verdict"]) == (0, "identical")
    assert "fed given tokens" in report["sampling"]["text"]


def test_follow_repeats_a_traces_inputs_whatever_the_model_chooses(text_trace, many, tiny, record,
                                                                   run, replay, tokens, traces):
    # An engine that took other tokens: the oracle follows it and says what it would have taken.
    engine = many[1] / "7.fb"
    path = traces / "followed.fb"
    answer = run("record", "hf", tiny, "--follow", engine, "-o", path)
    assert answer.status == 0, answer.err
    followed, steps = tokens(path)
    request, engine_steps = tokens(engine)
    for key in ("prompt", "prompt_ids", "output_ids"):
        assert followed[key] == request[key], key
    assert [step["chosen"] for step in steps] == [step["chosen"] for step in engine_steps]
    answer, report = replay(engine, path)
    assert (answer.status, report["verdict"]) == (0, "identical")
    assert report["tokens"]["compared_equal"] == len(steps)


REFUSED = [
    ("prompts.jsonl", '{"prompt": "a"}\n{"prompt": "a", "id": "../x"}\n', "--prompts",
     "prompts.jsonl:2: 'id'"),
    ("prompts.jsonl", '{"promt": "a"}\n', "--prompts", "prompts.jsonl:1: "),
    ("empty", "", "--follow", "is empty"),
    ("ids", "1, -2", "--follow", "'-2' is not a token id"),
    ("other.json", '{"choices": []}', "--follow", "neither 'prompt' nor 'prompt_ids'"),
]


@pytest.mark.parametrize(("name", "text", "flag", "message"), REFUSED)
def test_bad_input_is_refused_before_anything_is_recorded(name, text, flag, message, run, tmp_path):
    (tmp_path / name).write_text(text)
    # No such model: it would be the message if anything were loaded.
    answer = run("record", "hf", "no-model", flag, name, "-o", "out", cwd=tmp_path)
    assert answer.status == 2
    [line] = answer.err.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()


def test_a_damaged_trace_can_not_be_followed(text_trace, run, tmp_path):
    data = bytearray(pathlib.Path(text_trace).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.fb").write_bytes(data)
    answer = run("record", "hf", "no-model", "--follow", "bad.fb", "-o", "out", cwd=tmp_path)
    assert answer.status == 2
    [line] = answer.err.splitlines()
    assert "bad.fb" in line and "checksum" in line


@pytest.mark.parametrize("others", [["--prompt", "a"], ["--token-ids", "1"], ["--prompts", "p"]])
def test_follow_stands_alone(others, run):
    answer = run("record", "hf", "M", "-o", "x", "--follow", "f", *others)
    assert answer.status == 2
    assert "exactly one" in answer.err
