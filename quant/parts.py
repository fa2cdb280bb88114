"""The parts of a quantized tensor that a file stores: arrays, by endings, and facts.

    ""             the codes: integers, packed bytes, or 8-bit floats
    "_scale"       the scales, float32; float64 for `qint32`
    "_zero_point"  one for each scale, in the type of a code; omitted if all are 0

Facts are the fields of `QParams` that differ from their defaults, the rule of
`rounding`, and the `shape` of packed codes, if the array of bytes has another one.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import DType, StorageError
from mdtensor.errors import shown
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.qparams import QParams
from mdtensor.quant.qparams_checks import check_codes

Array = npt.NDArray[Any]
Parts = dict[str, Array]
SCALE, ZERO_POINT = "_scale", "_zero_point"
_FACTS = {"axis": int, "block_size": int, "narrow_range": bool, "rounding": str}


def parts_of(x: Any) -> tuple[Parts, dict[str, Any]]:
    """Return the arrays and the facts of a tensor."""
    grid, codes = x.qparams, x.device.to_host(x.buffer)
    parts = {"": codes, SCALE: grid.scale.astype(_scale_dtype(grid.dtype))}
    if grid.zero_point.any():
        parts[ZERO_POINT] = grid.zero_point.astype(grid.dtype.storage)
    # The grid of a tensor does not carry a rule; the tensor does.
    fields = {name: getattr(grid, name) for name in _FACTS} | {"rounding": x.rounding}
    facts = {n: v for n, v in fields.items() if v is not None and v is not False}
    return parts, facts if x.shape == codes.shape else facts | {"shape": [*x.shape]}


def tensor_of(tensor_type: Any, parts: Parts, facts: dict[str, Any]) -> Any:
    """Return the tensor with these `parts_of`.

    Raises:
        StorageError: the parts, facts or element types are not as `parts_of` returns.
        GridError, ShapeError, OptionError, CastError: the grid is invalid, or it does
            not fit the codes.
    """
    for name, given in (("parts", parts), ("facts", facts)):
        if not isinstance(given, Mapping):
            raise StorageError(f"{name} is {shown(given)}", "Pass a result of to_parts")
    # A copy, because the shape is removed from it.
    facts = dict(facts)
    shape = facts.pop("shape", None)
    grid = _grid(tensor_type.dtype, parts, facts)
    if tensor_type.dtype.bits < 8:
        packed = _require_dtype(parts, "", np.dtype(np.uint8))
        x = _wrap_bytes(tensor_type, packed, grid, shape)
    elif shape is None:
        codes = _require_dtype(parts, "", tensor_type.dtype.storage)
        x = tensor_type.wrap(codes, grid)
    else:
        problem = f"{tensor_type.dtype} takes its shape from its array"
        raise StorageError(problem, "Omit the fact shape")
    # Only a narrow range excludes a code that the array can store.
    if grid.narrow_range:
        check_codes(x.codes.buffer, grid)
    return x


def _grid(dtype: DType, parts: Parts, facts: dict[str, Any]) -> QParams:
    odd = sorted({*parts} - {"", SCALE, ZERO_POINT} | {*facts} - {*_FACTS})
    if odd:
        raise StorageError(f"{dtype} does not have the part or fact {shown(odd[0])}")
    if not {"", SCALE} <= {*parts}:
        raise StorageError(f"{dtype} needs codes and scales, and one is missing")
    for name, given in facts.items():
        if type(given) is not _FACTS[name]:
            raise StorageError(f"{name} is {shown(given)}")
    scale = _require_dtype(parts, SCALE, _scale_dtype(dtype))
    zeros = np.zeros(scale.shape, np.int64)
    if ZERO_POINT in parts:
        zeros = _require_dtype(parts, ZERO_POINT, dtype.storage)
    return QParams(scale, zeros, dtype=dtype, **facts)


def _scale_dtype(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.float64 if dtype is qint32 else np.float32)


def _require_dtype(parts: Parts, ending: str, stored: np.dtype[Any]) -> Array:
    found = parts[ending]
    if found.dtype != stored:
        what = ending[1:] or "codes"
        raise StorageError(f"{what} of type {found.dtype}, not {stored}")
    return found


def _wrap_bytes(tensor_type: Any, packed: Array, grid: QParams, shape: object) -> Any:
    """Return the tensor of `shape` around packed bytes, if they are valid."""
    sizes = [*packed.shape] if shape is None else shape
    if not isinstance(sizes, list) or not all(
        type(size) is int and size >= 0 for size in sizes
    ):
        raise StorageError(f"the shape of codes is {shown(shape)}")
    x = tensor_type.wrap(packed, grid, tuple(sizes))
    # After an odd number of codes, the last nibble of a row is padding and must be 0.
    is_odd = prod(sizes[-1:]) % 2
    if is_odd and (packed[..., -1:] if sizes else packed).max(initial=0) > 15:
        raise StorageError("there are bits after the last code")
    return x
