"""The ways out that an error names: those alone after which a method is found.

A way brings other types: `dequantize(q)` has float32 where codes were. Methods and
their deduction are asked whether they take these; nothing is computed.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import mdtensor as md
from mdtensor import (
    BoolTensor,
    CastError,
    DispatchError,
    Float32Tensor,
    MdtensorError,
    PromotionError,
    ShapeError,
    Tensor,
    UInt8Tensor,
    dtype,
    leaf,
)
from mdtensor.quant.dtypes import FLOATS
from mdtensor.quant.tensor import QuantizedTensor

#: Of matrices, and of images.
SHAPES = ((2, 2), (2, 2, 2, 2))
#: What stands before the operands of an operation and is none.
BEFORE = {"where": (BoolTensor,)}
#: In words, and what becomes of the type of an argument.
Way = tuple[str, Callable[[Any, Any], Any]]


def is_codes(kind: Any) -> bool:
    return issubclass(kind, QuantizedTensor)


def _codes(kind: Any, _: Any) -> Any:
    """The type of `q.codes`."""
    if not is_codes(kind):
        return kind
    return UInt8Tensor if kind.dtype in FLOATS else leaf(dtype(kind.dtype.storage.name))


def _numbers(kind: Any, _: Any) -> Any:
    return Float32Tensor if is_codes(kind) else kind


DEQUANTIZE: Way = ("dequantize(q)", _numbers)
QUANTIZE: Way = (
    "quantize(x, q.qparams)",
    lambda kind, codes: kind if is_codes(kind) else codes,
)
QUANTIZE_NUMBER: Way = ("quantize(asarray(float(c)), q.qparams)", QUANTIZE[1])
CODES: Way = ("q.codes for arithmetic on codes", _codes)
WRAP: Way = ("type(q)(codes, q.qparams)", QUANTIZE[1])
FLOATS_BOTH: Way = ("dequantize(q) beside astype(x, float32)", lambda *_: Float32Tensor)
MAGNITUDES: Way = ("dequantize(q) beside abs(x)", FLOATS_BOTH[1])


def advise(name: str, kinds: Sequence[Any], *ways: Way) -> str:
    """`Use dequantize(q), or quantize(x, q.qparams)`: those that lead on."""
    codes = next(filter(is_codes, kinds))
    found = [
        words
        for words, change in ways
        if _is_taken(name, [change(kind, codes) for kind in kinds])
    ]
    return f"Use {', or '.join(found)}" if found else ""


def _is_taken(name: str, kinds: Sequence[Any]) -> bool:
    """Whether arguments of these types have a result, for some shapes and grids."""
    try:
        kinds = (*BEFORE.get(name, ()), *kinds)
        deduce = getattr(md, name).select(*kinds).deduce
        for shape in SHAPES:
            with suppress(ShapeError):
                deduce(*(_example(kind, shape) for kind in kinds))
    except (DispatchError, PromotionError, CastError):
        return False
    except MdtensorError:  # of grids, or `out=`, which are not those of the call
        return True
    return True


@cache
def _example(kind: Any, shape: tuple[int, ...]) -> Any:
    return kind.spec(shape) if issubclass(kind, Tensor) else kind(1)
