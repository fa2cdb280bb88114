"""Keys of calls of compiled functions: what differs for the function, has two keys.

The oracle is the function itself, called eagerly.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.graph.guards import guard, is_dead

X = md.asarray([1.0, -2.0, 3.0])
WHOLE = md.asarray([1, 2], dtype=md.int64)
CODES = quant.QInt8Tensor([3, 5, 7], scale=0.5)
GRID = quant.QParams(1.0)
RULED = GRID.rounded("tflite_ref")
#: Values that are equal, or have equal hashes, and give other results.
PAIRS: list[tuple[Any, Any]] = [
    (1, 1.0),
    (1, True),
    (0.0, -0.0),
    ((1,), (1.0,)),
    ((0.0, (1,)), (-0.0, (1,))),
    (Decimal("1.0"), Decimal("1.00")),
    (range(0, 3, 2), range(0, 4, 2)),
    (np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00")),
    (np.timedelta64(1, "h"), np.timedelta64(60, "m")),
    (
        datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(2020, 1, 1, tzinfo=UTC),
    ),
    (GRID, RULED),
    (frozenset({1}), frozenset({1.0})),
]
#: Arguments that hold a value.
HOLDERS: list[Callable[[Any], Any]] = [
    lambda value: value,
    lambda value: [value],
    lambda value: {value: 1},
    lambda value: {(value, "a"): 1},
    lambda value: {"a": value},
    lambda value: frozenset({value}),
    lambda value: frozenset({frozenset({(value,)})}),
]


def key_of(value: Any) -> tuple[Any, ...]:
    key: list[Any] = []
    guard(value, [], key)
    return tuple(key)


class Owner:
    """An object with one attribute."""

    def __init__(self, held: Any) -> None:
        self.held = held


@pytest.mark.parametrize("first, second", PAIRS)
def test_equal_values_that_differ_have_two_keys(first: Any, second: Any) -> None:
    for hold in HOLDERS:
        assert key_of(hold(first)) == key_of(hold(first))
        assert key_of(hold(first)) != key_of(hold(second))
    owner = Owner(None)
    for hold in (*HOLDERS, lambda value: {value}):
        found = []
        for value in (first, first, second):
            owner.held = hold(value)
            found.append(key_of(owner))
        assert found[0] == found[1] != found[2]


def test_sets_have_one_key_in_any_order() -> None:
    names = [f"name{i}" for i in range(50)]
    assert key_of(frozenset(names)) == key_of(frozenset(names[::-1]))
    assert key_of(frozenset(names)) != key_of(frozenset(names[1:]))


def test_objects_in_sets_are_looked_at_and_not_kept_alive() -> None:
    inner = Owner(1)
    owner = Owner({inner})
    before = key_of(owner)
    assert key_of(owner) == before
    inner.held = 1.0
    assert key_of(owner) != before
    assert not is_dead(before)
    owner.held = inner = None  # type: ignore[assignment]
    assert is_dead(before)


def test_a_dict_at_the_end_is_not_the_keywords() -> None:
    def scaled(x: Any, options: Any = None, scale: Any = 1.0) -> Any:
        return x * (options["scale"] + 100 if options else scale)

    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((X, {"scale": 2.0}), {}),
        ((X,), {"scale": 2.0}),
        ((X, {"scale": X}), {}),
        ((X,), {"scale": X}),
    ]
    for order in (calls, calls[::-1]):
        compiled = md.compile(scaled)
        for arguments, options in order * 2:
            found = compiled(*arguments, **options)
            assert found.tolist() == scaled(*arguments, **options).tolist()
        assert len(compiled.traces) == 4


@pytest.mark.parametrize("order", [(GRID, RULED), (RULED, GRID)])
def test_a_grid_counts_with_its_rounding_rule(order: Any) -> None:
    def moved(q: Any, held: Any) -> Any:
        while not isinstance(held, quant.QParams):
            held = held.held if isinstance(held, Owner) else held[0]
        return quant.requantize(q, out=held)

    owner = Owner(None)

    def own(grid: Any) -> Any:
        owner.held = grid
        return owner

    for hold in (lambda grid: grid, lambda g: (g,), lambda g: {0: [g]}, own):
        compiled = md.compile(moved)
        for grid in order * 2:
            eager, found = moved(CODES, hold(grid)), compiled(CODES, hold(grid))
            assert found.codes.tolist() == eager.codes.tolist()
            assert found.rounding == eager.rounding == grid.rounding
        assert len(compiled.traces) == 2


def test_keys_of_dicts_and_elements_of_sets_count_with_their_types() -> None:
    times = md.compile(lambda x, names: x * next(iter(names)))
    for one in (1, 1.0, True):
        if one is not True:
            assert times(WHOLE, {one: 2}).dtype is (WHOLE * one).dtype
            assert times(WHOLE, frozenset({one})).dtype is (WHOLE * one).dtype
        times(X, {one: 2})
    for zero in (0.0, -0.0):
        found = np.asarray(times(X, {zero: 2}))
        assert np.signbit(found).tolist() == np.signbit(np.asarray(X * zero)).tolist()


def test_a_partial_counts_with_its_arguments() -> None:
    times = partial(lambda x, by, also: x * by * also[0], also=[1.0])
    times.keywords["by"] = 2.0
    compiled = md.compile(times)
    assert compiled(X).tolist() == [2.0, -4.0, 6.0]
    times.keywords["by"] = 5.0
    assert compiled(X).tolist() == [5.0, -10.0, 15.0]
    times.keywords["also"][0] = 2.0
    for _ in range(2):
        assert compiled(X).tolist() == [10.0, -20.0, 30.0]
    assert len(compiled.traces) == 3
