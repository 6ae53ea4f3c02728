#!/usr/bin/env python3
"""Records a model with one fault planted in it: the run that an engine with that fault would make.

    planted_fault.py MODEL_DIR -o OUT.fb [--fault norm-without-one] [--layer 2]

The faults are ones that people really made when they ported a model. `replay OUT.fb --against`
the oracle's trace should name the module that the fault is in, and no later one."""

import argparse
import types

import torch

from goldentrace import hf


def norm_without_one(layer):
    """RMSNorm multiplies by w where the model means 1 + w."""
    def forward(self, x):
        output = self._norm(x.float())
        return (output * self.weight.float()).type_as(x)

    norm = layer.post_attention_layernorm
    norm.forward = types.MethodType(forward, norm)


def wrong_eps(layer):
    """RMSNorm adds 1e-5 under the root instead of 1e-6."""
    layer.input_layernorm.eps = 1e-5


def gelu_for_silu(layer):
    """The feed-forward's gate goes through GELU."""
    layer.mlp.act_fn = torch.nn.GELU()


def lost_state(layer):
    """Gated DeltaNet's state is not handed over from prefill to decode."""
    linear = layer.linear_attn
    whole = linear.forward

    def forward(self, hidden_states, *args, cache=None, **kwargs):
        output = whole(hidden_states, *args, cache=cache, **kwargs)
        if hidden_states.shape[1] > 1:
            cache.get_recurrent_state(self.layer_idx, state_idx=0).zero_()
        return output

    linear.forward = types.MethodType(forward, linear)


def int8_weights(layer):
    """One projection's weights come from an int8 checkpoint."""
    weight = layer.mlp.up_proj.weight
    scale = weight.abs().amax() / 127
    weight.copy_((weight / scale).round() * scale)


FAULTS = {function.__name__.replace("_", "-"): function
          for function in (norm_without_one, wrong_eps, gelu_for_silu, lost_state, int8_weights)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model_dir")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--fault", choices=sorted(FAULTS), default="norm-without-one")
    parser.add_argument("--layer", type=int, default=2)
    parser.add_argument("--prompt", default="def forward(self, hidden_states):")
    parser.add_argument("--max-new-tokens", type=int, default=9)
    parser.add_argument("--rule", action="append", default=[], help="as record's")
    arguments = parser.parse_args()

    model = hf.load(arguments.model_dir)
    with torch.no_grad():
        FAULTS[arguments.fault](model.model.layers[arguments.layer])
    tokenizer = hf.tokenizer_of(arguments.model_dir)
    ids = tokenizer(arguments.prompt)["input_ids"]
    hf.record_model(model, ids, arguments.output, folder=arguments.model_dir, tokenizer=tokenizer,
                    prompt=arguments.prompt, max_new_tokens=arguments.max_new_tokens,
                    rules=arguments.rule)
    print(f"recorded {arguments.output}: layer {arguments.layer} with {arguments.fault}")


if __name__ == "__main__":
    main()
