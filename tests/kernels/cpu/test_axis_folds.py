"""Reductions by kernels against NumPy's own, byte by byte, and against copies."""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from support.plain import overflows

import mdtensor as md
from mdtensor.kernels.cpu import fold_calls
from mdtensor.kernels.numpy import ordered

pytestmark = overflows

RNG = np.random.default_rng(3)
SHAPES = [(900, 4), (4, 900), (500, 8), (30, 7, 20), (7, 30, 20), (2, 3, 4, 5, 40)]
SHAPES += [(400, 16), (3, 50, 8), (30, 128), (30, 129), (3000, 1), (1, 3000)]
TYPES = ("float32", "float64", "int8", "int32", "uint8", "uint64")
NAMES = ("sum", "mean", "prod", "max", "min", "cumulative_sum", "cumulative_prod")


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let kernels reduce short arrays too; the result turns them off."""
    monkeypatch.setattr(ordered, "LONG", 1)
    monkeypatch.setattr(fold_calls, "LEAST", 1)
    # Without compilation, kernels are sums of NumPy scalars, which warn.
    with np.errstate(all="ignore"):
        yield lambda: monkeypatch.setattr(ordered, "LONG", 1 << 60)


def drawn(shape: tuple[int, ...], kind: str) -> Any:
    x = np.asarray(RNG.normal(size=shape) * 50)
    if kind.startswith("float"):
        x.reshape(-1)[RNG.integers(0, x.size, x.size // 9)] = -0.0
        if RNG.random() < 0.3:
            x.reshape(-1)[RNG.integers(0, x.size, 3)] = [np.nan, np.inf, -np.inf]
    return np.abs(x).astype(kind) if kind.startswith("u") else x.astype(kind)


def raw(x: Any) -> Any:
    found = x.buffer
    if found.dtype.kind == "f":
        # The bits of a NaN are not promised (decision 0029).
        found = np.where(np.isnan(found), found.dtype.type(np.nan), found)
    return x.dtype, x.shape, found.tobytes()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_have_the_bytes_of_numpy(kernels: Any, kind: str, shape: Any) -> None:
    x = md.from_numpy(drawn(shape, kind))
    calls = [(name, at) for name in NAMES for at in range(x.ndim)]
    calls += [(name, at) for name in NAMES[:5] for at in (None, (0, 1))]
    found = [raw(getattr(md, name)(x, axis=at)) for name, at in calls]
    kernels()
    wanted = [raw(getattr(md, name)(x, axis=at)) for name, at in calls]
    assert found == wanted


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_transpose_has_the_bytes_of_its_copy(kernels: Any, kind: str) -> None:
    base = drawn((20, 30, 40), kind)
    for order in permutations(range(3)):
        x = base.transpose(order)
        there, copy = md.from_numpy(x), md.from_numpy(np.ascontiguousarray(x))
        for at in (None, 0, 1, 2, (0, 1), (1, 2), (0, 2)):
            for name in ("sum", "mean", "prod", "var", "max"):
                options: Any = {"axis": at, "keepdims": order[0] > 0}
                f = getattr(md, name)
                assert raw(f(there, **options)) == raw(f(copy, **options))
