"""How a model's parameters come from its safetensors checkpoint."""

import enum
import json
import math
import pathlib

import torch

from goldentrace import native
from goldentrace.hashes import HashCache

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
            "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
            "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
            "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8,
            "BOOL": torch.bool}


class Recipe(enum.IntEnum):
    """Numbers of the trace format; see schema/FORMAT.md."""

    VALUE = 0
    SAME = 1
    CAST = 2
    TIED = 3
    STACK = 4
    CONCAT = 5


class _Source:
    """A tensor of the checkpoint; its bytes are read only when its hash is not known yet."""

    def __init__(self, name, handle, about, cache):
        self.name = name
        self.dtype = _DTYPES.get(about["dtype"])
        self.shape = tuple(about["shape"])
        self._handle, self._about, self._cache = handle, about, cache

    def hash_as(self, dtype):
        """Its `hash` after conversion to `dtype`; None where no conversion is sensible."""
        if dtype == self.dtype:
            known, key = self._about, "hash"
        elif self.dtype is not None and self.dtype.is_floating_point and dtype.is_floating_point:
            known, key = self._about["cast"], str(dtype).removeprefix("torch.")
        else:
            return None
        if key not in known:
            known[key] = f"{native.tensor_hash(self._handle.get_tensor(self.name).to(dtype)):032x}"
            self._cache.changed = True
        return int(known[key], 16)


class Checkpoint:
    """The tensors of a model folder, found by name or by their bytes.

    Their hashes are kept in a file of the folder (goldentrace.hashes), where it can be written."""

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
        self._cache = HashCache(folder)
        self._sources = {}
        self._by_size = {}  # number of elements -> sources
        self._by_hash = {}  # (dtype, number of elements) -> {hash: {shape: source}}
        for file in files:
            handle = safe_open(file, framework="pt")
            for name, about in self._cache.tensors(file).items():
                self._sources[name] = _Source(name, handle, about, self._cache)
        for source in self._sources.values():
            self._by_size.setdefault(math.prod(source.shape), []).append(source)

    def save(self):
        """Keeps the hashes that were computed so far for the next run."""
        self._cache.save()

    def recipe(self, name, tensor, want=None):
        """(Recipe, source names) that reproduce `tensor`, proven by hash; VALUE when none does.

        `want` is the tensor's hash where the caller has it."""
        source = self._find(tensor, name, want)
        if source is None:
            return self._fused(tensor) or (Recipe.VALUE, [])
        if source.shape != tuple(tensor.shape):
            return Recipe.CONCAT, [source.name]
        return (Recipe.SAME if source.dtype == tensor.dtype else Recipe.CAST), [source.name]

    def _find(self, tensor, name=None, want=None):
        """The source with the elements of `tensor`, best the one of its name and of its shape."""
        shape, size = tuple(tensor.shape), tensor.numel()
        if size not in self._by_size:
            return None
        want = native.tensor_hash(tensor) if want is None else want
        named = self._sources.get(name)
        if named and named.shape == shape and named.hash_as(tensor.dtype) == want:
            return named
        # Under another name: prefixes differ between classes of one architecture.
        key = tensor.dtype, size
        if key not in self._by_hash:
            found = self._by_hash[key] = {}
            for source in self._by_size[size]:
                found.setdefault(source.hash_as(tensor.dtype), {}).setdefault(source.shape, source)
        by_shape = self._by_hash[key].get(want, {})
        return by_shape.get(shape) or next(iter(by_shape.values()), None)

    def _halves(self, tensor):
        """Sources of both halves along the first dimension, or None."""
        if tensor.shape[0] % 2 or tensor.shape[0] == 0:
            return None
        found = []
        for half in tensor.chunk(2):
            found.append(self._find(half))
            if found[-1] is None:
                return None
        return found

    def _fused(self, tensor):
        """The recipe of a parameter that was put together at load, as experts are: of two halves,
        or of slices along the first dimension, each whole or of two halves."""
        if tensor.dim() == 0 or tensor.numel() == 0:
            return None
        if halves := self._halves(tensor):
            return Recipe.CONCAT, [source.name for source in halves]
        if tensor.dim() == 1:
            return None
        sources, stacked = [], True
        for piece in tensor:
            whole = self._find(piece)
            parts = [whole] if whole else self._halves(piece)
            if parts is None:
                return None
            stacked = stacked and whole is not None and whole.shape == tuple(piece.shape)
            sources += parts
        return (Recipe.STACK if stacked else Recipe.CONCAT), [source.name for source in sources]
