"""goldentrace: record eager PyTorch op by op into a trace.

    import goldentrace
    with goldentrace.record("out.fb", model=model) as recording:
        model(ids)                # step 0, the prefill
        recording.step(1)
        model(next_id)            # step 1

Everything of substance happens in C++; this layer hands over names and JSON.
"""

from goldentrace.native import RecordingError, tensor_hash
from goldentrace.recording import Recording, record

__all__ = ["Recording", "RecordingError", "record", "tensor_hash"]
