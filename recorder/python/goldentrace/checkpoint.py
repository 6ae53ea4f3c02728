"""How a model's parameters come from its safetensors checkpoint."""

import enum
import json
import pathlib


class Recipe(enum.IntEnum):
    """Numbers of the trace format; see schema/FORMAT.md."""

    VALUE = 0
    SAME = 1
    CAST = 2
    TIED = 3
    STACK = 4
    CONCAT = 5


class Checkpoint:
    """The tensors of a model folder, read one at a time."""

    def __init__(self, folder):
        from safetensors import safe_open  # a script without checkpoints need not have it

        folder = pathlib.Path(folder)
        index = folder / "model.safetensors.index.json"
        if index.exists():
            shards = sorted(set(json.loads(index.read_text())["weight_map"].values()))
            files = [folder / shard for shard in shards]
        else:
            files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"{folder}: holds no .safetensors file")
        self._file_of = {}
        for file in files:
            handle = safe_open(file, framework="pt")
            for name in handle.keys():
                self._file_of[name] = handle
        self._hashes = None

    def _tensor(self, name):
        return self._file_of[name].get_tensor(name)

    def recipe(self, name, tensor):
        """(Recipe, source names) that reproduce `tensor`, proven by hash; VALUE when none does."""
        from goldentrace.recording import tensor_hash

        want = tensor_hash(tensor)
        if name in self._file_of:
            source = self._tensor(name)
            if source.dtype == tensor.dtype and tensor_hash(source) == want:
                return Recipe.SAME, [name]
            if source.dtype != tensor.dtype and tensor_hash(source.to(tensor.dtype)) == want:
                return Recipe.CAST, [name]
        # Under another name: prefixes differ between classes of one architecture.
        if self._hashes is None:
            self._hashes = {}
            for other in self._file_of:
                self._hashes.setdefault(tensor_hash(self._tensor(other)), other)
        source = self._hashes.get(want)
        if source is not None and self._tensor(source).dtype == tensor.dtype:
            return Recipe.SAME, [source]
        return Recipe.VALUE, []
