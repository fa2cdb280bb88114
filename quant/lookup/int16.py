"""Functions of one 16-bit code: tables of 65,536 codes, rounded once as those of 256.

The exact function takes seconds for so many. Float64 decides all codes but those whose
error reaches the middle of two; these alone are decided by rational numbers.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import Float64Tensor
from mdtensor.quant import exact
from mdtensor.quant.lookup.build import Function, steps_of
from mdtensor.quant.qparams import QParams

Codes = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
#: A float64 value errs by less than this part of itself, of its argument and options.
ERROR = 2.0**-40
#: Numbers past this may have saturated to it; every grid of float32 steps ends before.
FAR = 2.0**1000
_FIRST = -(2**15)


# Float64 fills the table and only near ties are exact, because 65,536 exact values take
# 20 s (decision 0045).
def steps(
    operation: Any,
    function: Function,
    source: QParams,
    out: QParams,
    options: dict[str, Any],
) -> IntArray:
    """A function of every code of `source`, in order, in steps of `out` from real 0.

    Args:
        operation: the same function, of floats.
        function: of a rational number, exact.
        source: a grid of 16 bits.
        options: of the operation.

    Returns:
        Steps that may be past the ends of `out`; cut to ±2**40.
    """
    return _table(operation, function, source, out, tuple(options.items()))


@lru_cache(maxsize=64)
def _table(
    operation: Any,
    function: Function,
    source: QParams,
    out: QParams,
    options: tuple[tuple[str, Any], ...],
) -> IntArray:
    codes = np.arange(_FIRST, -_FIRST)
    reals = codes * float(source.scale)  # 16 bits by 24, which float64 holds
    told = {name: _float(value) for name, value in options}
    rounded, doubt = _rounded(operation, reals, out, told)
    rounded[doubt] = steps_of(function, codes[doubt].tolist(), source, out)
    rounded.flags.writeable = False
    return rounded


def _rounded(
    operation: Any, reals: Codes, out: QParams, options: dict[str, Any]
) -> tuple[IntArray, Codes]:
    """The values in steps of `out`, cut to ±2**40, and which of them to doubt."""
    factors = [abs(v) for v in options.values() if isinstance(v, float)]
    offset, step = abs(options.get("beta", 0.0)), float(out.scale)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values = operation(Float64Tensor.wrap(reals), **options).buffer
        values = np.clip(values, -FAR, FAR)
        sizes = np.abs(values)
        error = ERROR * (sizes + np.abs(reals) * (1 + max(factors, default=0)) + offset)
        is_past = sizes - error >= exact.LARGE * step
        found = np.clip(values / step, -exact.LARGE, exact.LARGE)
        nearest = np.rint(found)
        is_near = ~(np.abs(np.abs(found - nearest) - 0.5) > error / step)
        rounded = nearest.astype(np.int64)
    return rounded, ~is_past & (is_near | ~(sizes < FAR))


def _float(value: Any) -> Any:
    """An option as float operations take it; numbers past float64 as the last in it."""
    if value is None or isinstance(value, str):
        return value
    value = value.item() if isinstance(value, np.generic) else value
    most = float(np.finfo(np.float64).max)
    return float(min(max(value, -most), most))
