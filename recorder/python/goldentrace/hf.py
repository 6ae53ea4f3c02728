"""`record hf`: transformers' own modelling code, provably eager, greedy with cache.

Run by the `record` program, which owns the command line: `python -m goldentrace.hf OPTIONS.json`.
The functions are also there for scripts that change a model before they record it."""

import functools
import inspect
import json
import math
import os
import pathlib
import platform
import sys

from goldentrace import purity

# The reference path: no kernels from a hub or from other packages in place of the modelling code,
# and no network.
os.environ["USE_HUB_KERNELS"] = "NO"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
purity.force_reference()

import torch  # noqa: E402
import transformers  # noqa: E402

from goldentrace import dry_run, native, selfcheck  # noqa: E402
from goldentrace import recording as gt  # noqa: E402
from goldentrace.checkpoint import Checkpoint  # noqa: E402
from goldentrace.parameters import KnownParameters  # noqa: E402

# What transformers has to say here (progress bars, that no fast kernel is installed) is no news: the
# reference path is what is wanted.
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

TOP_K = 32
# Significand bits of the logits' dtype, without the hidden one.
FRACTION_BITS = {torch.bfloat16: 7, torch.float16: 10, torch.float32: 23, torch.float64: 52}


class InputError(ValueError):
    """What the user gave can't be run; the message says why in one line."""


def load(folder, dtype="bfloat16", attn="eager", device="cpu", experts="eager"):
    """The model of `folder` by its own architecture class, in evaluation mode."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder")
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: holds no config.json")
    if not any(folder.glob("*.safetensors")):
        raise InputError(f"{folder}: holds no .safetensors file (a model folder without weights)")
    config = transformers.AutoConfig.from_pretrained(folder)
    names = config.architectures or []
    model_class = next((getattr(transformers, n) for n in names if hasattr(transformers, n)),
                       transformers.AutoModelForCausalLM)
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this machine has no CUDA device")
    if experts != "eager" and not model_class._can_set_experts_implementation():
        raise InputError(f"--experts {experts}: {model_class.__name__} has no experts to choose for")
    model, loading = model_class.from_pretrained(
        folder, dtype=getattr(torch, dtype), attn_implementation=attn,
        experts_implementation=experts, output_loading_info=True)
    model = model.to(device).eval()
    _note_loading(model, loading)
    # Some kernels choose by alignment, and a checkpoint promises only 8 bytes: what is executed
    # again later, from memory of its own, must be what ran here.
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.data_ptr() % 64:
                tensor.data = tensor.data.clone()
    return model


def _note_loading(model, loading):
    """Notes which weights are not the checkpoint's, and which of the checkpoint's are not used."""
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    missing = sorted(set(loading["missing_keys"]) - set(tied))
    mismatched = sorted(key[0] if isinstance(key, tuple) else key
                        for key in loading["mismatched_keys"])
    for kind, why, names in (
            ("initialised", "the checkpoint lacks it", missing),
            ("initialised", "the checkpoint has another shape", mismatched),
            ("unexpected", "in the checkpoint, not in the model",
             sorted(loading["unexpected_keys"]))):
        for name in names:
            purity.note(model, f"{kind}: {name}: {why}")


def tokenizer_of(folder):
    """The folder's tokenizer, or None where it has none."""
    try:
        return transformers.AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError):
        return None


def inputs_of(run, tokenizer):
    """(prompt ids, ids to force or None) of a run: its ids, else its text by the tokenizer."""
    def encode(what, special):
        if tokenizer is None:
            raise InputError(f"{run['origin']}: the model has no tokenizer; give ids")
        ids = tokenizer(run[what], add_special_tokens=special)["input_ids"]
        if not ids:
            raise InputError(f"{run['origin']}: {what} encodes to no token")
        return ids

    prompt = encode("prompt", True) if run["prompt_ids"] is None else run["prompt_ids"]
    forced = run["output_ids"]
    if forced is None and run["output_text"] is not None:
        forced = encode("output_text", False)  # a continuation begins with no special token
    return prompt, forced


def pieces_of(tokenizer, ids):
    """Each id's text; the tokenizer's own spelling where a piece is no whole character."""
    if tokenizer is None:
        return []
    texts = [tokenizer.decode([i]) for i in ids]
    return [str(tokenizer.convert_ids_to_tokens(i)) if "\ufffd" in text else text
            for i, text in zip(ids, texts)]


