#!/usr/bin/env python3
"""Writes a tiny Qwen3.5 hybrid with random weights as a transformers checkpoint.

    make_tiny_qwen35.py OUT_DIR [--layers 8] [--hidden 128] [--seed 0]

OUT_DIR gets config.json, model.safetensors and a small byte-level BPE tokenizer with a chat template.
The weights are random but scaled as in a trained model: every parameter that starts at a trivial
value (norm gains, A_log, dt_bias, the convolution) is moved away from it, so that a fault in any
of them shows. Linear-attention heads have 64 dimensions, which every engine accepts."""

import argparse
import glob
import os

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 1024
transformers.logging.disable_progress_bar()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# How Qwen's tokenizer cuts text into words before merging.
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def make_tokenizer():
    """A byte-level BPE tokenizer trained on transformers' own Qwen sources."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - len(SPECIAL), show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    sources = os.path.join(os.path.dirname(transformers.__file__), "models/qwen3*/modeling*.py")
    bpe.train(sorted(glob.glob(sources)), trainer)
    bpe.add_special_tokens(SPECIAL)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def make_config(layers, hidden):
    """3 gated DeltaNet layers to 1 gated attention layer, partial interleaved rotary."""
    return transformers.Qwen3_5TextConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, intermediate_size=2 * hidden,
        num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
        linear_conv_kernel_dim=4, linear_key_head_dim=64, linear_value_head_dim=64,
        linear_num_key_heads=2, linear_num_value_heads=4, max_position_embeddings=4096,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=VOCABULARY - 1,
        pad_token_id=VOCABULARY - 3,
        rope_parameters=dict(rope_type="default", rope_theta=10000000.0,
                             partial_rotary_factor=0.25, mrope_section=[3, 3, 2],
                             mrope_interleaved=True))


@torch.no_grad()
def initialise(model, seed):
    """Random weights at the scale of trained ones; deterministic in `seed`."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("A_log"):
            value = torch.log(1 + 15 * torch.rand(parameter.shape, generator=generator))
        elif name.endswith("dt_bias"):
            value = -2 + 0.3 * noise
        elif name.endswith("linear_attn.norm.weight"):
            value = 1 + 0.2 * noise  # gated norm: a plain gain
        elif "norm" in name:
            value = 0.2 * noise  # the other norms apply 1 + weight
        elif "conv1d" in name:
            value = 0.5 * noise
        elif "embed_tokens" in name:
            value = noise
        else:
            value = noise / parameter.shape[-1] ** 0.5
        parameter.copy_(value.to(parameter.dtype))
    for layer in model.model.layers:
        if hasattr(layer, "linear_attn"):
            correlate_keys(layer.linear_attn)


def correlate_keys(linear):
    """Makes DeltaNet's keys resemble its queries, as training does. Of unrelated ones the state's answer is
    a small difference of large terms, and one rounding moves it by whole per cents."""
    for weight in (linear.in_proj_qkv.weight, linear.conv1d.weight):
        query, key = weight[:linear.key_dim], weight[linear.key_dim:2 * linear.key_dim]
        key.copy_(0.8 * query + 0.6 * key)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out_dir")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    model = transformers.Qwen3_5ForCausalLM(make_config(arguments.layers, arguments.hidden))
    initialise(model, arguments.seed)
    model.to(torch.bfloat16).save_pretrained(arguments.out_dir)
    make_tokenizer().save_pretrained(arguments.out_dir)
    print(f"{arguments.out_dir}: {sum(p.numel() for p in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
