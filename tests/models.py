"""Tiny random models of transformers' own architectures, and the ways in which people run them."""

import contextlib
import inspect

import torch
import transformers

SIZE = {"vocab_size": 512, "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4,
        "num_key_value_heads": 2}
DELTA_NET = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 32,
             "linear_value_head_dim": 32}
IMAGE, VIDEO, VISION_START, VISION_END = 500, 501, 502, 503


def llama():
    return transformers.LlamaForCausalLM, transformers.LlamaConfig(**SIZE, num_hidden_layers=3)


def gemma2():
    return transformers.Gemma2ForCausalLM, transformers.Gemma2Config(
        **SIZE, num_hidden_layers=4, head_dim=32, sliding_window=16)


def gemma3():
    return transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(
        **SIZE, num_hidden_layers=6, head_dim=32, sliding_window=16,
        final_logit_softcapping=30.0, attn_logit_softcapping=50.0)


def qwen3():
    return transformers.Qwen3ForCausalLM, transformers.Qwen3Config(
        **SIZE, num_hidden_layers=3, head_dim=32)


def qwen3_next():
    return transformers.Qwen3NextForCausalLM, transformers.Qwen3NextConfig(
        **SIZE, **DELTA_NET, num_hidden_layers=4, head_dim=32, num_experts=8, num_experts_per_tok=2,
        moe_intermediate_size=64, shared_expert_intermediate_size=64)


QWEN35_TEXT = {**SIZE, **DELTA_NET, "num_hidden_layers": 4, "head_dim": 32}


def qwen35():
    return transformers.Qwen3_5ForCausalLM, transformers.Qwen3_5TextConfig(**QWEN35_TEXT)


def qwen35_vision():
    return transformers.Qwen3_5ForConditionalGeneration, transformers.Qwen3_5Config(
        text_config=QWEN35_TEXT,
        vision_config={"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4,
                       "out_hidden_size": 128, "patch_size": 4, "spatial_merge_size": 2,
                       "temporal_patch_size": 2, "num_position_embeddings": 64},
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END)


def make(architecture, attention="eager", experts=None, dtype=torch.bfloat16):
    """A model of `architecture` (one of the functions above) with weights from a fixed seed."""
    model_class, config = architecture()
    config._attn_implementation = attention
    if experts is not None:
        config._experts_implementation = experts
    torch.manual_seed(0)
    model = model_class(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() >= 2:
                parameter.copy_(noise * 0.06)
            elif "A_log" in name:
                parameter.copy_(noise.abs().add(0.5).log())
            else:
                parameter.add_(noise * 0.2)
    return model.to(dtype).eval()


def prompt(length):
    return torch.randint(0, 490, (1, length), generator=torch.Generator().manual_seed(1))


# ---- ways to run a model; each returns a tensor that depends on all of the run -----------------------

def by_hand(model, first=None, steps=2):
    """A prefill and decode steps with cache, as a user writes them."""
    takes = inspect.signature(model.forward).parameters
    cache = "cache" if "cache" in takes else "past_key_values"
    output = model(**(first or {"input_ids": prompt(40)}), use_cache=True)
    made = [output.logits[:, -1]]
    for _ in range(steps):
        output = model(input_ids=made[-1].argmax(-1, keepdim=True), use_cache=True,
                       **{cache: output[cache]})
        made.append(output.logits[:, -1])
    return torch.cat(made)


def generate(model, **options):
    torch.manual_seed(7)
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, **options}
    return model.generate(prompt(24), **options)


def sample(model):
    return generate(model, do_sample=True, temperature=0.8, top_k=20, top_p=0.9)


def beam_search(model):
    return generate(model, num_beams=3)


def _with_vision(model, token, frames, height=6, width=10):
    generator = torch.Generator().manual_seed(3)
    patches = torch.randn(frames * height * width, 3 * 2 * 4 * 4, generator=generator)
    count = height * width // 4
    words = torch.randint(0, 490, (10,), generator=generator)
    ids = [words[:4]]
    for _ in range(frames):
        ids.append(torch.tensor([VISION_START, *[token] * count, VISION_END]))
    ids = torch.cat([*ids, words[4:]])[None]
    kind = "image" if token == IMAGE else "video"
    pixels = "pixel_values" if token == IMAGE else "pixel_values_videos"
    return by_hand(model, {
        "input_ids": ids, pixels: patches.to(model.dtype),
        f"{kind}_grid_thw": torch.tensor([[frames, height, width]]),
        "mm_token_type_ids": (ids == token).int() * (1 if token == IMAGE else 2)})


def with_image(model):
    return _with_vision(model, IMAGE, frames=1)


def with_video(model):
    return _with_vision(model, VIDEO, frames=2)


@contextlib.contextmanager
def mode(name):
    with {"no_grad": torch.no_grad, "inference": torch.inference_mode,
          "grad": torch.enable_grad}[name]():
        yield


# What must be reproducible: (architecture, run, mode, options of make).
CASES = [
    (llama, by_hand, "no_grad", {}),
    (llama, by_hand, "inference", {"attention": "sdpa"}),
    (llama, by_hand, "grad", {}),
    (llama, by_hand, "grad", {"attention": "sdpa"}),
    (llama, generate, "no_grad", {"attention": "sdpa"}),
    (llama, beam_search, "no_grad", {}),
    (llama, sample, "no_grad", {}),
    (gemma2, by_hand, "no_grad", {}),
    (gemma2, generate, "inference", {}),
    (gemma3, by_hand, "no_grad", {}),
    (gemma3, generate, "no_grad", {"attention": "sdpa"}),
    (qwen3, by_hand, "no_grad", {}),
    (qwen3, beam_search, "inference", {"attention": "sdpa"}),
    (qwen3_next, by_hand, "no_grad", {"experts": "eager"}),
    (qwen3_next, by_hand, "no_grad", {"experts": "grouped_mm"}),
    (qwen3_next, by_hand, "no_grad", {"experts": "batched_mm"}),
    (qwen3_next, sample, "inference", {"experts": "eager"}),
    (qwen35, by_hand, "grad", {}),
    (qwen35, generate, "no_grad", {}),
    (qwen35, sample, "no_grad", {}),
    (qwen35_vision, with_image, "no_grad", {}),
    (qwen35_vision, with_video, "inference", {"attention": "sdpa"}),
]


def case_name(case):
    architecture, run, grad, options = case
    return "-".join([architecture.__name__, run.__name__, grad, *options.values()])
