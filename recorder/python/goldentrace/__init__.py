"""goldentrace: record eager PyTorch op by op into a trace.

    import goldentrace
    with goldentrace.record("out.fb", model=model) as recording:
        model(ids)                # step 0, the prefill
        recording.step(1)
        model(next_id)            # step 1

Everything of substance happens in C++; this layer hands over names and JSON. Importing it costs
nothing: torch is loaded by what needs it.
"""

__all__ = ["Recording", "RecordingError", "record", "tensor_hash"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module 'goldentrace' has no attribute {name!r}")
    from goldentrace import recording
    return getattr(recording, name)
