"""16-bit lookup tables: 65,536 codes, rounded once like the 8-bit tables.

The exact function takes seconds for so many codes. Float64 decides all codes whose
error bound does not reach a tie; the exact function decides the rest.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import Float64Tensor
from mdtensor.quant import exact
from mdtensor.quant.lookup.build import Function, steps_of
from mdtensor.quant.qparams import QParams

Codes = npt.NDArray[Any]
Operation = Callable[..., Any]
IntArray = npt.NDArray[np.int64]
#: Bound of the error of a float64 value, relative to it, its argument and options.
ERROR = 2.0**-40
# A float64 function may overflow before the exact one: infinity is clipped to this.
#: Larger numbers saturate on any grid with float32 scales.
FAR = 2.0**1000
_FIRST = -(2**15)


# Float64 fills the table and only near ties are exact, because 65,536 exact values take
# 20 s (decision 0045).
def steps(
    operation: Operation,
    function: Function,
    source: QParams,
    out: QParams,
    options: dict[str, Any],
) -> IntArray:
    """Compute a function for every code of `source`, in order.

    Args:
        operation: the operation on float tensors.
        function: the same function on rational numbers, exact.
        source: a 16-bit grid.
        out: the grid of the results.
        options: options of the operation.

    Returns:
        Rounded numbers of steps of `out` from real 0. They do not saturate at the ends
        of `out`, but are clipped to ±2**40.
    """
    return _table(operation, function, source, out, tuple(options.items()))


# 64 tables of 512 KiB are 32 MiB at most.
@lru_cache(maxsize=64)
def _table(
    operation: Operation,
    function: Function,
    source: QParams,
    out: QParams,
    options: tuple[tuple[str, Any], ...],
) -> IntArray:
    codes = np.arange(_FIRST, -_FIRST)
    reals = codes * float(source.scale)  # 16 bits by 24, which float64 holds
    floats = {name: _float(value) for name, value in options}
    rounded, doubt = _round_floats(operation, reals, out, floats)
    rounded[doubt] = steps_of(function, codes[doubt].tolist(), source, out)
    rounded.flags.writeable = False
    return rounded


def _round_floats(
    operation: Operation, reals: Codes, out: QParams, options: dict[str, Any]
) -> tuple[IntArray, Codes]:
    """Compute the function in float64.

    Returns:
        Rounded numbers of steps of `out`, clipped to ±2**40, and a mask of those that
        the error bound does not decide.
    """
    factors = [abs(v) for v in options.values() if isinstance(v, float)]
    offset, step = abs(options.get("beta", 0.0)), float(out.scale)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values = operation(Float64Tensor.wrap(reals), **options).buffer
        values = np.clip(values, -FAR, FAR)
        sizes = np.abs(values)
        error = ERROR * (sizes + np.abs(reals) * (1 + max(factors, default=0)) + offset)
        # Far beyond the grid the exact value saturates too: no need to compute it.
        is_past = sizes - error >= exact.LARGE * step
        found = np.clip(values / step, -exact.LARGE, exact.LARGE)
        nearest = np.rint(found)
        # Negated comparisons are true for NaN, so that NaN counts as undecided.
        is_near = ~(np.abs(np.abs(found - nearest) - 0.5) > error / step)
        rounded = nearest.astype(np.int64)
    return rounded, ~is_past & (is_near | ~(sizes < FAR))


def _float(value: Any) -> Any:
    """Return an option as the float operation takes it.

    A number beyond the range of float64 becomes its largest finite number.
    """
    if value is None or isinstance(value, str):
        return value
    value = value.item() if isinstance(value, np.generic) else value
    most = float(np.finfo(np.float64).max)
    return float(min(max(value, -most), most))
