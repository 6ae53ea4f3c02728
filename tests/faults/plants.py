"""Faults, rounding policies and clean variations of the tiny Qwen3.5: what is done to a model, and the
module that a report must name. Each is one that people made, or make on purpose, in engines."""

import dataclasses
import sys
import types
from typing import Callable

import torch
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class Plant:
    change: Callable  # of a loaded model, in place
    modules: tuple = ()  # what may be named: these, what is inside them, what they are inside of
    options: dict = dataclasses.field(default_factory=dict)  # how the candidate is run


def replace(module, function):
    module.forward = types.MethodType(function, module)


# ---- faults in weights --------------------------------------------------------------------------


def coarsen(weight, levels=127):
    scale = weight.abs().amax() / levels
    weight.copy_((weight / scale).round() * scale)


def rows(weight, first, count, factor):
    weight[first:first + count] *= factor


def swap_halves(weight):
    half = weight.shape[0] // 2
    weight.copy_(torch.cat([weight[half:], weight[:half]]))


# ---- faults in code -----------------------------------------------------------------------------


def without_one(norm):
    replace(norm, lambda self, x: (self._norm(x.float()) * self.weight.float()).type_as(x))


def other_factor(module, factor):
    whole = module.forward
    module.forward = lambda *args, **kwargs: whole(*args, **kwargs) * factor


def lost_state(linear, layer):
    whole = linear.forward

    def forward(self, hidden_states, *args, cache=None, **kwargs):
        output = whole(hidden_states, *args, cache=cache, **kwargs)
        if hidden_states.shape[1] > 1:
            cache.get_recurrent_state(layer, state_idx=0).zero_()
        return output

    replace(linear, forward)


def shifted(rotary):
    whole = rotary.forward
    replace(rotary, lambda self, x, position_ids: whole(x, position_ids + 1))


def swapped_mlp(mlp):
    replace(mlp, lambda self, x: self.down_proj(self.gate_proj(x) * self.act_fn(self.up_proj(x))))


def swapped_gate(attention):
    """Of each head's rows the query comes first, then its gate."""
    whole = attention.q_proj.forward

    def forward(x):
        query, gate = whole(x).unflatten(-1, (-1, 2, attention.head_dim)).unbind(-2)
        return torch.stack([gate, query], -2).flatten(-3)

    attention.q_proj.forward = forward


def bias_of(linear, size):
    whole = linear.forward
    linear.forward = lambda x: whole(x) + size


def layer(model, i):
    return model.model.layers[i]


def path(i, name):
    return f"model.layers.{i}.{name}"


