"""`record hf --calibrate`: runs the recorded model again in ways that a correct engine may differ in,
and has `replay calibrate` write how far rounding moved each output into the golden trace.

The twins run the golden's own tokens: on other threads, with the other attention implementation, from
embeddings that are off by an ulp, in a batch with another prompt, and all tokens as one prefill. The
twin in float32 is the recorded program itself, which `replay calibrate` executes."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

import torch

from goldentrace import hf, native
from goldentrace import recording as gt

SEEDS = (1, 2)
# Twins that are compared by values run no further: a golden's digests are of these steps and the last.
STEPS = 5
EVERY_VALUE = ["scope=**:values"]


@contextlib.contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def perturbed(model, seed):
    """The input embeddings are off by an ulp, up or down by chance. Not a call of the program."""
    generator = torch.Generator().manual_seed(seed)

    def move(module, inputs, output):
        native.pause()
        try:
            signs = torch.randint(0, 2, output.shape, generator=generator) * 2 - 1
            ulp = torch.finfo(output.dtype).eps
            return (output.double() * (1 + ulp * signs.to(output.device))).to(output.dtype)
        finally:
            native.resume()

    handle = model.get_input_embeddings().register_forward_hook(move)
    try:
        yield
    finally:
        handle.remove()


def record_batch(model, prompts, path, forced, *, dtype="bfloat16", attn="eager", device="cpu",
                 parameters=None, command=None, **options):
    """Records one greedy run of several prompts of equal length in one batch, a request each, along
    the `forced` ids in every row."""
    length = len(prompts[0])
    if any(len(prompt) != length for prompt in prompts):
        raise hf.InputError("the prompts of a batch must be equally long")
    settings = {"do_sample": "false", "max_new_tokens": str(len(forced)), "forced": "true",
                "ignore_eos": "false"}
    requests = [{"id": i, "prompt_ids": list(prompt), "output_ids": list(forced),
                 "sampling": [{"name": name, "value": value, "origin": "request"}
                              for name, value in settings.items()],
                 "stop_ids": hf.stop_ids_of(model)} for i, prompt in enumerate(prompts)]
    cache_name = hf.cache_argument(model)
    tokens, cache, position, steps = torch.tensor(prompts, device=model.device), None, 0, []
    with gt.record(path, model, parameters=parameters,
                   header=hf.header_of(model, dtype, attn, device, command or []),
                   **options) as recording, torch.no_grad():
        for step, token in enumerate(forced):
            recording.step(step)
            output = model(input_ids=tokens, use_cache=True, **{cache_name: cache})
            cache, logits = output[cache_name], output.logits[:, -1, :]
            chosen = logits.argmax(dim=-1)
            with recording.paused():
                count = tokens.shape[1]
                for i, row in enumerate(logits):
                    record = hf.step_record(step, row, chosen[i].item(), position, count)
                    record["rows"][0].update(request=i, first_row=i * count)
                    steps.append(record)
                position += count
                tokens = torch.full_like(chosen[:, None], token)
        recording.text(requests=requests, steps=steps)


def record_twins(kinds, model, ids, made, folder, scratch, **run):
    """Yields (name, trace) of each twin of the run that gave `made` after `ids`. `run`: dtype, attn,
    device, experts, parameters."""
    experts = run.pop("experts")
    common = dict(run, forced=made)
    few = made[:STEPS]
    count = torch.get_num_threads()

    def twin(name):
        return name, pathlib.Path(scratch) / f"{name.replace(' ', '-')}.fb"

    if "threads" in kinds:
        other = 2 if count == 1 else 1
        name, path = twin(f"threads {other}")
        with threads(other):
            hf.record_model(model, ids, path, **common)
        yield name, path
    if "attn" in kinds:
        attn = "sdpa" if run["attn"] == "eager" else "eager"
        name, path = twin(f"attn {attn}")
        other = hf.load(folder, run["dtype"], attn, run["device"], experts)
        hf.record_model(other, ids, path, **{**common, "attn": attn})
        yield name, path
    if "perturb" in kinds:
        for seed in SEEDS:
            name, path = twin(f"perturb {seed}")
            with perturbed(model, seed):
                hf.record_model(model, ids, path, **common)
            yield name, path
    if "batch" in kinds:
        name, path = twin("batch of 2")
        record_batch(model, [ids[::-1], ids], path, few, rules=EVERY_VALUE, **run)
        yield name, path
    if "prefill" in kinds and len(few) > 1:
        name, path = twin("one prefill")
        hf.record_model(model, [*ids, *few[:-1]], path, max_new_tokens=1, keep="cuts", **run)
        yield name, path


def calibrate(kinds, model, ids, made, trace, folder, replay, **run):
    """Replaces `trace`, the run that gave `made` after `ids`, by the same with bands. Returns what
    `replay calibrate` says of them."""
    program = pathlib.Path(replay)
    if not program.is_file():
        raise hf.InputError(f"--calibrate: {program}: no such program")
    with tempfile.TemporaryDirectory(dir=pathlib.Path(trace).parent) as scratch:
        done = pathlib.Path(scratch) / "calibrated.fb"
        command = [program, "calibrate", trace, "-o", done]
        for name, path in record_twins(kinds, model, ids, made, folder, scratch, **run):
            command += ["--twin", f"{name}={path}"]
        if "fp32" in kinds:
            command += ["--weights", folder]
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if answer.returncode:
            raise hf.InputError(f"--calibrate: {' '.join(answer.stderr.split())}")
        os.replace(done, trace)
    return answer.stdout.replace(str(done), str(trace))
