"""Compiled steps of reductions of float32, and of what is made of them; see `steps.py`.

A plan stores their values of four axes in rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.dtypes import float32
from mdtensor.errors import OptionError
from mdtensor.ops.steps import (
    operation,
    program,
    require_constant,
    require_float32,
    require_sizes,
)
from mdtensor.spec.options import flag, number
from mdtensor.spec.shapes import normalize_axes, normalize_axis
from mdtensor.spec.spec import TensorSpec


def reduce_step(name: str) -> Callable[..., Any]:
    """Return the function that prepares a reduction.

    Args: name: `sum`, `mean`, `max` or `min`.
    """

    def prepare(
        x: TensorSpec, /, *, axis: Any, keepdims: bool, dtype: object = None
    ) -> Any:
        require_float32(x)
        require_sizes(x)
        if dtype not in (None, float32):
            raise OptionError("a compiled sum has the type of its input")
        first, last = neighbours(x.shape, axis)
        return reductions().Reduce(name, first, last, flag(keepdims, "keepdims"))

    return prepare


def reductions() -> Any:
    """Return the module of the steps; it loads numba, so it loads on use."""
    from mdtensor.kernels.cpu.program import reductions

    return reductions


def neighbours(shape: tuple[int, ...], axis: Any) -> tuple[int, int]:
    """Return the axes that are reduced, as the first and the one after the last.

    Raises:
        OptionError: there are none, or an axis of several elements lies between them.
    """
    axes = normalize_axes(axis, len(shape))
    if not axes:
        raise OptionError("a compiled reduction has an axis")
    first, last = min(axes), max(axes) + 1
    if len(axes) != last - first:
        raise OptionError("a compiled reduction has axes that lie side by side")
    return first, last


def log_softmax_step(x: TensorSpec, /, *, axis: int) -> Any:
    """Return the step of x - m - log(sum of e ** (x - m)), m the largest of a row."""
    require_float32(x)
    require_sizes(x)
    if not x.ndim:
        raise OptionError("a compiled log_softmax has an axis")
    return reductions().LogSoftmax(normalize_axis(axis, x.ndim))


def batch_norm_step(
    x: TensorSpec, mean: Any, var: Any, weight: Any, bias: Any, /, *, eps: float
) -> Any:
    """Return the step of (x - mean) · scale + bias with constants for each channel."""
    require_float32(x)
    require_constant(mean, var, weight, bias)
    require_sizes(x)
    if x.ndim < 2:
        raise OptionError("a compiled batch_norm has channels")
    m, v, w, b = (one.buffer.astype(np.float64) for one in (mean, var, weight, bias))
    with np.errstate(all="ignore"):
        scale = w / np.sqrt(v + number(eps, "eps"))
    # Images are channels last in a plan.
    behind = 0 if x.ndim == 4 else x.ndim - 2
    arrays = [one.reshape((-1,) + (1,) * behind) for one in (m, scale, b)]
    floats = program()
    rows = ("SUB", 0, -1), ("MUL", 4, -2), ("ADD", 5, -3)
    made = [floats.Instruction(operation(name), *places) for name, *places in rows]
    return floats.Elementwise(*made, constants=tuple(arrays))
