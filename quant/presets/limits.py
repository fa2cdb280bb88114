"""What libraries refuse, or take to another kernel: no rule is made up for it."""

from typing import Any, NoReturn

import numpy as np

from mdtensor import DType, OptionError
from mdtensor.errors import written
from mdtensor.quant.dtypes import FLOATS, qint8, quint8
from mdtensor.quant.qparams import QParams

#: The grids of qint8 that functions with a bounded range are written to, by operation;
#: of quint8 the zero point is 128 more.
BOUNDED = {"sigmoid": (2.0**-8, -128), "tanh": (2.0**-7, 0), "softmax": (2.0**-8, -128)}


def refuse(rule: str, operation: str, problem: str, fix: str) -> NoReturn:
    """Say what the library does not compute.

    Raises:
        OptionError: always.
    """
    raise OptionError(f"{written('rounding', rule)}: {problem}", fix, operation)


def eight_bits(rule: str, operation: str, *grids: QParams) -> None:
    """8-bit codes in and out."""
    for grid in grids:
        if grid.dtype not in (qint8, quint8):
            fix = "Use qint8 or quint8"
            refuse(rule, operation, f"it has nothing for {grid.dtype}", fix)


def integers(rule: str, operation: str, *grids: QParams) -> None:
    """Codes that are integers."""
    for grid in grids:
        if grid.dtype in FLOATS:
            fix = f"Use an integer type, or {written('rounding', 'exact')}"
            refuse(rule, operation, f"it has nothing for {grid.dtype}", fix)


def one_type(rule: str, operation: str, *grids: QParams) -> None:
    """Codes of one 8-bit type in and out."""
    eight_bits(rule, operation, *grids)
    kinds = {grid.dtype for grid in grids}
    if len(kinds) > 1:
        names = " and ".join(sorted(str(kind) for kind in kinds))
        refuse(rule, operation, f"it mixes {names}", "Use one 8-bit type for all")


def one_scale(rule: str, operation: str, *grids: QParams) -> None:
    """One grid a tensor."""
    if any(grid.axis is not None for grid in grids):
        problem = "it has one scale for a whole tensor"
        refuse(rule, operation, problem, f"Use {written('rounding', 'exact')} here")


def one_scale_each(rule: str, operation: str, grid: QParams, outputs: int) -> None:
    """Weights with one scale for each index of the axis `outputs`, or one."""
    if not grid.is_along(None, outputs):
        problem = "its weights have one scale for each output"
        refuse(rule, operation, problem, f"Use {written('rounding', 'exact')} here")


def one_shape(rule: str, operation: str, *tensors: Any) -> None:
    """No broadcasting."""
    if len({x.shape for x in tensors}) > 1:
        fix = "Broadcast the arguments first"
        refuse(rule, operation, "its order of roundings depends on the shapes", fix)


def one_grid(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """What works on raw codes."""
    if source != out:
        problem = f"it keeps the grid, ({source.describe()})"
        refuse(rule, operation, problem, "Use out=x.qparams, then requantize")


def laid(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """What lays codes of qint8 end to end as they are."""
    if out.dtype is qint8 and source != out:
        problem = f"its qint8 is on one grid, not also ({source.describe()})"
        refuse(rule, operation, problem, "Requantize to out= first, or use quint8")


def bounded_grid(operation: str, dtype: DType) -> QParams:
    """The grid that the function is written to, of an 8-bit type."""
    scale, zero = BOUNDED[operation]
    return QParams(scale, zero + (128 if dtype is quint8 else 0), dtype=dtype)


def bounded(rule: str, operation: str, out: QParams) -> None:
    """A function whose grid the library fixes."""
    wanted = bounded_grid(operation, out.dtype)
    if out != wanted:
        refuse(rule, operation, f"it writes to {wanted} only", "Use that as out=")


def symmetric(rule: str, operation: str, x: Any, w: Any) -> None:
    """Weights of qint8 with zero point 0, or quint8 of one scale beside quint8."""
    if w.dtype is qint8 and not w.qparams.zero_point.any():
        return
    if w.dtype is not quint8 or x.dtype is not quint8:
        problem = "its weights are qint8 with zero point 0, or quint8 by quint8"
        refuse(rule, operation, problem, "Quantize them symmetrically")
    one_scale(rule, operation, w.qparams)


def within(rule: str, operation: str, ratio: Any, low: float, high: float) -> None:
    """A ratio of scales, low <= ratio < high."""
    ratios = np.atleast_1d(np.asarray(ratio, np.float64))
    outside = ratios[~((ratios >= low) & (ratios < high))]
    if outside.size:
        problem = f"a ratio of scales is {outside[0]:.6g}, not in [{low:g}, {high:g})"
        refuse(rule, operation, problem, "Use scales that are nearer to each other")


def near_products(rule: str, operation: str, x: Any, w: Any, out: QParams) -> None:
    """Scales of products that XNNPACK takes to those of their sums."""
    ratio = x.qparams.scale * w.qparams.scale / out.scale
    within(rule, operation, ratio, 2.0**-32, 2.0**8)
