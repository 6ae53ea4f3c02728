"""goldentrace: record eager PyTorch op by op into a trace.

    import goldentrace
    with goldentrace.record("out.fb", model=model) as recording:
        model(ids)                # step 0, the prefill
        recording.step(1)
        model(next_id)            # step 1

Traces of any engine, without torch: goldentrace.Writer writes one, goldentrace.open reads one.

Everything of substance happens in C++; this layer hands over names and JSON. Importing it costs
nothing: torch is loaded by what needs it.
"""

import importlib

# Name: the module that it comes from.
_NAMES = {"Recording": "recording", "RecordingError": "recording", "record": "recording",
          "tensor_hash": "recording", "Writer": "writer", "open": "reader", "TraceError": "capi"}
__all__ = [name for name in _NAMES if name != "open"]  # which * must not hide


def __getattr__(name):
    if name not in _NAMES:
        raise AttributeError(f"module 'goldentrace' has no attribute {name!r}")
    return getattr(importlib.import_module("goldentrace." + _NAMES[name]), name)
