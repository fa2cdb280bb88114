"""Dispatch on an enum, as one writes it without typed tensors.

One tensor class carries a `dtype` attribute; an operation looks the pair of dtypes up.
"""

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any

from bench.rivals.kernels import KERNELS, NAMES, Kernel
from bench.rivals.way import Way

DType = Enum("DType", [name.upper() for name in NAMES])  # type: ignore[misc]
IntDType = IntEnum("IntDType", [name.upper() for name in NAMES])  # type: ignore[misc]


class TaggedTensor:
    """A buffer and the name of its element type."""

    __slots__ = ("buffer", "dtype")

    def __init__(self, buffer: Any, dtype: Enum) -> None:
        self.buffer = buffer
        self.dtype = dtype


def tagged(name: str) -> TaggedTensor:
    return TaggedTensor(None, DType[name.upper()])


def int_tagged(name: str) -> TaggedTensor:
    return TaggedTensor(None, IntDType[name.upper()])


def pair_registry(dtypes: type[Enum], kernels: Mapping[str, Kernel]) -> Kernel:
    """A dict keyed by the pair of dtypes: the registry most projects have."""
    table = {
        (dtypes[name.upper()], dtypes[name.upper()]): kernel
        for name, kernel in kernels.items()
    }

    def poke(x1: TaggedTensor, x2: TaggedTensor, /, *, out: Any = None) -> Any:
        try:
            method = table[x1.dtype, x2.dtype]
        except KeyError:
            raise TypeError(f"poke: no kernel for {x1.dtype}, {x2.dtype}") from None
        return method(x1, x2) if out is None else method(x1, x2, out)

    return poke


def match_dispatch(kernels: Mapping[str, Kernel]) -> Kernel:
    """`match` on the pair, as in Cobalt: cases are tried one after the other."""
    float32, float64, float16, int64, int32, int16, uint8, uint16, bool_, int8 = (
        kernels.values()
    )

    def poke(x1: TaggedTensor, x2: TaggedTensor, /, *, out: Any = None) -> Any:
        match (x1.dtype, x2.dtype):
            case (DType.FLOAT32, DType.FLOAT32):
                return float32(x1, x2)
            case (DType.FLOAT64, DType.FLOAT64):
                return float64(x1, x2)
            case (DType.FLOAT16, DType.FLOAT16):
                return float16(x1, x2)
            case (DType.INT64, DType.INT64):
                return int64(x1, x2)
            case (DType.INT32, DType.INT32):
                return int32(x1, x2)
            case (DType.INT16, DType.INT16):
                return int16(x1, x2)
            case (DType.UINT8, DType.UINT8):
                return uint8(x1, x2)
            case (DType.UINT16, DType.UINT16):
                return uint16(x1, x2)
            case (DType.BOOL, DType.BOOL):
                return bool_(x1, x2)
            case (DType.INT8, DType.INT8):
                return int8(x1, x2)
        raise TypeError(f"poke: no kernel for {x1.dtype}, {x2.dtype}")

    return poke


def devices_registry(kernels: Mapping[str, Kernel]) -> Callable[..., Any]:
    """Operation, then device, then the pair of dtypes; as ACTx, which stops at two."""
    device = Enum("Device", ["CPU", "CUDA"])  # type: ignore[misc]
    table = {
        (DType[name.upper()], DType[name.upper()]): kernel
        for name, kernel in kernels.items()
    }
    registry = {"poke": {device.CPU: table}}
    here = device.CPU

    def call(
        operation: str, x1: TaggedTensor, x2: TaggedTensor, /, *, out: Any = None
    ) -> Any:
        try:
            method = registry[operation][here][x1.dtype, x2.dtype]
        except KeyError:
            raise TypeError(f"{operation}: no kernel for {x1.dtype}") from None
        return method(x1, x2) if out is None else method(x1, x2, out)

    return call


ENUM, INT_ENUM = "dict of Enum pairs", "dict of IntEnum pairs"
MATCH = "match on Enum"


def ways() -> list[Way]:
    return [
        Way(ENUM, pair_registry(DType, KERNELS), tagged),
        Way(INT_ENUM, pair_registry(IntDType, KERNELS), int_tagged),
        Way(MATCH, match_dispatch(KERNELS), tagged),
        Way(
            "registry by operation, device, Enum pair",
            devices_registry(KERNELS),
            tagged,
            'call("poke", a, b)',
        ),
    ]
