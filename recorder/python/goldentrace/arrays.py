"""Arrays of numpy and torch as the C interface takes them: a pointer, a dtype, sizes and strides.
Imports torch only where a caller's tensor shows that it is there already."""

import sys

import numpy

from goldentrace.capi import DTYPES

NO_NUMPY = ("numpy has no {0}: install ml_dtypes, or use .torch() or .bytes()")


class Described:
    """What a C struct says of an array. Keeps the memory alive."""

    def __init__(self, owner, pointer, dtype, sizes, strides):
        self.owner, self.pointer, self.dtype = owner, pointer, dtype
        self.sizes, self.strides = tuple(sizes), tuple(strides)


def describe(array, dtype=None):
    """`dtype` names what the bits are where the array's own type can't say it: "bfloat16" for a
    numpy array of uint16. Tensors on another device are copied to the host first."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        described = _describe_torch(torch, array)
    else:
        described = _describe_numpy(numpy.asarray(array))
    if dtype is not None:
        if dtype not in DTYPES:
            raise TypeError(f"{dtype!r} is no dtype of a trace")
        if item_size(dtype) != item_size(described.dtype):
            raise TypeError(f"bits of {described.dtype} are not those of {dtype}")
        described.dtype = dtype
    return described


def item_size(dtype):
    special = {"bool": 1, "bfloat16": 2, "complex32": 4, "complex64": 8, "complex128": 16}
    if dtype in special:
        return special[dtype]
    return 1 if dtype.startswith("float8") else int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


def _describe_torch(torch, tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout != torch.strided or tensor.is_quantized or name not in DTYPES:
        raise TypeError(f"a trace holds no {tensor.layout} tensor of {tensor.dtype}")
    tensor = tensor.detach()
    if tensor.device.type == "meta":
        raise TypeError("a meta tensor has no elements")
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    return Described(tensor, tensor.data_ptr() or None, name, tensor.shape, tensor.stride())


def _describe_numpy(array):
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    name = array.dtype.name
    if name not in DTYPES:
        raise TypeError(f"a trace holds no array of {array.dtype}")
    if any(stride % array.itemsize for stride in array.strides):
        array = numpy.ascontiguousarray(array)
    strides = [stride // array.itemsize for stride in array.strides]
    return Described(array, array.ctypes.data or None, name, array.shape, strides)


def numpy_dtype(name):
    """numpy's dtype of a trace's; TypeError where there is none."""
    if name in ("bfloat16",) or name.startswith("float8"):
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(NO_NUMPY.format(name)) from None
        return numpy.dtype(getattr(ml_dtypes, name))
    if name == "complex32":
        raise TypeError("numpy has no complex32: use .torch() or .bytes()")
    return numpy.dtype(name)
