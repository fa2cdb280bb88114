"""The first elements of sorted lines against a stable sort of Python."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.kernels.cpu import order_calls

RNG = np.random.default_rng(8)
TYPES = ("float32", "float64", "int8", "uint8", "int64", "uint64", "float16")
SHAPES = [((300,), 0), ((6, 40), 1), ((40, 6), 0), ((3, 20, 70), 1), ((2, 3, 16), 2)]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_calls, "LEAST", 1)


def order(line: Any, largest: bool) -> list[int]:
    """Return the places of a line in order: NaN is the largest, equal ones stay."""
    sign = -1 if largest else 1

    def key(i: int) -> tuple[bool, Any]:
        value = line[i].item()
        is_nan = value != value
        return is_nan != largest, 0 if is_nan else sign * value

    return sorted(range(len(line)), key=key)


def drawn(shape: Any, kind: str) -> Any:
    x = np.asarray(RNG.normal(size=shape) * 4)
    if kind.startswith("float"):
        x.flat[RNG.integers(0, x.size, x.size // 5)] = 0.0
        special = [np.nan, np.inf, -np.inf, -0.0, 0.0, -0.0]
        x.flat[RNG.integers(0, x.size, 6)] = special
    return np.abs(x).astype(kind) if kind.startswith("u") else x.astype(kind)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_leading_elements_are_those_of_a_stable_sort(
    shape: Any, axis: int, kind: str
) -> None:
    for x in (drawn(shape, kind), np.sort(drawn(shape, kind), axis)):
        for count in (1, 3, shape[axis] // 4):
            for largest in (True, False):
                found = md.topk(md.asarray(x), count, axis=axis, largest=largest)
                lines = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
                wanted = [order(line, largest)[:count] for line in lines]
                places = np.moveaxis(np.asarray(found.indices), axis, -1)
                assert places.reshape(-1, count).tolist() == wanted
                taken = np.take_along_axis(x, np.asarray(found.indices), axis)
                assert np.asarray(found.values).tobytes() == taken.tobytes()


def test_kernels_and_sorting_agree_where_calls_are_recorded() -> None:
    x = md.asarray(drawn((50, 40), "float32"))
    eager = md.topk(x, 5, axis=0)
    with md.lazy():
        recorded = md.topk(x, 5, axis=0)
    compiled = md.compile(lambda x: tuple(md.topk(x, 5, axis=0)))
    for found in (recorded, compiled(x), compiled(x)):
        for a, b in zip(found, eager, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_transpose_has_the_places_of_its_copy() -> None:
    x = drawn((30, 40), "float32").T
    for axis in (0, 1):
        found = md.topk(md.from_numpy(x), 4, axis=axis)
        copy = md.topk(md.asarray(np.ascontiguousarray(x)), 4, axis=axis)
        assert found.indices.tolist() == copy.indices.tolist()
