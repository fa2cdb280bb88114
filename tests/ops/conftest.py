"""Arrays that families of operations are tried on: every type's edges, every layout."""

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

Array = np.ndarray[Any, Any]


def edges(dtype: np.dtype[Any]) -> list[Any]:
    """Elements of a type on which arithmetic goes wrong first."""
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        near = (least, least + 1, most // 2, most // 2 + 1, most - 1, most)
        return [n for n in (*near, -1, 0, 0, 1, 2, 3, 3) if n >= least]
    if dtype.kind == "c":
        parts = edges(np.dtype(f"f{dtype.itemsize // 2}"))
        return [
            complex(a, b) for a, b in zip(parts, parts[3:] + parts[:3], strict=True)
        ]
    found = ml_dtypes.finfo(dtype)
    finite = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 3.0, float(found.max), float(found.min)]
    return [*finite, float(found.smallest_subnormal), np.inf, -np.inf, np.nan, np.nan]


@pytest.fixture(scope="session")
def sample() -> Callable[..., Array]:
    """`sample(leaf, shape, seed)`: edges of the leaf's type in random order."""

    def draw(leaf: Any, shape: tuple[int, ...], seed: int = 0) -> Array:
        storage = leaf.dtype.storage
        picked = np.random.default_rng(seed).choice(len(edges(storage)), shape)
        return np.asarray(np.array(edges(storage), storage)[picked])

    return draw


@pytest.fixture(scope="session")
def layouts() -> Callable[[Array], Iterator[Array]]:
    """`layouts(x)`: x again in every way that memory can hold it."""

    def each(x: Array) -> Iterator[Array]:
        yield x
        yield x.copy(order="F")
        yield np.flip(np.flip(x).copy())
        wide = np.repeat(x, 2, axis=-1) if x.ndim else x
        yield wide[..., ::2] if x.ndim else x
        locked = x.copy()
        locked.flags.writeable = False
        yield locked

    return each
