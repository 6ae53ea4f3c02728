#!/usr/bin/env python3
"""What starting and closing a recording costs beside the run itself, prompt by prompt.

    PYTHONPATH=build/python tests/bench/prompts_overhead.py MODEL_DIR [--prompts 50] [--tokens 16]
                                                          [--threads 1]

Records that many prompts of one loaded model, as `record hf --prompts` does, and prints the ratio of the
whole to the sum of the recorded runs; the aim is below 1.1. Once with the parameters' hashes used again
for every prompt, and once hashing anew, to see what that saves."""

import argparse
import pathlib
import random
import tempfile
import time

import torch
from goldentrace import hf
from goldentrace.checkpoint import Checkpoint
from goldentrace.parameters import KnownParameters


def measure(model, folder, prompts, tokens, reuse):
    """(seconds of everything, seconds inside the runs)."""
    inside = 0.0
    generate = hf.generate

    def timed(*arguments):
        nonlocal inside
        began = time.perf_counter()
        try:
            return generate(*arguments)
        finally:
            inside += time.perf_counter() - began

    hf.generate = timed
    try:
        with tempfile.TemporaryDirectory() as out:
            began = time.perf_counter()
            parameters = KnownParameters(Checkpoint(folder))
            for i, ids in enumerate(prompts):
                if not reuse:
                    parameters = KnownParameters(Checkpoint(folder))
                hf.record_model(model, ids, pathlib.Path(out) / f"{i}.fb", parameters=parameters,
                                max_new_tokens=tokens, ignore_eos=True)
            return time.perf_counter() - began, inside
    finally:
        hf.generate = generate


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model_dir")
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1, help="more only on an idle machine")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = hf.load(arguments.model_dir)
    choose = random.Random(0)
    size = model.get_input_embeddings().weight.shape[0]
    prompts = [[choose.randrange(size) for _ in range(32)] for _ in range(arguments.prompts)]
    measure(model, arguments.model_dir, prompts[:2], arguments.tokens, True)  # warm
    for reuse in (True, False):
        whole, inside = measure(model, arguments.model_dir, prompts, arguments.tokens, reuse)
        print(f"{'hashes used again' if reuse else 'hashed every time'}: {len(prompts)} prompts "
              f"{whole:.2f} s, in the runs {inside:.2f} s, ratio {whole / inside:.3f}, "
              f"{1000 * (whole - inside) / len(prompts):.1f} ms a prompt beside its run")


if __name__ == "__main__":
    main()
