"""Short ways of calls whose operands are plain host tensors of one type."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.kernels.dense.quiet import runner
from mdtensor.ops.operands import LARGE, PLAIN, binary, new, unary
from mdtensor.tensor import Tensor


def alike(operation: Any, ufunc: np.ufunc) -> Callable[..., Any]:
    """What `unary`, and `binary` for one type, come to: nothing is promoted.

    NumPy finds shapes that do not broadcast; then `binary` says so.
    """

    def specialize(kind: type[Tensor], *others: type[Tensor]) -> Any:
        if kind not in PLAIN or any(other is not kind for other in others):
            return None
        return (_pair if others else _single)(operation, ufunc, kind)

    return specialize


def _single(operation: Any, ufunc: np.ufunc, kind: Any) -> Callable[..., Any]:
    def run(x: Any, /) -> Any:
        if (a := x.buffer).size >= LARGE:
            return unary(operation, ufunc, x)
        try:
            found = runner()(ufunc, a)
        except (LookupError, RuntimeError):  # see quiet
            return unary(operation, ufunc, x)
        result = new(kind)
        result.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return result

    return run


def _pair(operation: Any, ufunc: np.ufunc, kind: Any) -> Callable[..., Any]:
    def run(x1: Any, x2: Any, /) -> Any:
        if (a := x1.buffer).size >= LARGE:
            return binary(operation, ufunc, x1, x2)
        try:
            found = runner()(ufunc, a, x2.buffer)
        except (LookupError, RuntimeError, ValueError):  # see quiet; or no broadcast
            return binary(operation, ufunc, x1, x2)
        result = new(kind)
        result.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return result

    return run
