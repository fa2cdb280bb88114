"""Where the elements of a loop are: merged axes, and the jump of each operand.

A walk is an array of int64, laid out as `mdt::walk<N>` of `scalar.cuh`:

    count, rank, size[AXES], jump[operand 0][AXES], jump[operand 1][AXES], ...

Jumps count elements, and are 0 along axes that an operand repeats. Two axes become one
if every operand steps over both as over one, so contiguous arrays have one axis. The
order of axes is never changed: a fold that looks for the first element depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

#: The largest number of axes after merging.
AXES = 8

Ints = tuple[int, ...]


def jumps_of(operand: Any, shape: Ints) -> Ints:
    """Return the elements that an operand steps along each axis of `shape`.

    Args:
        operand: has `shape`, `strides` in bytes and `dtype`, and broadcasts to `shape`.

    Raises:
        ValueError: it does not broadcast.
    """
    extra = len(shape) - len(operand.shape)
    sizes = (1,) * extra + tuple(operand.shape)
    if extra < 0 or any(m not in (1, n) for m, n in zip(sizes, shape, strict=True)):
        problem = f"an operand of shape {tuple(operand.shape)} does not broadcast"
        raise ValueError(f"{problem} to {shape}.")
    item = operand.dtype.itemsize
    steps = (0,) * extra + tuple(s // item for s in operand.strides)
    return tuple(0 if m == 1 else step for m, step in zip(sizes, steps, strict=True))


def walk(shape: Ints, jumps: Sequence[Ints]) -> npt.NDArray[np.int64]:
    """Return the walk over `shape` of operands with these jumps.

    Raises:
        ValueError: more than `AXES` axes remain after merging.
    """
    axes = merged(shape, jumps)
    if len(axes) > AXES:
        fix = "Make the operands contiguous, or reshape them to fewer axes."
        raise ValueError(f"{len(axes)} axes remain of {shape}, above {AXES}. {fix}")
    found = np.zeros(2 + AXES * (1 + len(jumps)), np.int64)
    found[:2] = prod(shape), max(len(axes), 1)
    table = found[2:].reshape(1 + len(jumps), AXES)
    table[0] = 1
    for at, axis in enumerate(axes):
        table[:, at] = axis
    return found


def merged(shape: Ints, jumps: Sequence[Ints]) -> list[Ints]:
    """Return (size, jump of each operand) for the axes that remain after merging."""
    axes: list[Ints] = []
    for size, *steps in zip(shape, *jumps, strict=True):
        # An axis of one element is never stepped along.
        if size == 1:
            continue
        if axes and all(
            outer == inner * size
            for outer, inner in zip(axes[-1][1:], steps, strict=True)
        ):
            axes[-1] = (axes[-1][0] * size, *steps)
        else:
            axes.append((size, *steps))
    return axes
