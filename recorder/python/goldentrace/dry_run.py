"""What a recording would cost: `record hf --dry-run`. Runs the prefill and one step, with and without
recording them, and keeps nothing."""

import json
import pathlib
import tempfile
import time

from goldentrace import native

FIRST_STEPS = 4  # whose digests --keep golden keeps, beside the prefill's and the last step's


class _Cost:
    """Of the prefill and of one decode step."""

    def __init__(self, prefill, both):
        self.prefill, self.step = prefill, max(both - prefill, 0)

    def of(self, steps):
        return self.prefill + steps * self.step


def report(run, model, ids, forced, parameters, options):
    """The lines to print."""
    from goldentrace import hf  # which imports this module

    keep = options["keep"]
    new = run["max_new_tokens"] or (len(forced) if forced is not None else 16)
    new = new if forced is None else min(new, len(forced))

    def recorded(tokens, **changes):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "dry.fb"
            began = time.perf_counter()
            hf.record_model(model, ids, path, parameters=parameters, dtype=options["dtype"],
                            attn=options["attn"], device=options["device"], max_new_tokens=tokens,
                            ignore_eos=True, command=options["command"], **{**keep, **changes})
            seconds = time.perf_counter() - began
            return json.loads(native.summary())["calls"], path.stat().st_size, seconds

    def plain(tokens):
        began = time.perf_counter()
        hf.generate(_NoRecording(), model, ids, tokens)
        return time.perf_counter() - began

    plain(1)  # the first run is a slow one
    one, two = recorded(1), recorded(2)
    calls, size, seconds = (_Cost(a, b) for a, b in zip(one, two))
    without = _Cost(plain(1), plain(2))
    bare = size  # of a step whose digests are dropped
    if keep["keep"] == "golden":
        bare = _Cost(one[1], recorded(2, rules=[*keep["rules"], "step=1:none"])[1])
    steps = new - 1
    whole = min(steps, FIRST_STEPS + 1) if keep["keep"] == "golden" else steps
    total = size.of(whole) + (steps - whole) * bare.step
    rows = [("", "calls", "bytes", "seconds", "without"),
            ("prefill", calls.prefill, size.prefill, seconds.prefill, without.prefill),
            ("step", calls.step, size.step, seconds.step, without.step),
            (f"all of {new} tokens", calls.of(steps), total, seconds.of(steps), without.of(steps))]
    lines = [f"dry run: {run['output']} was not written; --keep {keep['keep']}"]
    for name, *figures in rows:
        lines.append(f"  {name:<18}" + "".join(f"{_text(figure):>16}" for figure in figures))
    return "\n".join(lines)


def _text(figure):
    if isinstance(figure, str):
        return figure
    return f"{figure:,.3f}" if isinstance(figure, float) else f"{figure:,}"


class _NoRecording:
    """In the place of a Recording, where nothing is recorded."""

    def step(self, number):
        pass

    def paused(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False
