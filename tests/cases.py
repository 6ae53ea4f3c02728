"""The run that the golden trace is made from, and the shape of the other tiny models."""

import random

PROMPT = random.Random(1).choices(range(1000), k=100)
NEW_TOKENS = 9  # prefill and 8 decode steps
SMALL = dict(vocab_size=1024, hidden_size=128, intermediate_size=256, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512, bos_token_id=None,
             eos_token_id=1023, pad_token_id=1021)
