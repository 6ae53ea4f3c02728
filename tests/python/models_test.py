"""Every architecture and mode that people run: the trace is the whole program.

Executed again, it gives every output bit for bit; promoted to float32, every call runs and gives its
shape. `pytest -s` prints the table."""

import json

import goldentrace
import models
import pytest
import torch


def outcome(run_replay, trace, weights, *options):
    report = trace.with_suffix(".json")
    done = run_replay("verify", trace, "--weights", weights, "--json", report, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(report.read_text())


@pytest.mark.parametrize("case", models.CASES, ids=models.case_name)
def test_the_recorded_program_is_complete(case, trace, no_weights, replay_program):
    architecture, run, mode, options = case
    model = models.make(architecture, **options)
    with models.mode(mode):
        want = run(model)
        with goldentrace.record(trace, model) as recording:
            got = run(model)
    assert torch.equal(got, want)
    counters = {name: c["value"] for name, c in recording.summary()["counters"].items()}
    assert counters["recorder_errors"] == counters["calls_not_executable"] == 0
    assert counters["holes"] == 0

    again = outcome(replay_program, trace, no_weights)
    assert again["verdict"] == "reproduced"
    assert again["not_executable"] == 0
    promoted = outcome(replay_program, trace, no_weights, "--promote", "float32")
    assert promoted["executed"] == again["executed"]
    assert promoted["other_shapes"] == promoted["in_recorded_dtype"] == 0
    assert promoted["decisions"] > 0
    print(f"\n{models.case_name(case):42} {again['calls']:6} calls {again['hashes']:5} outputs "
          f"{counters['external_inputs']:2} externals {counters['external_bytes']:5} B  "
          f"{promoted['decisions_equal']:2} of {promoted['decisions']:2} decisions "
          f"{trace.stat().st_size:8} B", end="")
