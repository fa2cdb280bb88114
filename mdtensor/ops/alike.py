"""Fast paths for calls whose operands share one host tensor type."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mdtensor.device import cpu
from mdtensor.kernels.numpy import float16
from mdtensor.kernels.numpy.runtime import runner
from mdtensor.kernels.numpy.threads import LARGE
from mdtensor.ops.operands import PLAIN, new
from mdtensor.tensor import Tensor


# Host tensors of one type skip promotion, since that took longer than adding small
# arrays (decision 0007).
def fast_path(
    general: Any, operation: Any, ufunc: np.ufunc, result: type[Tensor] | None = None
) -> Callable[..., Any]:
    """Return the `fast_path=` of a method that is `general(operation, ufunc, ...)`.

    Args:
        result: type of the result; by default the type of the operands.
    """

    def choose(kind: type[Tensor], *others: type[Tensor]) -> Any:
        if any(other is not kind for other in others):
            return None
        compute = partial(general, operation, ufunc)
        if kind in PLAIN:
            return (_pair if others else _single)(compute, ufunc, result or kind)
        on_host = issubclass(kind, Tensor) and kind.device is cpu
        is_narrow = on_host and float16.is_narrow(kind.dtype.storage)
        return _narrow(compute, ufunc, result or kind) if others and is_narrow else None

    return choose


def _single(general: Any, ufunc: np.ufunc, kind: Any) -> Callable[..., Any]:
    def run(x: Any, /) -> Any:
        if (a := x.buffer).size >= LARGE:
            return general(x)
        try:
            found = runner()(ufunc, a)
        except (LookupError, RuntimeError):  # see quiet
            return general(x)
        result = new(kind)
        result.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return result

    return run


def _pair(general: Any, ufunc: np.ufunc, kind: Any) -> Callable[..., Any]:
    def run(x1: Any, x2: Any, /) -> Any:
        if (a := x1.buffer).size >= LARGE:
            return general(x1, x2)
        try:
            found = runner()(ufunc, a, x2.buffer)
        except (LookupError, RuntimeError, ValueError):  # see quiet; or no broadcast
            return general(x1, x2)
        result = new(kind)
        result.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return result

    return run


def _narrow(general: Any, ufunc: np.ufunc, kind: Any) -> Callable[..., Any]:
    def run(x1: Any, x2: Any, /) -> Any:
        a, b = x1.buffer, x2.buffer
        if a.shape != b.shape:
            return general(x1, x2)
        result = new(kind)
        result.buffer = float16.binary(ufunc, a, b)
        return result

    return run