def stop_ids_of(model):
    ids = model.config.get_text_config().eos_token_id
    return [] if ids is None else [ids] if isinstance(ids, int) else list(ids)


def header_of(model, dtype, attn, device, command):
    """What the trace's header says of this run."""
    return {
        "engine": "transformers",
        "engine_version": transformers.__version__,
        "device": device,
        "dtype": dtype,
        "model_config": model.config.to_json_string(use_diff=False),
        "command": command,
        "environment": {
            "attention": attn,
            "experts": getattr(model.config, "_experts_implementation", None) or "eager",
            "hub_kernels": "off",
            "python": platform.python_version(),
            "platform": platform.platform(),
            "transformers": transformers.__version__,
        },
    }


def step_record(step, logits, chosen, first_position, rows):
    """The text ladder's entry of one forward pass; `logits` is the last position's row."""
    values, ids = logits.double().sort(descending=True, stable=True)  # stable: lowest id first
    top = min(TOP_K, len(values))
    first, second = values[0].item(), values[min(1, len(values) - 1)].item()
    exponent = math.frexp(first)[1] - 1 if first and math.isfinite(first) else 0
    ulp = 2.0 ** (exponent - FRACTION_BITS[logits.dtype])
    gap = (first - second) / ulp
    return {
        "step": step,
        "rows": [{"request": 0, "first_row": 0, "count": rows, "position": first_position}],
        "chosen": chosen,
        "top_ids": ids[:top].tolist(),
        "top_logits": values[:top].tolist(),
        "gap_ulp": gap if math.isfinite(gap) else 0.0,
        "logits_rms": logits.double()[logits.isfinite()].square().mean().sqrt().item(),
        "logprob": torch.log_softmax(logits.double(), -1)[chosen].item(),
    }


def cache_argument(model):
    """What the model's forward calls its cache."""
    takes = inspect.signature(model.forward).parameters
    return "cache" if "cache" in takes else "past_key_values"


def generate(recording, model, ids, max_new_tokens, stop_ids=(), forced=None):
    """Greedy decoding by plain argmax with cache, one recorded step a forward pass.

    With `forced` ids those go on as input, whatever the model chose: a step's record keeps its own
    choice, and no stop id ends the run before the ids do.
    Returns (ids that went on, step records, list of last-position logits)."""
    if forced is not None:
        max_new_tokens, stop_ids = min(max_new_tokens, len(forced)), ()
    cache_name = cache_argument(model)
    tokens = torch.tensor([ids], device=model.device)
    cache, position, made, steps, rows = None, 0, [], [], []
    with torch.no_grad():
        for step in range(max_new_tokens):
            recording.step(step)
            output = model(input_ids=tokens, use_cache=True, **{cache_name: cache})
            cache = output[cache_name]
            logits = output.logits[:, -1, :]
            next_tokens = logits.argmax(dim=-1, keepdim=True)
            chosen = next_tokens.item()
            with recording.paused():
                lowest = (logits[0] == logits[0, chosen]).nonzero()[0].item()
                if lowest != chosen:  # argmax promises no order among equals; greedy decoding does
                    chosen, next_tokens = lowest, torch.full_like(next_tokens, lowest)
                steps.append(step_record(step, logits[0], chosen, position, tokens.shape[1]))
                rows.append(logits[0].clone())
                if forced is not None and forced[step] != chosen:
                    chosen, next_tokens = forced[step], torch.full_like(next_tokens, forced[step])
            made.append(chosen)
            if chosen in stop_ids:
                break
            position += tokens.shape[1]
            tokens = next_tokens
    return made, steps, rows


