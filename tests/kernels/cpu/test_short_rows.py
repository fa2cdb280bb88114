"""Softmax of short rows, many at a time: the bytes of each row computed by itself."""

from typing import Any

import numpy as np
import pytest

from mdtensor.kernels.cpu import float_calls
from mdtensor.kernels.cpu.generic import float_rows

RNG = np.random.default_rng(5)
LENGTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 23, 24, 33)
SPECIAL = np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45])


def added(powers: Any) -> Any:
    """Return the sum of 16 lanes, folded by halves: the order of softmax."""
    rows = np.zeros(-(-len(powers) // 16) * 16, np.float32)
    rows[: len(powers)] = powers
    *whole, rest = rows.reshape(-1, 16)
    # The elements behind the last whole 16 are the first lanes.
    lanes = rest.copy() if len(powers) % 16 else np.zeros(16, np.float32)
    for row in whole if len(powers) % 16 else [*whole, rest]:
        lanes += row
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def of_row(name: str, row: Any) -> Any:
    below = row - row.max()
    powers = float_calls.map_f32("exp", np.ascontiguousarray(below))
    if name == "softmax":
        return powers / added(powers)
    # A plan adds these powers by a step of its own (decision 0127).
    total = np.add.reduce(powers)
    return below - float_calls.map_f32("log", np.float32([total]))[0]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_short_rows_have_the_bytes_of_single_rows(name: str, length: int) -> None:
    together = float_rows.TOGETHER // length
    for rows in (1, 7, together, together + 1):
        x = np.asarray(RNG.normal(size=(rows, length)) * 20, np.float32)
        if rows > 1:
            x.flat[RNG.integers(0, x.size, x.size // 40 + 1)] = RNG.choice(SPECIAL)
        with np.errstate(all="ignore"):
            found = getattr(float_calls, name)(x, 1)
            wanted = np.stack([of_row(name, row) for row in x])
        assert (np.isnan(found) == np.isnan(wanted)).all()
        known = ~np.isnan(wanted)
        assert found[known].tobytes() == wanted[known].tobytes()
