"""Codes and their grid as what a file keeps: arrays by endings of names, and facts.

    ""             the codes: integers, packed bytes, or 8-bit floats
    "_scale"       the scales, float32; float64 for `qint32`
    "_zero_point"  as many zero points, in the type of a code; unless all are 0

Facts are those of `QParams` that are not its defaults: `axis`, `block_size`,
`narrow_range`; the rule of `rounding`; and the `shape` of packed codes, where that of
their bytes is another.
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
SCALE, ZERO_POINT = "_scale", "_zero_point"
_FACTS = {"axis": int, "block_size": int, "narrow_range": bool, "rounding": str}


def parts_of(x: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the facts of a tensor of codes."""
    grid, codes = x.qparams, x.device.to_host(x.buffer)
    parts = {"": codes, SCALE: grid.scale.astype(_scale_type(grid.dtype))}
    if grid.zero_point.any():
        parts[ZERO_POINT] = grid.zero_point.astype(grid.dtype.storage)
    told = {name: getattr(grid, name) for name in _FACTS} | {"rounding": x.rounding}
    facts = {n: v for n, v in told.items() if v is not None and v is not False}
    return parts, facts if x.shape == codes.shape else facts | {"shape": [*x.shape]}


def tensor_of(leaf: Any, parts: dict[str, Array], facts: dict[str, Any]) -> Any:
    """The tensor that `parts_of` took apart.

    Raises:
        StorageError: other parts, facts or element types than it gives.
        GridError, ShapeError, OptionError, CastError: they make no grid, or it does not
            fit the codes.
    """
    for name, given in (("parts", parts), ("facts", facts)):
        if not isinstance(given, Mapping):
            raise StorageError(f"{name} is {shown(given)}", "Pass what to_parts gave")
    facts = dict(facts)
    shape = facts.pop("shape", None)
    grid = _grid(leaf.dtype, parts, facts)
    if leaf.dtype.bits < 8:
        x = _unpacked(leaf, _typed(parts, "", np.dtype(np.uint8)), grid, shape)
    elif shape is None:
        x = leaf.wrap(_typed(parts, "", leaf.dtype.storage), grid)
    else:
        raise StorageError(f"{leaf.dtype} has the shape of its array, and no other")
    if grid.narrow_range:
        check_codes(x.codes.buffer, grid)
    return x


def _grid(dtype: DType, parts: dict[str, Array], facts: dict[str, Any]) -> QParams:
    odd = sorted({*parts} - {"", SCALE, ZERO_POINT} | {*facts} - {*_FACTS})
    if odd or not {"", SCALE} <= {*parts}:
        what = f"not {shown(odd[0])}" if odd else "here one is missing"
        raise StorageError(f"{dtype} is codes on scales, and {what}")
    for name, given in facts.items():
        if type(given) is not _FACTS[name]:
            raise StorageError(f"{name} is {shown(given)}")
    scale = _typed(parts, SCALE, _scale_type(dtype))
    zeros = np.zeros(scale.shape, np.int64)
    if ZERO_POINT in parts:
        zeros = _typed(parts, ZERO_POINT, dtype.storage)
    return QParams(scale, zeros, dtype=dtype, **facts)


def _scale_type(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.float64 if dtype is qint32 else np.float32)


def _typed(parts: dict[str, Array], ending: str, stored: np.dtype[Any]) -> Array:
    found = parts[ending]
    if found.dtype != stored:
        what = ending[1:] or "codes"
        raise StorageError(f"{what} of type {found.dtype}, not {stored}")
    return found


def _unpacked(leaf: Any, packed: Array, grid: QParams, shape: Any) -> Any:
    """The tensor of `shape` whose bytes these are, with a nibble of 0 behind the last
    code of an odd number."""
    sizes = [*packed.shape] if shape is None else shape
    is_shape = isinstance(sizes, list) and all(
        type(size) is int and size >= 0 for size in sizes
    )
    if not is_shape:
        raise StorageError(f"the shape of codes is {shown(shape)}")
    x = leaf.wrap(packed, grid, tuple(sizes))
    is_odd = prod(sizes[-1:]) % 2
    if is_odd and (packed[..., -1:] if sizes else packed).max(initial=0) > 15:
        raise StorageError("there are bits behind the last code")
    return x
