"""`record hf --selfcheck`: whether a recording that was just made can be believed.

Four checks, each one line: the recorder did not change the logits (on/off), no position sees a
later token (causality), no memory changed behind torch's back (holes), and the trace reproduces
itself (verify)."""

import contextlib
import dataclasses
import pathlib
import subprocess

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# How far other kernels carry a run's logits, relative L2; the same bands as replay's.
BANDS = {torch.bfloat16: 0.06, torch.float16: 0.01, torch.float32: 1e-4, torch.float64: 1e-10}


class Failed(RuntimeError):
    """A check failed; the message names it."""


@dataclasses.dataclass
class Check:
    """How one check came out."""

    name: str
    ok: bool
    text: str


class _Off:
    """What hf.generate asks of a recording, without one."""

    def step(self, number):
        pass

    def paused(self):
        return contextlib.nullcontext()


def same_bits(one, other):
    """NaN is equal to the same NaN, and 0 differs from -0."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(*(t.contiguous().view(torch.uint8) for t in (one, other)))


def on_off(model, ids, logits, generate):
    """The same run without recording: `logits` are the recorded run's rows, one a step."""
    made, _, rows = generate(_Off(), model, ids, len(logits))
    for step, (on, off) in enumerate(zip(logits, rows, strict=True)):
        if not same_bits(on, off):
            moved = (on != off).sum().item()
            return Check("on/off", False, f"without recording, the logits of step {step} are "
                                          f"others: {moved} of {on.numel()} elements")
    return Check("on/off", True, f"{len(rows)} logit rows bit-equal without recording")


class _Shapes(TorchDispatchMode):
    """Every call's operator and shapes: with equal ones, equal kernels run."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        shapes = [tuple(a.shape) for a in args if isinstance(a, torch.Tensor)]
        self.calls.append((str(function), shapes))
        return function(*args, **(kwargs or {}))


def _prefill(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits[0]


def _same_shapes(model, one, other):
    """True when both prompts make the same calls on the same shapes, so that bits must be equal."""
    calls = []
    for ids in (one, other):
        with _Shapes() as shapes:
            _prefill(model, ids)
        calls.append(shapes.calls)
    return calls[0] == calls[1]


def causality(model, ids):
    """Another last prompt token must not move the logits of the positions before it.

    Bits are demanded where both runs make the same calls on the same shapes. Experts get other
    token counts when a token is routed elsewhere; other kernels may then move others' last bits."""
    if len(ids) < 2:
        return Check("causality", True, "not checked: the prompt is one token")
    changed = [*ids[:-1], (ids[-1] + 1) % model.get_input_embeddings().weight.shape[0]]
    want, got = _prefill(model, ids), _prefill(model, changed)
    if want.shape[0] != len(ids):
        return Check("causality", False,
                     f"the model gives {want.shape[0]} logit rows, not {len(ids)}")
    moved = [p for p in range(len(ids) - 1) if not same_bits(want[p], got[p])]
    text = f"{len(ids) - 1} positions are not moved by a later token"
    if not moved:
        return Check("causality", True, text)
    distance = max(((got[p].double() - want[p].double()).norm() / want[p].double().norm()).item()
                   for p in moved)
    if distance <= BANDS[want.dtype] and not _same_shapes(model, ids, changed):
        return Check("causality", True, f"{text}, but for rounding ({distance:.2g} at most): "
                                        f"experts were given other counts of tokens")
    return Check("causality", False, f"another last token moves the logits of {len(moved)} "
                                     f"earlier positions, first position {moved[0]}, "
                                     f"by {distance:.2g} at most")


def holes(summary):
    """The recording was made with every read hashed; `summary` is the recorder's."""
    counter = summary["counters"].get("holes", {"value": 0, "first": ""})
    if counter["value"]:
        return Check("holes", False, f"{counter['value']} writes behind torch's back, "
                                     f"first {counter['first']}")
    return Check("holes", True, f"no memory changed outside the {summary['calls']} calls")


def verify(trace, folder, replay=None):
    """Executes the trace again with `replay`, which stands beside `record`."""
    program = pathlib.Path(replay or pathlib.Path(__file__).resolve().parents[2] / "bin" / "replay")
    if not program.is_file():
        return Check("verify", False, f"{program}: no such program")
    done = subprocess.run([program, "verify", trace, "--weights", folder], capture_output=True,
                          text=True, errors="replace")
    lines = done.stdout.splitlines() or done.stderr.splitlines() or ["replay said nothing"]
    headline = " ".join(lines[0].split())
    if done.returncode == 0:
        return Check("verify", True, "every output hash reproduced")
    first = next((" ".join(line.split()) for line in lines if line.startswith("  first")), "")
    return Check("verify", False, f"{headline} {first}".strip())


def run(model, ids, logits, summary, trace, folder, generate, replay=None):
    """All checks of a finished recording of `hf.generate(model, ids)`, in order, as they end."""
    yield on_off(model, ids, logits, generate)
    yield causality(model, ids)
    yield holes(summary)
    yield verify(trace, folder, replay)


def report(checks):
    """Prints one line a check; raises Failed, naming what failed, after the last one."""
    failed = []
    for check in checks:
        print(f"selfcheck  {check.name} {'ok' if check.ok else 'FAILED'}: {check.text}", flush=True)
        if not check.ok:
            failed.append(check)
    if failed:
        raise Failed(f"selfcheck failed: {', '.join(f'{c.name}: {c.text}' for c in failed)}")
