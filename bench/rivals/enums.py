"""The rivals: dispatch on element types as one writes it without typed tensors.

One tensor class carries a `dtype` attribute; an operation looks the pair of dtypes up.
All of them end in the same kernel as mdtensor's methods do, with the same unused
`out=None`, so a difference in time is a difference in dispatch.
"""

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

Kernel = Callable[[Any, Any], Any]
NAMES = ("BOOL", "INT8", "INT16", "INT32", "INT64")
NAMES += ("UINT8", "UINT16", "FLOAT16", "FLOAT32", "FLOAT64")

DType = Enum("DType", NAMES)  # type: ignore[misc]
IntDType = IntEnum("IntDType", NAMES)  # type: ignore[misc]


class TaggedTensor:
    """A buffer and the name of its element type."""

    __slots__ = ("buffer", "dtype")

    def __init__(self, buffer: Any, dtype: Enum) -> None:
        self.buffer = buffer
        self.dtype = dtype


def pair_registry(dtypes: type[Enum], kernel: Kernel) -> Callable[..., Any]:
    """A dict keyed by the pair of dtypes: the registry most projects have."""
    table: dict[tuple[Enum, Enum], Kernel] = {
        (first, second): kernel for first in dtypes for second in dtypes
    }

    def poke(x1: TaggedTensor, x2: TaggedTensor, /, *, out: Any = None) -> Any:
        try:
            method = table[x1.dtype, x2.dtype]
        except KeyError:
            raise TypeError(f"poke: no kernel for {x1.dtype}, {x2.dtype}") from None
        return method(x1, x2) if out is None else method(x1, x2, out)

    return poke


def match_dispatch(kernel: Kernel) -> Callable[..., Any]:
    """`match` on the pair: cases are tried one after the other."""

    def poke(x1: TaggedTensor, x2: TaggedTensor, /, *, out: Any = None) -> Any:
        match (x1.dtype, x2.dtype):
            case (DType.FLOAT32, DType.FLOAT32):
                return kernel(x1, x2)
            case (DType.FLOAT64, DType.FLOAT64):
                return kernel(x1, x2)
            case (DType.FLOAT16, DType.FLOAT16):
                return kernel(x1, x2)
            case (DType.INT64, DType.INT64):
                return kernel(x1, x2)
            case (DType.INT32, DType.INT32):
                return kernel(x1, x2)
            case (DType.INT16, DType.INT16):
                return kernel(x1, x2)
            case (DType.UINT8, DType.UINT8):
                return kernel(x1, x2)
            case (DType.UINT16, DType.UINT16):
                return kernel(x1, x2)
            case (DType.BOOL, DType.BOOL):
                return kernel(x1, x2)
            case (DType.INT8, DType.INT8):
                return kernel(x1, x2)
        raise TypeError(f"poke: no kernel for {x1.dtype}, {x2.dtype}")

    return poke


def class_pairs(types: tuple[type, ...], kernel: Kernel) -> Callable[..., Any]:
    """A dict keyed by the pair of classes."""
    table = {(first, second): kernel for first in types for second in types}

    def poke(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
        method = table[type(x1), type(x2)]
        return method(x1, x2) if out is None else method(x1, x2, out)

    return poke


def nested_classes(types: tuple[type, ...], kernel: Kernel) -> Callable[..., Any]:
    """A dict of dicts keyed by class: no tuple to build, no hash to combine."""
    table = {first: dict.fromkeys(types, kernel) for first in types}

    def poke(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
        method = table[type(x1)][type(x2)]
        return method(x1, x2) if out is None else method(x1, x2, out)

    return poke
