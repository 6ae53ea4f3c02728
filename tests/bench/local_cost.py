#!/usr/bin/env python3
"""What judging local error costs beside one run of the same tokens in float32.

    PYTHONPATH=build/python python tests/bench/local_cost.py [--layers 8 32] [--size medium] [--steps 8]

Makes a Qwen3.5 hybrid of random weights, records the oracle (no values) and a candidate (values at every
call), runs the model in float32 along the oracle's tokens, then `replay --weights` with a cache of
promoted weights and without. Threads: one each. Prints seconds, ratios and peak memory."""

import argparse
import json
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import peak  # noqa: E402
import torch  # noqa: E402
from goldentrace import hf  # noqa: E402
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig  # noqa: E402

SIZES = {"small": dict(hidden_size=512, intermediate_size=1536, num_attention_heads=4, head_dim=128,
                       linear_num_key_heads=4, linear_num_value_heads=8, vocab_size=8192),
         "medium": dict(hidden_size=1024, intermediate_size=3584, num_attention_heads=8, head_dim=256,
                        linear_num_key_heads=16, linear_num_value_heads=16, vocab_size=32768)}


def make(folder, size, layers):
    section = SIZES[size]["head_dim"] // 8
    config = Qwen3_5TextConfig(
        **SIZES[size], num_key_value_heads=2, linear_key_head_dim=128, linear_value_head_dim=128,
        num_hidden_layers=layers, full_attention_interval=4, max_position_embeddings=4096,
        tie_word_embeddings=False, eos_token_id=None,
        rope_parameters=dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.25,
                             mrope_section=[section - 2 * (section // 3), section // 3, section // 3],
                             mrope_interleaved=True))
    torch.manual_seed(0)
    Qwen3_5ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--steps", type=int, default=33)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for layers in arguments.layers:
        with tempfile.TemporaryDirectory() as name:
            measure(pathlib.Path(name), layers, arguments)


def measure(folder, layers, arguments):
    model_folder = folder / "model"
    make(model_folder, arguments.size, layers)
    ids = torch.randint(0, 8192, (arguments.prompt,), generator=torch.Generator().manual_seed(7)).tolist()
    oracle = hf.load(model_folder)
    forced, _ = hf.record_model(oracle, ids, folder / "gold.fb", folder=model_folder,
                                max_new_tokens=arguments.steps, ignore_eos=True)
    del oracle
    candidate = hf.load(model_folder, attn="sdpa")
    hf.record_model(candidate, ids, folder / "cand.fb", folder=model_folder, forced=forced, attn="sdpa",
                    rules=["scope=**:values"])
    del candidate
    wide = hf.load(model_folder, dtype="float32")
    eager = {}
    for name, model in (("float32", wide), ("bfloat16", hf.load(model_folder))):
        best = []
        for _ in range(2):
            began = time.perf_counter()
            hf.generate(Silent(), model, ids, arguments.steps, forced=forced)
            best.append(time.perf_counter() - began)
        eager[name] = min(best)
    del wide, model
    sizes = {name: (folder / f"{name}.fb").stat().st_size >> 20 for name in ("gold", "cand")}
    checkpoint = sum(file.stat().st_size for file in model_folder.glob("*.safetensors")) >> 20
    print(f"{layers} layers, {arguments.size}: checkpoint {checkpoint} MiB, traces {sizes} MiB; eager float32 "
          f"{eager['float32']:.2f} s, bfloat16 {eager['bfloat16']:.2f} s")
    replay = [ROOT / "build/bin/replay", folder / "cand.fb", "--against", folder / "gold.fb"]
    for what, more in (("no local error", []), ("cache", ["--weights", model_folder]),
                       ("no cache", ["--weights", model_folder, "--weight-cache", "0"])):
        status, memory, seconds, processor = peak.run(*replay, *more, "--json", folder / "r.json")
        report = json.loads((folder / "r.json").read_text()) if status < 2 else {}
        local = report.get("local") or {}
        print(f"  {what:15} exit {status}, {seconds:6.2f} s = {seconds / eager['float32']:.2f} x float32 eager, "
              f"{local.get('compared')} compared, peak {memory >> 20} MiB", flush=True)


class Silent:
    """In place of a recording."""
    def step(self, number): pass
    def paused(self):
        import contextlib
        return contextlib.nullcontext()


if __name__ == "__main__":
    main()
