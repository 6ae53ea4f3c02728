"""Hashes of a checkpoint's tensors, kept in one file beside it, so that they are computed once.

    {"version": 1, "files": {"model.safetensors": {
        "size": 1234, "mtime_ns": 5678, "header": SHA-256 of the header's bytes,
        "tensors": {NAME: {"dtype": "BF16", "shape": [2, 3], "hash": 32 hexadecimal digits,
                           "cast": {"float32": hash after conversion to that dtype}}}}}}

A file that is not the one described is described anew. Whatever is damaged is ignored, and where the
folder can't be written nothing is kept: the hashes are a matter of speed alone."""

import contextlib
import hashlib
import json
import os
import re
import tempfile

FILE_NAME = "goldentrace.hashes.json"
_VERSION = 1
_MAX_HEADER = 100_000_000  # bytes, as safetensors itself allows
_HASH = re.compile("[0-9a-f]{32}")


def _read_header(file):
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if size > _MAX_HEADER:
            raise ValueError(f"{file}: is no safetensors file")
        return opened.read(size)


def _is_hash(value):
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


class HashCache:
    """The hashes of one model folder; `tensors` is to be filled in place."""

    def __init__(self, folder):
        self._path = folder / FILE_NAME
        self._files = {}
        self.changed = False
        self._kept = {}
        with contextlib.suppress(OSError, ValueError, RecursionError):
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            if isinstance(kept, dict) and kept.get("version") == _VERSION:
                self._kept = kept.get("files")

    def tensors(self, file):
        """{name: {"dtype", "shape", and "hash" and "cast" as far as known}} of a safetensors file."""
        stat = file.stat()
        header = _read_header(file)
        entry = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns,
                 "header": hashlib.sha256(header).hexdigest()}
        tensors = {name: {"dtype": about["dtype"], "shape": about["shape"], "cast": {}}
                   for name, about in json.loads(header).items() if name != "__metadata__"}
        kept = self._kept.get(file.name) if isinstance(self._kept, dict) else None
        if isinstance(kept, dict) and all(kept.get(key) == entry[key] for key in entry):
            _fill(tensors, kept.get("tensors"))
        entry["tensors"] = tensors
        self._files[file.name] = entry
        return tensors

    def save(self):
        """Writes what was found out since, all or nothing."""
        if not self.changed:
            return
        self.changed = False
        text = json.dumps({"version": _VERSION, "files": self._files})
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(prefix=FILE_NAME, dir=self._path.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(name, 0o644)
                os.replace(name, self._path)
            except BaseException:
                os.unlink(name)
                raise


def _fill(tensors, kept):
    """Takes over what `kept` knows about `tensors`, entry by entry."""
    if not isinstance(kept, dict):
        return
    for name, tensor in tensors.items():
        old = kept.get(name)
        if not isinstance(old, dict) or any(old.get(k) != tensor[k] for k in ("dtype", "shape")):
            continue
        if _is_hash(old.get("hash")):
            tensor["hash"] = old["hash"]
        if isinstance(old.get("cast"), dict):
            tensor["cast"] = {k: v for k, v in old["cast"].items() if _is_hash(v)}
