"""float32 arrays whose function is compiled, the one that plans of networks run.

NumPy's own functions round otherwise, and otherwise on another CPU (decision 0067).
Narrow floats run it in float32 and are rounded once; float64 and complex types stay
NumPy's. The compiler or the library of kernels is loaded at the first call of such a
function, not by `import mdtensor`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import joint_shape, quietly
from mdtensor.kernels.numpy.float16 import FLOAT32, is_narrow, round_to, unary, widen

Array = npt.NDArray[Any]

#: NumPy's functions that have a compiled one, and its name.
COMPILED = {
    np.exp: "exp",
    np.log: "log",
    np.tanh: "tanh",
    np.sin: "sin",
    np.cos: "cos",
    np.expm1: "expm1",
    np.log2: "log2",
    np.log10: "log10",
    np.tan: "tan",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan: "atan",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.arcsinh: "asinh",
    np.arccosh: "acosh",
    np.arctanh: "atanh",
}
#: NumPy's functions of two float32 that have a compiled one.
PAIRS: dict[Any, str] = {
    np.arctan2: "atan2",
    np.logaddexp: "logaddexp",
    np.remainder: "remainder",
    np.floor_divide: "floor_divide",
}
#: Those with the bytes of NumPy, which takes less time for fewer elements.
EQUAL = frozenset({np.remainder, np.floor_divide})
FEW = 1 << 9
#: Calls whose elements depend on a row; others are computed element by element.
BY_ROWS = frozenset({"softmax", "log_softmax", "layer_norm", "rms_norm"})


@cache
def _calls() -> dict[str, Callable[..., Array]]:
    """Return the compiled calls by name."""
    # Import late: `import mdtensor` must not choose kernels (decision 0002).
    from mdtensor.kernels.cpu.float_calls import CALLS

    return CALLS


def call(name: str, x: Array, *options: Any) -> Array:
    """Return what a compiled call returns for an array of float32 or narrow floats."""
    function = _calls()[name]
    if x.dtype == FLOAT32:
        return function(x, *options)
    if name in BY_ROWS:
        return round_to(function(widen(x), *options), x.dtype)
    return unary(function, x, *options)


def pair(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    """Return what the compiled call for a function of `PAIRS` returns for float32."""
    if x1.shape != x2.shape:
        shape = joint_shape(x1.shape, x2.shape)
        x1, x2 = np.broadcast_to(x1, shape), np.broadcast_to(x2, shape)
    if ufunc in EQUAL and x1.size < FEW:
        return np.asarray(quietly(ufunc, x1, x2))
    return _calls()[PAIRS[ufunc]](x1, x2)


def compiled(function: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate a function to run the compiled call of its name, except for float64."""

    @wraps(function)
    def run(x: Array, *options: Any) -> Array:
        if x.dtype == FLOAT32 or is_narrow(x.dtype):
            return call(function.__name__, x, *options)
        return function(x, *options)

    return run
