"""Compiled steps of frames and of copies side by side; see `steps.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.errors import OptionError
from mdtensor.ops.operands import number
from mdtensor.ops.steps import program, require_float32, require_sizes
from mdtensor.spec.shapes import integers, pad_widths
from mdtensor.spec.spec import TensorSpec


def frames() -> Any:
    """Return the module of the steps; it loads numba, so it loads on use."""
    from mdtensor.kernels.cpu.program import frames

    return frames


def stored_order(given: Sequence[Any]) -> list[Any]:
    """Return what there is for each axis, as a plan stores them: images channels last.

    Example:
        >>> stored_order(["n", "c", "h", "w"])
        ['n', 'h', 'w', 'c']
    """
    return [given[i] for i in (0, 2, 3, 1)] if len(given) == 4 else list(given)


def pad_step(x: TensorSpec, /, *, pad_width: Any, value: Any) -> Any:
    """Return the step that puts a frame of one number around floats."""
    require_float32(x)
    require_sizes(x)
    widths = framed(x, pad_width)
    return frames().Pad(widths, number(value, x.dtype), program().F32)


def framed(x: TensorSpec, pad_width: Any) -> list[tuple[int, int]]:
    """Return the widths of a frame as a plan stores x.

    Raises:
        OptionError: there is none.
    """
    widths = stored_order(pad_widths(pad_width, x.ndim))
    if not any(map(any, widths)):
        raise OptionError("a compiled pad has a width above 0")
    return widths


def tile_step(x: TensorSpec, repetitions: Any, /) -> Any:
    """Return the step that puts copies of floats side by side."""
    require_float32(x)
    require_sizes(x)
    counts = copies(x, repetitions)
    return frames().Tile(counts, stored_order(x.shape), program().F32)


def copies(x: TensorSpec, repetitions: Any) -> list[int]:
    """Return how many copies of each axis there are, as a plan stores x.

    Raises:
        OptionError: there are none, or they need another axis.
    """
    counts = integers(repetitions, "repetitions", "")
    if not x.ndim or len(counts) > x.ndim or min(counts, default=1) < 1:
        raise OptionError("a compiled tile has copies along axes of its argument")
    return stored_order([1] * (x.ndim - len(counts)) + [*counts])
