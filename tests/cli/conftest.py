"""Real recordings for the command-line tests. Making one by `record` costs a Python start and
transformers' import, so that all but the golden one are made in this process."""

import json
import subprocess

import pytest

import reports
from cases import NEW_TOKENS, PROMPT


class Answer:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="session")
def run(build):
    """run("replay", "show", path) -> status, out, err; programs of the release build, or a path.
    Every JSON report that replay writes is held against its schema."""
    def run_program(program, *arguments, **options):
        command = [str(build / "bin" / program), *map(str, arguments)]
        answer = Answer(subprocess.run(command, capture_output=True, text=True, **options))
        if program == "replay":
            reports.check_written(arguments, answer.status, answer.out)
        return answer
    return run_program


@pytest.fixture(scope="session")
def replay(run, tmp_path_factory):
    """replay(candidate, oracle, more arguments...) -> (Answer, the JSON report)."""
    def compare(candidate, oracle, *arguments):
        path = tmp_path_factory.mktemp("reports") / "report.json"
        answer = run("replay", candidate, "--against", oracle, "--json", path, *arguments)
        return answer, json.loads(path.read_text()) if path.exists() else None
    return compare


@pytest.fixture(scope="session")
def verify(run, tmp_path_factory):
    """verify(trace, weights) -> (Answer, the JSON report)."""
    def prove(trace, weights):
        path = tmp_path_factory.mktemp("reports") / "verify.json"
        answer = run("replay", "verify", trace, "--weights", weights, "--json", path)
        return answer, json.loads(path.read_text()) if path.exists() else None
    return prove


@pytest.fixture(scope="session")
def calls(run):
    """calls(trace) -> its calls as dicts."""
    def read(trace):
        answer = run("replay", "show", trace, "--calls", "--json")
        assert answer.status == 0, answer.err
        return [json.loads(line) for line in answer.out.splitlines()]
    return read


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="session")
def gold(run, tiny, traces):
    """The oracle's trace, by the real command line."""
    ids = traces / "ids.txt"
    ids.write_text("\n".join(map(str, PROMPT)))
    path = traces / "gold.fb"
    answer = run("record", "hf", tiny, "--token-ids", f"@{ids}", "--max-new-tokens", NEW_TOKENS,
                 "--ignore-eos", "-o", path)
    assert answer.status == 0, answer.err
    return path


@pytest.fixture(scope="session")
def record(traces):
    """record(name, folder, change=None, **options) -> trace of a greedy run of that model, here."""
    from goldentrace import hf

    def record_here(name, folder, change=None, dtype="bfloat16", attn="eager", **options):
        path = traces / f"{name}.fb"
        model = hf.load(folder, dtype=dtype, attn=attn)
        if change is not None:
            import torch
            with torch.no_grad():
                change(model)
        hf.record_model(model, options.pop("ids", PROMPT), path, folder=folder, dtype=dtype,
                        attn=attn, ignore_eos=True,
                        **{"max_new_tokens": NEW_TOKENS, **options})
        return path
    return record_here
