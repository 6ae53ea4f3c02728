"""What a recording has to know of a model's parameters: their hashes and how they are made."""

from goldentrace import native
from goldentrace.checkpoint import Recipe


def _state(tensor):
    """Changes whenever PyTorch sees that the tensor was written or replaced; None: it can't see."""
    try:
        version = tensor._version
    except RuntimeError:  # inference tensors count no writes
        return None
    return (tensor.data_ptr(), version, tensor.dtype, tuple(tensor.shape), tensor.stride())


class KnownParameters:
    """Hashes and recipes of one loaded model, worked out once and used by all its recordings.

    A tensor that was written in place or replaced is worked out anew. Writes through `.data` are not
    seen: for models whose owner makes none. Without a `checkpoint` everything is stored by value."""

    def __init__(self, checkpoint=None):
        self._checkpoint = checkpoint
        self._known = {}  # name -> (state, answer)

    def of(self, name, tensor):
        """(hash, Recipe, source names). No hash where the bytes are stored, and so read, anyway."""
        state = _state(tensor)
        if state is not None and name in self._known and self._known[name][0] == state:
            return self._known[name][1]
        answer = None, Recipe.VALUE, []
        if self._checkpoint is not None:
            digest = native.tensor_hash(tensor)
            recipe, sources = self._checkpoint.recipe(name, tensor, digest)
            answer = (None if recipe == Recipe.VALUE else digest), recipe, sources
        self._known[name] = state, answer
        return answer

    def save(self):
        """Keeps the checkpoint's hashes for the next load."""
        if self._checkpoint is not None:
            self._checkpoint.save()
