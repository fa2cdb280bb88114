"""Reductions of any layout have the bytes of the reduction of a copy in order."""

from typing import Any

import numpy as np
import pytest
from support.plain import overflows

from mdtensor.kernels.numpy import ordered

#: Around the sizes from which on rows are halved, blocks are used, and columns are few.
SHAPES = [
    (ordered.COLUMNS + 1, 9),
    (ordered.COLUMNS, 8 * ordered.ROWS + 5),
    (7, ordered.COLUMNS, 11),
    (300, 40, 4),
    (3, 1000, 2),
    (65, 64, 1),
    (2, 3, 1000),
]
TYPES = ("float32", "float64", "complex64", "int32", "uint8")


def layouts(x: Any) -> list[Any]:
    """The same shape in other orders of memory."""
    turned = np.ascontiguousarray(x.T).T
    apart = np.repeat(x, 2, axis=-1)[..., ::2]
    back = np.ascontiguousarray(x[::-1])[::-1]
    return [x, turned, apart, back]


@overflows
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_layout_does_not_change_a_reduction(shape, dtype, ufunc, rng) -> None:
    drawn = rng.standard_normal(shape)
    x = (1 + drawn / 100 if ufunc is np.multiply else drawn * 100).astype(dtype)
    for axes in [(0,), (1,), (x.ndim - 1,), tuple(range(x.ndim)), (0, x.ndim - 1)]:
        axes = tuple(sorted(set(axes)))
        with np.errstate(all="ignore"):
            wanted = np.asarray(ufunc.reduce(x, axes, x.dtype))
        for y in layouts(x):
            found = ordered.reduce(ufunc, y, axes, False, x.dtype)
            assert found.tobytes() == wanted.tobytes(), (axes, y.strides)
            kept = ordered.reduce(ufunc, y, axes, True, x.dtype)
            assert kept.shape == tuple(
                1 if i in axes else n for i, n in enumerate(shape)
            )


def test_zeros_keep_the_sign_of_the_copy() -> None:
    x = np.full((9, ordered.COLUMNS), -0.0).T
    found = ordered.reduce(np.add, x, (1,), False, x.dtype)
    wanted = np.add.reduce(x.copy(order="C"), 1)
    assert np.signbit(found).tolist() == np.signbit(wanted).tolist()
