"""Shape rules of activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdtensor.errors import OptionError, ShapeError
from mdtensor.spec.options import choice, number
from mdtensor.spec.shapes import DYNAMIC, normalize_axis
from mdtensor.spec.spec import TensorSpec

GELU = ("none", "tanh")


def tuned(*divisors: str) -> Callable[..., TensorSpec]:
    """Return a rule that keeps the shape; options are numbers, `divisors` not 0."""

    def rule(x: TensorSpec, **options: Any) -> TensorSpec:
        for name, value in options.items():
            if number(value, name) == 0 and name in divisors:
                raise OptionError(f"{name} is 0", "Use another number")
        return x

    return rule


def bounded(x: TensorSpec, *, min_val: float, max_val: float) -> TensorSpec:
    """Infer type and shape of the argument; the bounds must be in order."""
    low, high = number(min_val, "min_val"), number(max_val, "max_val")
    if not low <= high:
        raise OptionError(f"min_val {low} is above max_val {high}", "Swap them")
    return x


def approximated(x: TensorSpec, *, approximate: str) -> TensorSpec:
    """Infer type and shape of the argument."""
    choice(approximate, "approximate", GELU)
    return x


def sloped(x: TensorSpec, weight: TensorSpec, **_: Any) -> TensorSpec:
    """Infer type and shape of the first argument; one weight, or one per channel."""
    channels = x.shape[1] if x.ndim > 1 else 1
    sizes = {1, channels, DYNAMIC}
    if weight.ndim > 1 or (channels != DYNAMIC and not set(weight.shape) <= sizes):
        raise ShapeError(
            f"the weight has shape {weight.shape}, there are {channels} channels",
            f"Give it shape (1,) or ({channels},)",
        )
    return x


def halved(x: TensorSpec, *, axis: int = -1, **_: Any) -> TensorSpec:
    """Infer the type of the argument and half its size along `axis`."""
    at = normalize_axis(axis, x.ndim)
    size = x.shape[at]
    if size != DYNAMIC and size % 2:
        raise ShapeError(
            f"axis {at} of size {size} does not split into halves", "Make it even"
        )
    half = DYNAMIC if size == DYNAMIC else size // 2
    return x.with_shape((*x.shape[:at], half, *x.shape[at + 1 :]))
