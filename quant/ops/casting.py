"""astype: from one grid to another, and nowhere else.

Numbers are at `dequantize(x)`, codes at `x.codes`: a cast that gave either would
have to guess.
"""

from fractions import Fraction
from typing import Any, Union

import numpy as np

from mdtensor import (
    CastError,
    DeviceError,
    DType,
    GridError,
    OptionError,
    TensorSpec,
    astype,
    cpu,
    dtype as find_dtype,
    equal,
    method,
)
from mdtensor.errors import checked, describe, shown
from mdtensor.quant import rounding
from mdtensor.quant.deduction import check_fit, on_grid
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.generics import requantize
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, spec_of
from mdtensor.spec.options import flag

POLICIES = ("exact", "check", "saturate")


def _target(x: TensorSpec, dtype: Any) -> QParams:
    """The grid that is meant: one, or that of `x` by its own type."""
    if isinstance(dtype, QParams):
        return dtype
    found = find_dtype(dtype)
    if found is x.dtype:
        own: QParams = x.qparams
        return own
    if found.kind == "quantized":
        raise GridError(
            f"{found} alone is no grid", f"Use QParams(scale, dtype={found})"
        )
    if found.is_floating:
        fix = "Use dequantize(x), and cast what it gives"
        raise CastError(f"a grid is no {found}", fix)
    fix = "Use x.codes, or cast dequantize(x)"
    raise CastError(f"are codes or numbers meant by {found}", fix)


def cast_spec(
    x: TensorSpec,
    dtype: Any,
    *,
    copy: Any = True,
    device: Any = None,
    casting: Any = "check",
) -> TensorSpec:
    """The same shape on the grid `dtype`."""
    flag(copy, "copy")
    grid = _target(x, dtype)
    if not (isinstance(casting, str) and casting in POLICIES):
        fix = f"Use {', '.join(POLICIES)}"
        raise OptionError(f"casting is {shown(casting)}", fix)
    is_cpu = device is cpu or (isinstance(device, str) and device == cpu.name)
    if device is not None and not is_cpu:
        raise DeviceError(f"no grid on {shown(device)} yet", "Leave device= away")
    check_fit(grid, x.shape)
    return on_grid(x.shape, grid)


@method(astype, deduce=cast_spec)
def astype(
    x: QuantizedTensor,
    dtype: Union[DType, str, type, np.dtype, QParams],
    /,
    *,
    copy: bool,
    device: Any,
    casting: str,
) -> Any:
    options = {"copy": copy, "device": device, "casting": casting}
    rule = astype.select(type(x), type(dtype)).deduce
    grid = checked("astype", (x,), lambda: rule(spec_of(x), dtype, **options)).qparams
    if grid == x.qparams:
        return x.__deepcopy__(None) if copy else x
    found = requantize(x, out=grid)
    lost = _lost(x, found, casting)
    if lost.any():
        verb = "are not on" if casting == "exact" else "lie outside of"
        raise CastError(
            f"{np.count_nonzero(lost)} of {x.size} numbers {verb} "
            f"({grid.describe_range()})",
            "Use requantize, which rounds and saturates",
            describe("astype", x),
        )
    return found


def _lost(x: Any, found: Any, casting: str) -> Any:
    """Which numbers a policy refuses to bring to their codes in `found`."""
    if casting == "saturate":
        return np.zeros(x.shape, bool)
    if casting == "exact":
        return _differs(x, found)
    if x.dtype in FLOATS or found.dtype in FLOATS:
        grid = found.qparams
        ends = (grid.minimum - grid.zero_point, grid.maximum - grid.zero_point)
        low, high = (grid.along(end * grid.scale, x.shape) for end in ends)
        numbers = rounding.reals(x)
        return (numbers < low) | (numbers > high)
    return rounding.is_past(x, found.qparams)


def _differs(x: Any, found: Any) -> Any:
    """Where two tensors of one shape hold different numbers."""
    grids = x.qparams, found.qparams
    has_many = any(grid.axis is not None or grid.dtype in FLOATS for grid in grids)
    if qint32 not in (x.dtype, found.dtype) or not has_many:
        return ~np.asarray(equal(x, found))
    pairs = zip(_fractions(x), _fractions(found), strict=True)
    return np.array([a != b for a, b in pairs], bool).reshape(x.shape)


def _fractions(x: Any) -> list[Fraction]:
    """The numbers of accumulators and of what they became."""
    is_float = x.dtype in FLOATS
    steps = x.buffer.astype(np.float64) if is_float else rounding.steps_of(x)
    scales = np.broadcast_to(x.qparams.along(x.qparams.scale, x.shape), x.shape)
    rows = zip(steps.ravel().tolist(), scales.ravel().tolist(), strict=True)
    return [Fraction(step) * Fraction(scale) for step, scale in rows]
