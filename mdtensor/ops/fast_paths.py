"""Short ways of calls: elementwise functions of host tensors that need no promotion.

`fast_path` skips checks and promotion where all operands share one host type, or one is
a Python number that this type holds.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mdtensor import dtypes
from mdtensor.device import cpu
from mdtensor.errors import PromotionError
from mdtensor.kernels.numpy import float16, float32, runner
from mdtensor.kernels.numpy.threads import LARGE
from mdtensor.ops.operands import NUMBERS, PLAIN, fast_number, new
from mdtensor.promotion import current, with_scalar
from mdtensor.tensor import Tensor
from mdtensor.types import BoolTensor

#: Functions of bools, whose results are bools.
OF_BOOLS = frozenset(
    {
        np.logical_and,
        np.logical_or,
        np.logical_xor,
        np.logical_not,
        np.bitwise_and,
        np.bitwise_or,
        np.bitwise_xor,
        np.invert,
        np.equal,
        np.not_equal,
        np.less,
        np.less_equal,
        np.greater,
        np.greater_equal,
    }
)


# Host tensors of one type, and a tensor with a Python number, skip promotion, since
# that took longer than adding small arrays (decision 0007).
def fast_path(
    general: Callable[..., Any],
    operation: Callable[..., Any],
    ufunc: np.ufunc,
    result: type[Tensor] | None = None,
) -> Callable[..., Any]:
    """Return the `fast_path=` of a method that is `general(operation, ufunc, ...)`.

    Args:
        result: type of the result; by default the type of the operands.
    """

    def choose(kind: type[Tensor], *others: type[Tensor]) -> Any:
        compute = partial(general, operation, ufunc)
        if ufunc in float32.PAIRS and any(map(_is_float32, (kind, *others))):
            return None
        if any(other is not kind for other in others):
            return _with_number(compute, ufunc, result, kind, *others)
        if ufunc in float32.COMPILED and kind.dtype is dtypes.float32:
            return _compiled(float32.COMPILED[ufunc], kind) if kind in PLAIN else None
        if kind in PLAIN or (kind is BoolTensor and ufunc in OF_BOOLS):
            return (_pair if others else _single)(compute, ufunc, result or kind)
        on_host = issubclass(kind, Tensor) and kind.device is cpu
        is_narrow = on_host and float16.is_narrow(kind.dtype.storage)
        return _narrow(compute, ufunc, result or kind) if others and is_narrow else None

    return choose


def _is_float32(kind: type) -> bool:
    """Return whether a type of arguments is a tensor of float32."""
    return issubclass(kind, Tensor) and kind.dtype is dtypes.float32


def inexact_path(
    general: Callable[..., Any], operation: Callable[..., Any], ufunc: np.ufunc
) -> Callable[..., Any]:
    """Return `fast_path` of a function of floats; integers take the general path."""
    choose = fast_path(general, operation, ufunc)

    def choose_inexact(*kinds: type) -> Any:
        tensors = [kind for kind in kinds if issubclass(kind, Tensor)]
        is_inexact = all(not kind.dtype.is_integer for kind in tensors)
        return choose(*kinds) if is_inexact else None

    return choose_inexact


def _single(
    general: Callable[..., Any], ufunc: np.ufunc, kind: type[Tensor]
) -> Callable[..., Any]:
    def run(x: Tensor, /) -> Any:
        if (a := x.buffer).size >= LARGE:
            return general(x)
        try:
            found = runner()(ufunc, a)
        except (LookupError, RuntimeError):
            # The thread's runner is missing or in use; see runtime.
            return general(x)
        result = new(kind)
        result.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return result

    return run


def _compiled(name: str, kind: type[Tensor]) -> Callable[..., Any]:
    def run(x: Tensor, /) -> Any:
        result = new(kind)
        result.buffer = float32.call(name, x.buffer)
        return result

    return run


def _pair(
    general: Callable[..., Any], ufunc: np.ufunc, kind: type[Tensor]
) -> Callable[..., Any]:
    def run(x1: Tensor, x2: Tensor, /) -> Any:
        if (a := x1.buffer).size >= LARGE:
            return general(x1, x2)
        try:
            found = runner()(ufunc, a, x2.buffer)
        except (LookupError, RuntimeError, ValueError):
            # The thread's runner is missing or in use, or the shapes do not broadcast.
            return general(x1, x2)
        result = new(kind)
        result.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return result

    return run


def _with_number(
    general: Callable[..., Any],
    ufunc: np.ufunc,
    result: type[Tensor] | None,
    first: type,
    second: type,
) -> Callable[..., Any] | None:
    """Return the function for a tensor and a Python number, on either side.

    None means that the number changes the type, or that types need promotion.
    """
    kind, given = (first, second) if first in PLAIN else (second, first)
    if kind not in PLAIN or given not in NUMBERS or kind.dtype.is_complex:
        return None
    try:
        if with_scalar(kind.dtype, given) is not kind.dtype:
            return None
    except PromotionError:
        return None  # The method says in which call they have no common type.
    if result is not None and given is int and kind.dtype.is_floating:
        return None  # A comparison must not round an integer.
    made, rules = result or kind, current()
    is_second = kind is first

    def run(x1: Any, x2: Any, /) -> Any:
        x, value = (x1, x2) if is_second else (x2, x1)
        number = fast_number(value, kind.dtype)
        if number is None or (a := x.buffer).size >= LARGE or current() is not rules:
            return general(x1, x2)
        try:
            pair = (a, number) if is_second else (number, a)
            found = runner()(ufunc, *pair)
        except (LookupError, RuntimeError):
            return general(x1, x2)
        wrapped = new(made)
        wrapped.buffer = found if type(found) is np.ndarray else np.asarray(found)
        return wrapped

    return run


def _narrow(
    general: Callable[..., Any], ufunc: np.ufunc, kind: type[Tensor]
) -> Callable[..., Any]:
    def run(x1: Tensor, x2: Tensor, /) -> Any:
        a, b = x1.buffer, x2.buffer
        if a.shape != b.shape:
            return general(x1, x2)
        # The constructor would convert; the buffer already has the right type.
        result = new(kind)
        result.buffer = float16.binary(ufunc, a, b)
        return result

    return run