FAULTS = {
    "int8 up_proj": Plant(lambda m: coarsen(layer(m, 5).mlp.up_proj.weight),
                          (path(5, "mlp.up_proj"),)),
    "4 rows of v_proj 5 %": Plant(lambda m: rows(layer(m, 7).self_attn.v_proj.weight, 8, 4, 1.05),
                                  (path(7, "self_attn.v_proj"),)),
    "out_proj 2 %": Plant(lambda m: layer(m, 4).linear_attn.out_proj.weight.mul_(1.02),
                          (path(4, "linear_attn.out_proj"),)),
    "A_log coarse": Plant(lambda m: layer(m, 0).linear_attn.A_log.copy_(
        (layer(m, 0).linear_attn.A_log * 4).round() / 4), (path(0, "linear_attn"),)),
    "dt_bias off": Plant(lambda m: layer(m, 2).linear_attn.dt_bias.add_(0.05),
                         (path(2, "linear_attn"),)),
    "q_proj halves swapped": Plant(lambda m: swap_halves(layer(m, 3).self_attn.q_proj.weight),
                                   (path(3, "self_attn.q_proj"),)),
    # Named where query and gate are used: they only change places.
    "q and gate swapped": Plant(lambda m: swapped_gate(layer(m, 7).self_attn),
                                (path(7, "self_attn"),)),
    "conv1d reversed": Plant(lambda m: layer(m, 1).linear_attn.conv1d.weight.copy_(
        layer(m, 1).linear_attn.conv1d.weight.flip(-1)), (path(1, "linear_attn"),)),
    "missing +1": Plant(lambda m: without_one(layer(m, 2).post_attention_layernorm),
                        (path(2, "post_attention_layernorm"),)),
    "missing +1, last": Plant(lambda m: without_one(m.model.norm), ("model.norm",)),
    "eps 1e-5": Plant(lambda m: setattr(layer(m, 1).input_layernorm, "eps", 1e-5),
                      (path(1, "input_layernorm"),)),
    "eps of the gated norm": Plant(lambda m: setattr(layer(m, 4).linear_attn.norm, "variance_epsilon", 1e-4),
                                   (path(4, "linear_attn.norm"),)),
    "gelu for silu": Plant(lambda m: setattr(layer(m, 3).mlp, "act_fn", torch.nn.GELU()),
                           (path(3, "mlp"),)),
    "gate and up swapped": Plant(lambda m: swapped_mlp(layer(m, 6).mlp), (path(6, "mlp"),)),
    "lost state": Plant(lambda m: lost_state(layer(m, 4).linear_attn, 4), (path(4, "linear_attn"),)),
    "rotary base": Plant(lambda m: m.model.rotary_emb.inv_freq.mul_(0.97), ("model.rotary_emb",)),
    "rotary shifted": Plant(lambda m: shifted(m.model.rotary_emb), ("model.rotary_emb",)),
    "attention scale": Plant(lambda m: setattr(layer(m, 7).self_attn, "scaling",
                                               layer(m, 7).self_attn.scaling * 1.02),
                             (path(7, "self_attn"),)),
    "o_proj 1.01": Plant(lambda m: other_factor(layer(m, 3).self_attn.o_proj, 1.01),
                         (path(3, "self_attn"),)),
    "bias of down_proj": Plant(lambda m: bias_of(layer(m, 0).mlp.down_proj, 0.01), (path(0, "mlp"),)),
    "lm_head 1 row": Plant(lambda m: rows(m.lm_head.weight, 40, 1, 1.1), ("lm_head",)),
    "k_norm weight": Plant(lambda m: layer(m, 7).self_attn.k_norm.weight.add_(0.01),
                           (path(7, "self_attn.k_norm"),)),
}

# ---- rounding policies: a correct engine may do these ------------------------------------------


def cast_before_weight(norm):
    replace(norm, lambda self, x: self._norm(x.float()).type_as(x) * (1.0 + self.weight))


def rounded_one_plus(norm):
    def forward(self, x):
        weight = (1.0 + self.weight).float()  # in bf16 before it is used
        return (self._norm(x.float()) * weight).type_as(x)

    replace(norm, forward)


def low_l2norm(linear):
    module = sys.modules[type(linear).__module__]
    whole = linear.forward

    def low(x, dim=-1, eps=1e-6):
        low = x.to(torch.bfloat16)
        low = low * torch.rsqrt((low * low).sum(dim=dim, keepdim=True) + eps)
        return low.to(x.dtype)

    def forward(self, *args, **kwargs):
        before, module.l2norm = module.l2norm, low
        try:
            return whole(*args, **kwargs)
        finally:
            module.l2norm = before

    replace(linear, forward)


def fused_silu_mul(mlp):
    def forward(self, x):
        gate, up = self.gate_proj(x).float(), self.up_proj(x).float()
        return self.down_proj((F.silu(gate) * up).to(x.dtype))

    replace(mlp, forward)


def gated_norm_in_float(norm):
    def forward(self, hidden_states, gate):
        dtype = hidden_states.dtype
        x = hidden_states.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.weight.float() * x * F.silu(gate.float())).to(dtype)

    replace(norm, forward)


def gated_norm_low(norm):
    def forward(self, hidden_states, gate):
        x = hidden_states.to(torch.bfloat16)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.weight * x * F.silu(gate)).to(hidden_states.dtype)

    replace(norm, forward)


