"""Cases of steps that move codes; NumPy is their oracle."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mdtensor.kernels.cpu.program import steps
from mdtensor.quant.certificate import case
from mdtensor.quant.certificate.case import Case, run

SHAPE = (2, 6, 5, 33)
#: Views of an array of SHAPE: whole rows, single bytes, reversed axes, repeated rows.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "axes reversed": lambda x: x.transpose(3, 2, 1, 0),
    "channels first": lambda x: x.transpose(0, 3, 1, 2),
    "pixels cut out": lambda x: x[:, 1:5:2, ::-1],
    "rows repeated": lambda x: np.broadcast_to(x[:, :, None], (2, 6, 3, 5, 33)),
    "blocks of pixels": lambda x: (
        x[..., :32].reshape(2, 6, 5, 2, 4, 4).transpose(0, 1, 4, 2, 5, 3)
    ),
}
#: Indices along each axis, some of them twice.
PLACES = np.array([3, 0, 0, -1, 2, 1], np.int64)


def cases() -> Iterator[Case]:
    """Return the cases of this module."""
    for name, look in VIEWS.items():
        yield move(name, look)
    for axis in range(4):
        yield take(axis)
        yield concat(axis)


def move(name: str, look: Callable[[Any], Any]) -> Case:
    """Make the test case that compares a copy of a view with its oracle."""
    x = case.uint8_codes("any", f"move: {name}: x", SHAPE)
    step = steps.Move(look)
    return Case("move", name, lambda threads: run(step, (x,), threads), lambda: look(x))


def take(axis: int) -> Case:
    """Make the test case that compares take along an axis with its oracle."""
    name = f"axis {axis}"
    places = PLACES[SHAPE[axis] > PLACES]
    x = case.uint8_codes("any", f"take: {name}: x", SHAPE)
    step = steps.Take(places, axis)
    return Case(
        *("take", name),
        lambda threads: run(step, (x,), threads),
        lambda: np.take(x, places, axis),
    )


def concat(axis: int) -> Case:
    """Make the test case that compares concat along an axis with its oracle."""
    name = f"axis {axis}"
    shape = (*SHAPE[:axis], 3, *SHAPE[axis + 1 :])
    x = case.uint8_codes("any", f"concat: {name}: x", SHAPE)
    y = case.uint8_codes("any", f"concat: {name}: y", shape)
    step = steps.Concat(axis)
    return Case(
        *("concat", name),
        lambda threads: run(step, (x, y), threads),
        lambda: np.concatenate((x, y), axis),
    )