def record_model(model, ids, path, *, folder=None, tokenizer=None, prompt="", dtype="bfloat16",
                 attn="eager", device="cpu", max_new_tokens=None, ignore_eos=False, command=None,
                 forced=None, parameters=None, strict=False, **options):
    """Records one greedy run of a loaded model. Returns (ids that went on, last-position logits).

    `forced` ids are fed in place of the model's choices. `max_new_tokens` is as many as are forced,
    else 16. `folder` is the checkpoint that parameters are recipes from; of a model recorded many
    times give its KnownParameters as `parameters` instead."""
    if parameters is None:
        parameters = KnownParameters(Checkpoint(folder) if folder else None)
    if max_new_tokens is None:
        max_new_tokens = 16 if forced is None else len(forced)
    stops = [] if ignore_eos else stop_ids_of(model)
    settings = {"do_sample": "false", "max_new_tokens": str(max_new_tokens),
                "ignore_eos": str(ignore_eos).lower()}
    if forced is not None:
        settings["forced"] = "true"
    request = {
        "id": 0,
        "prompt": prompt,
        "prompt_ids": list(ids),
        "prompt_pieces": pieces_of(tokenizer, ids),
        "sampling": [{"name": name, "value": value, "origin": "request"}
                     for name, value in settings.items()],
        "stop_ids": stops,
    }
    with gt.record(path, model, parameters=parameters, strict=strict,
                   header=header_of(model, dtype, attn, device, command or sys.argv),
                   **options) as recording:
        recording.text(requests=[request])  # a run that dies has its prompt in the trace
        made, steps, logits = generate(recording, model, ids, max_new_tokens, stops, forced)
        recording.text(requests=[{**request, "output_ids": made,
                                  "output_pieces": pieces_of(tokenizer, made)}], steps=steps)
    return made, logits


def check_ids(ids, model, origin="--token-ids"):
    size = model.get_input_embeddings().weight.shape[0]
    wrong = next((i for i in ids if not 0 <= i < size), None)
    if wrong is not None:
        raise InputError(f"{origin}: {wrong} is outside the vocabulary of {size}")


def _record_run(run, model, tokenizer, parameters, options):
    """Records one of the runs that the command line asked for, and says so in a line."""
    ids, forced = inputs_of(run, tokenizer)
    check_ids([*ids, *(forced or ())], model, run["origin"])
    made, logits = record_model(
        model, ids, run["output"], parameters=parameters, tokenizer=tokenizer,
        prompt=run["prompt"] or "", dtype=options["dtype"], attn=options["attn"],
        device=options["device"], max_new_tokens=run["max_new_tokens"], forced=forced,
        ignore_eos=options["ignore_eos"], command=options["command"], strict=options["strict"],
        check_reads=options["selfcheck"], **options["keep"])
    summary = json.loads(native.summary())
    counters = {name: c["value"] for name, c in summary["counters"].items() if c["value"]}
    print(f"recorded {run['output']}: {summary['calls']} calls, {len(ids)} prompt + "
          f"{len(made)} {'new' if forced is None else 'forced'} tokens, "
          f"{pathlib.Path(run['output']).stat().st_size} bytes"
          + "".join(f", {name} {value}" for name, value in counters.items()), flush=True)
    if options.get("calibrate"):
        from goldentrace import calibrate
        print(calibrate.calibrate(
            options["calibrate"], model, ids, made, run["output"], options["model"],
            options["replay"], parameters=parameters, dtype=options["dtype"], attn=options["attn"],
            device=options["device"], experts=options["experts"]), end="", flush=True)
    if options["selfcheck"]:
        selfcheck.report(selfcheck.run(model, ids, logits, summary, run["output"], options["model"],
                                       functools.partial(generate, forced=forced),
                                       options["replay"]))


def message_of(error):
    """What went wrong in one line, with the error's type unless the message was meant for people."""
    known = isinstance(error, (InputError, gt.RecordingError, selfcheck.Failed,
                               FileNotFoundError))
    text = " ".join(str(error).split())[:300]
    return text if known else f"{type(error).__name__}: {text}"


def main(options):
    """Loads the model once and records every run. The exit status: one that fails stops no other."""
    model = load(options["model"], options["dtype"], options["attn"], options["device"],
                 options["experts"])
    tokenizer = tokenizer_of(options["model"])
    parameters = KnownParameters(Checkpoint(options["model"]))
    status = 0
    for run in options["runs"]:
        try:
            if options["dry_run"]:
                print(dry_run.report(run, model, *inputs_of(run, tokenizer), parameters, options))
            else:
                _record_run(run, model, tokenizer, parameters, options)
        except Exception as error:  # noqa: BLE001  whatever running a model can throw
            message = message_of(error)
            if len(options["runs"]) > 1 and not message.startswith(run["origin"]):
                message = f"{run['origin']}: {message}"
            print(f"record: {message}", file=sys.stderr, flush=True)
            status = 2
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(json.loads(pathlib.Path(sys.argv[1]).read_text() if sys.argv[1] != "-"
                                 else sys.stdin.read())))
    except Exception as error:  # noqa: BLE001  whatever loading a model can throw
        print(f"record: {message_of(error)}", file=sys.stderr)
        sys.exit(2)