def norm_low(norm):
    replace(norm, lambda self, x: self._norm(x) * (1.0 + self.weight))


POLICIES = {
    "norm cast order": Plant(lambda m: cast_before_weight(layer(m, 2).post_attention_layernorm),
                             (path(2, "post_attention_layernorm"),)),
    "last norm's cast order": Plant(lambda m: cast_before_weight(m.model.norm), ("model.norm",)),
    "1+w in bf16": Plant(lambda m: rounded_one_plus(layer(m, 5).input_layernorm),
                         (path(5, "input_layernorm"),)),
    "1+w of k_norm in bf16": Plant(lambda m: rounded_one_plus(layer(m, 3).self_attn.k_norm),
                                   (path(3, "self_attn.k_norm"),)),
    "whole norm in bf16": Plant(lambda m: norm_low(layer(m, 6).input_layernorm),
                                (path(6, "input_layernorm"),)),
    "whole q_norm in bf16": Plant(lambda m: norm_low(layer(m, 7).self_attn.q_norm),
                                  (path(7, "self_attn.q_norm"),)),
    "gated norm in bf16": Plant(lambda m: gated_norm_low(layer(m, 4).linear_attn.norm),
                                (path(4, "linear_attn.norm"),)),
    "l2norm in bf16": Plant(lambda m: low_l2norm(layer(m, 1).linear_attn), (path(1, "linear_attn"),)),
}

# ---- clean: inside eager's own noise ------------------------------------------------------------

CLEAN = {
    "again": Plant(lambda m: None),
    "sdpa": Plant(lambda m: None, options={"attn": "sdpa"}),
    "float32": Plant(lambda m: None, options={"dtype": "float32"}),
    "1 thread": Plant(lambda m: None, options={"threads": 1}),
    "4 threads": Plant(lambda m: None, options={"threads": 4}),
    "fused silu-mul in float32": Plant(lambda m: fused_silu_mul(layer(m, 3).mlp)),
    "gated norm in float32": Plant(lambda m: gated_norm_in_float(layer(m, 1).linear_attn.norm)),
}

# ---- the same for other models: of tests/models.py --------------------------------------------------

QWEN3 = {
    "int8 up_proj": Plant(lambda m: coarsen(layer(m, 1).mlp.up_proj.weight), (path(1, "mlp.up_proj"),)),
    "4 rows of v_proj 5 %": Plant(lambda m: rows(layer(m, 2).self_attn.v_proj.weight, 4, 4, 1.05),
                                  (path(2, "self_attn.v_proj"),)),
    "gelu for silu": Plant(lambda m: setattr(layer(m, 0).mlp, "act_fn", torch.nn.GELU()),
                           (path(0, "mlp"),)),
    "norm weight": Plant(lambda m: layer(m, 1).input_layernorm.weight.add_(0.01),
                         (path(1, "input_layernorm"),)),
    "rotary base": Plant(lambda m: m.model.rotary_emb.inv_freq.mul_(0.98), ("model.rotary_emb",)),
    "q_norm weight": Plant(lambda m: layer(m, 2).self_attn.q_norm.weight.mul_(1.01),
                           (path(2, "self_attn.q_norm"),)),
}

QWEN3_NEXT = {
    "missing +1": Plant(lambda m: without_one(layer(m, 1).post_attention_layernorm),
                        (path(1, "post_attention_layernorm"),)),
    "router": Plant(lambda m: layer(m, 2).mlp.gate.weight.mul_(1.03), (path(2, "mlp.gate"),)),
    "one expert": Plant(lambda m: layer(m, 0).mlp.experts.down_proj[3].mul_(1.05),
                        (path(0, "mlp.experts"),)),
    "shared expert in int8": Plant(lambda m: coarsen(layer(m, 1).mlp.shared_expert.up_proj.weight),
                                   (path(1, "mlp.shared_expert.up_proj"),)),
    "A_log": Plant(lambda m: layer(m, 0).linear_attn.A_log.add_(0.05), (path(0, "linear_attn"),)),
}
